//! Requests that cost much and are short, and requests for large pages.

use std::io::Write;
use std::sync::LazyLock;

use bellwether::proto::v1;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::attack::{Attack, Content, Means, PLAIN, STRICT, Target, Turn, flood};
use super::frame::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW, SETTINGS, WINDOW_UPDATE, frame, get,
    literal, message, post,
};

const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";
const UPDATE: &str = "/bellwether.v1.AppDataService/UpdateAppData";
/// Empty texts in one list: 4.2 MB of JSON, of which gzip makes 4 KB.
const TEXTS: usize = 1_390_000;
/// The least interval of two large requests of a connection.
const PER_SECOND: u64 = 80;

/// The attacks.
pub const ATTACKS: [Attack; 3] = [
    Attack { bounds: STRICT, ..few("gzip-lists", 4, gzip_lists) },
    Attack {
        name: "long-lists",
        unit: "calls",
        means: Means::Calls { connections: 8, path: UPDATE, message: long_list },
        target: PLAIN,
        bounds: STRICT,
    },
    Attack {
        target: Target { content: Content::Applications(10_000), ..PLAIN },
        bounds: STRICT,
        ..few("large-pages", 16, pages)
    },
];

const fn few(name: &'static str, connections: usize, chunk: fn(&mut Turn)) -> Attack {
    let means = Means::Flood { connections, per_second: Some(PER_SECOND), chunk };
    Attack { means, ..flood(name, "requests", chunk) }
}

/// A list of texts in JSON, as one compressed message of Connect.
static GZIP: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let json = format!("{{\"applications\":[{}]}}", vec!["\"\""; TEXTS].join(","));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let packed = encoder.write_all(json.as_bytes()).and_then(|()| encoder.finish());
    let mut message = message(&packed.unwrap_or_default());
    message[0] = 1;
    message
});

/// A list of texts in binary proto.
static PROTO: LazyLock<Bytes> = LazyLock::new(|| {
    let delete = vec![String::new(); TEXTS];
    v1::UpdateAppDataRequest { delete, ..Default::default() }.encode_to_vec().into()
});

fn long_list() -> Bytes {
    PROTO.clone()
}

fn gzip_lists(turn: &mut Turn) {
    let mut block = post(WATCH, "application/connect+json");
    literal(&mut block, "connect-content-encoding", "gzip");
    send(turn, &block, &GZIP);
}

fn send(turn: &mut Turn, block: &[u8], body: &[u8]) {
    let stream = turn.open();
    frame(&mut turn.out, HEADERS, END_HEADERS, stream, block);
    frame(&mut turn.out, DATA, END_STREAM, stream, body);
    turn.units = 1;
}

/// A page, on a connection that has a window for many.
fn pages(turn: &mut Turn) {
    let stream = turn.open();
    if stream == 1 {
        let window = (1_u32 << 31) - 1;
        let setting = [&INITIAL_WINDOW.to_be_bytes()[..], &window.to_be_bytes()].concat();
        frame(&mut turn.out, SETTINGS, 0, 0, &setting);
        frame(&mut turn.out, WINDOW_UPDATE, 0, 0, &(window - 65_535).to_be_bytes());
    }
    let block = get("/");
    frame(&mut turn.out, HEADERS, END_HEADERS | END_STREAM, stream, &block);
    turn.units = 1;
}
