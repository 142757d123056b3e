//! Watches as Server-Sent Events, as a browser and `curl -N` read them.

use hyper::body::Incoming;
use serde_json::{Value, json};

use http::Method;

use crate::server::Server;
use crate::web::{VERSIONS, Version, get, next_frame, open, report, request};

const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";

/// One event: its id, if it has one, its name and its data.
#[derive(Debug)]
struct Event {
    id: Option<String>,
    name: String,
    data: Value,
}

struct Events {
    body: Incoming,
    held: String,
}

impl Events {
    async fn open(server: &Server, version: Version, headers: &[(&str, &str)]) -> Events {
        let mut all = vec![("accept", "text/event-stream")];
        all.extend(headers);
        let request = request(server, Method::GET, WATCH, &all, "");
        let response = open(server.grpc, version, request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { body: response.into_body(), held: String::new() }
    }

    /// Returns the next event with data, as the standard of HTML reads it; `None` at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.held.split_once("\n\n") {
                let event = parsed(block);
                self.held = rest.to_string();
                if let Some(event) = event {
                    return Some(event);
                }
            }
            let bytes = next_frame(&mut self.body).await?;
            self.held.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    async fn expect(&mut self, field: &str) -> Event {
        let event = self.next().await.expect("there is an event");
        assert!(event.data.get(field).is_some(), "{field}: {event:?}");
        event
    }
}

fn parsed(block: &str) -> Option<Event> {
    let (mut id, mut name, mut data) = (None, "message".to_string(), None);
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_string();
        match field {
            "id" => id = Some(value),
            "event" => name = value,
            "data" => data = Some(serde_json::from_str(&value).unwrap()),
            _ => {}
        }
    }
    data.map(|data| Event { id, name, data })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_follows_and_resumes_where_it_was() {
    let server = Server::ephemeral();
    for version in VERSIONS {
        report(&server, "LEVEL_ACTIVE", "").await;
        let mut events = Events::open(&server, version, &[]).await;
        let first = events.expect("upserted").await;
        assert_eq!((first.id, first.name.as_str()), (None, "message"));
        let complete = events.expect("snapshotComplete").await;
        let token = complete.id.expect("a resume token");
        assert_eq!(complete.data["resumeToken"], json!(token));
        report(&server, "LEVEL_WAITING", "").await;
        let change = events.expect("upserted").await;
        assert_eq!(change.data["upserted"]["status"]["level"], "LEVEL_WAITING");
        drop(events);
        report(&server, "LEVEL_BLOCKED", "").await;
        let mut resumed = Events::open(&server, version, &[("last-event-id", &token)]).await;
        let newest = resumed.expect("upserted").await;
        assert_eq!(newest.data["upserted"]["status"]["level"], "LEVEL_BLOCKED");
        let bookmark = resumed.next().await.unwrap();
        assert!(bookmark.data.get("snapshotComplete").is_none(), "no snapshot: {bookmark:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_is_forgotten_and_the_browser_starts_again() {
    let (old, new) = (Server::ephemeral(), Server::ephemeral());
    let mut events = Events::open(&old, Version::Http1, &[]).await;
    let token = events.expect("snapshotComplete").await.id.unwrap();
    let mut refused = Events::open(&new, Version::Http1, &[("last-event-id", &token)]).await;
    let end = refused.next().await.unwrap();
    assert_eq!((end.name.as_str(), end.id.as_deref()), ("end", Some("")));
    assert_eq!(end.data["code"], "out_of_range");
    assert!(refused.next().await.is_none());
    let malformed = [("accept", "text/event-stream"), ("last-event-id", "x")];
    let malformed = request(&new, Method::GET, WATCH, &malformed, "");
    assert_eq!(open(new.grpc, Version::Http1, malformed).await.status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_ends_the_stream_so_that_the_browser_reconnects() {
    let mut server = Server::ephemeral();
    report(&server, "LEVEL_ACTIVE", "").await;
    let mut events = Events::open(&server, Version::Http1, &[]).await;
    events.expect("upserted").await;
    events.expect("snapshotComplete").await;
    server.terminate();
    events.expect("drain").await;
    let end = events.next().await.unwrap();
    assert_eq!((end.name.as_str(), &end.data["code"]), ("end", &json!("unavailable")));
    assert!(events.next().await.is_none());
    assert!(server.wait().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_selects_what_is_watched() {
    let server = Server::ephemeral();
    report(&server, "LEVEL_ACTIVE", "").await;
    let path = format!("{WATCH}?message=%7B%22namespace%22:%22other%22%7D");
    let headers = [("accept", "text/event-stream")];
    let request = request(&server, Method::GET, &path, &headers, "");
    let body = open(server.grpc, Version::Http1, request).await.into_body();
    let complete = Events { body, held: String::new() }.expect("snapshotComplete").await;
    assert_eq!(complete.data["snapshotComplete"].get("applicationCount"), None);
    let unknown = get(&server, Version::Http1, &format!("{WATCH}?message=%7B%22x%22:1%7D")).await;
    assert_eq!(unknown.status, 406, "without the header it is no stream of events");
}
