//! Answers that no client reads: the attacker asks, and opens no window for what it asked for.

use bellwether::proto::v1;
use prost::Message;
use serde_json::json;

use super::attack::{Attack, Content, PLAIN, STRICT, Target, hold, opened, streams};
use super::frame::{
    END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW, call, frame, get, message, post,
};

/// Applications with long messages: a page of them has ten MiB of text.
const LONG: usize = 700;
const LIST: &str = "/bellwether.v1.ApplicationService/ListStatuses";

const fn unread(
    name: &'static str,
    connections: usize,
    content: Content,
    opening: fn() -> (Vec<u8>, u64),
) -> Attack {
    Attack {
        target: Target { content, ..PLAIN },
        bounds: STRICT,
        ..hold(name, "requests", connections, opening, |_| Vec::new())
    }
}

/// The attacks.
pub const ATTACKS: [Attack; 7] = [
    Attack {
        target: Target { with_tokens: true, ..PLAIN },
        ..unread("unread-files", 30, Content::Nothing, || gets(1000, "/page.js"))
    },
    Attack {
        target: Target { with_tokens: true, ..PLAIN },
        ..unread("unread-files-http1", 150, Content::Nothing, || plain_gets(200, "/page.js"))
    },
    unread("unread-pages", 4, Content::LongMessages(LONG), || gets(200, "/")),
    unread("unread-pages-http1", 150, Content::LongMessages(LONG), || plain_gets(1, "/")),
    unread("unread-json", 3, Content::LargeUnit, json_lists),
    unread("unread-json-http1", 150, Content::LargeUnit, plain_json_list),
    unread("unread-statuses", 3, Content::LargeUnit, lists),
];

const NO_WINDOW: [(u16, u32); 1] = [(INITIAL_WINDOW, 0)];

/// Requests of HTTP/2 for a path.
fn gets(count: u32, path: &str) -> (Vec<u8>, u64) {
    let mut out = Vec::new();
    for number in 0..count {
        frame(&mut out, HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &get(path));
    }
    opened(&NO_WINDOW, count, out)
}

/// Requests of HTTP/1.1 for a path, one after the other.
fn plain_gets(count: usize, path: &str) -> (Vec<u8>, u64) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    (request.repeat(count).into_bytes(), count as u64)
}

fn json_list() -> String {
    json!({"application": "large", "pageSize": 1000}).to_string()
}

fn json_lists() -> (Vec<u8>, u64) {
    let block = post(LIST, "application/json");
    opened(&NO_WINDOW, 1000, streams(1000, &block, json_list().as_bytes(), END_STREAM))
}

fn plain_json_list() -> (Vec<u8>, u64) {
    let body = json_list();
    let head = format!(
        "POST {LIST} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    ((head + &body).into_bytes(), 1)
}

fn lists() -> (Vec<u8>, u64) {
    let request = v1::ListStatusesRequest {
        application: "large".into(),
        page_size: 1000,
        ..Default::default()
    };
    let data = message(&request.encode_to_vec());
    opened(&NO_WINDOW, 1000, streams(1000, &call(LIST, &[]), &data, END_STREAM))
}
