//! A message with too many parts is refused before it is decoded, through every door.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bellwether::proto::v1;
use bellwether::proto::v1::connect_response::Message as Told;
use bytes::{BufMut, Bytes, BytesMut};
use flate2::write::GzEncoder;
use http::Method;
use prost::Message;
use serde_json::{Value, json};
use tonic_types::StatusExt;

use crate::ops::fetch;
use crate::peer::{Peer, hello, status};
use crate::raw_call::call_path;
use crate::server::Server;
use crate::web::{self, Answer, JSON, Version, request};

const SERVICE: &str = "/bellwether.v1.ApplicationService";
const UPDATE: &str = "/bellwether.v1.AppDataService/UpdateAppData";
/// Empty texts: nearly 4 MiB of JSON, and 2.8 MB of binary proto.
const MANY: usize = 1_390_000;
/// Memory that all of the calls may take: one of them took 197 MiB when it was decoded.
const MEMORY_MAX: u64 = 48 << 20;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn envelope(flags: u8, message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(flags);
    bytes.put_u32(message.len() as u32);
    bytes.put_slice(message);
    bytes.freeze()
}

fn mk_watch(count: usize) -> v1::WatchApplicationsRequest {
    v1::WatchApplicationsRequest { applications: vec![String::new(); count], ..Default::default() }
}

fn mk_delete(count: usize) -> v1::UpdateAppDataRequest {
    v1::UpdateAppDataRequest { delete: vec![String::new(); count], ..Default::default() }
}

fn texts(field: &str, count: usize) -> String {
    format!("{{\"{field}\":[{}]}}", vec!["\"\""; count].join(","))
}

/// Returns reason and limit of an error in JSON.
fn named(error: &Value) -> (String, String) {
    let details = error["details"].as_array().into_iter().flatten();
    let info = details.map(|detail| &detail["debug"]).find(|debug| debug["reason"].is_string());
    let info = info.unwrap_or_else(|| panic!("{error} has no reason"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    (text(&info["reason"]), text(&info["metadata"]["limit"]))
}

/// Returns reason and limit of an error of a stream: its last message.
fn named_at_end(answer: &Answer) -> (String, String) {
    let end: Value = serde_json::from_slice(&answer.body[5..]).unwrap();
    named(&end["error"])
}

fn refused(limit: &str) -> (String, String) {
    ("REQUEST_TOO_LARGE".into(), limit.into())
}

async fn send(server: &Server, path: &str, headers: &[(&str, &str)], body: Bytes) -> Answer {
    web::send(server, Version::Http1, request(server, Method::POST, path, headers, body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_too_long_is_refused_by_grpc() {
    let server = Server::ephemeral();
    let idle = server.peak_memory();
    let channel = server.channel().await;
    let create = v1::CreateWatch { watch_id: 1, watch: Some(mk_watch(MANY)) };
    let multiplexed = v1::MultiplexWatchesRequest {
        request: Some(v1::multiplex_watches_request::Request::Create(create)),
    };
    let statuses = vec![v1::StatusReport::default(); 5000];
    let replaced = v1::ReplaceStatusesRequest { statuses, ..Default::default() };
    for (path, message, limit) in [
        (UPDATE.into(), mk_delete(MANY).encode_to_vec(), "data_keys_max"),
        (
            format!("{SERVICE}/WatchApplications"),
            mk_watch(MANY).encode_to_vec(),
            "request_list_max",
        ),
        (format!("{SERVICE}/MultiplexWatches"), multiplexed.encode_to_vec(), "request_list_max"),
        (
            "/bellwether.v1.ReportService/ReplaceStatuses".into(),
            replaced.encode_to_vec(),
            "request_list_max",
        ),
    ] {
        let answer = call_path(&channel, &path, &[], vec![message]).await;
        let status = match answer {
            Ok(mut answers) => answers.message().await.unwrap_err(),
            Err(status) => status,
        };
        let info = status.get_details_error_info().unwrap();
        let found = (info.reason, info.metadata["limit"].clone());
        assert_eq!(found, refused(limit), "{path}: {}", status.message());
    }
    let grown = server.peak_memory() - idle;
    assert!(grown < MEMORY_MAX, "{grown}");
    let counted = fetch(server.ops, "/metrics").1;
    let line = "bellwether_limit_refusals_total{limit=\"request_list_max\"} 3";
    assert!(counted.contains(line), "{counted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_too_long_is_refused_by_http() {
    let server = Server::ephemeral();
    let idle = server.peak_memory();
    let watch = format!("{SERVICE}/WatchApplications");
    let json = [("content-type", JSON)];
    let answer = send(&server, UPDATE, &json, texts("delete", MANY).into()).await;
    assert_eq!((answer.status, named(&answer.json())), (429, refused("data_keys_max")));
    let proto = [("content-type", "application/proto")];
    let answer = send(&server, UPDATE, &proto, mk_delete(MANY).encode_to_vec().into()).await;
    assert_eq!(named(&answer.json()), refused("data_keys_max"));
    let streams = [("content-type", "application/connect+json")];
    let body = envelope(0, texts("applications", MANY).as_bytes());
    let answer = send(&server, &watch, &streams, body).await;
    assert_eq!(named_at_end(&answer), refused("request_list_max"));
    let streams = [("content-type", "application/connect+proto")];
    let body = envelope(0, &mk_watch(MANY).encode_to_vec());
    let answer = send(&server, &watch, &streams, body).await;
    assert_eq!(named_at_end(&answer), refused("request_list_max"));
    let grpc_web = [("content-type", "application/grpc-web+proto"), ("x-grpc-web", "1")];
    let body = envelope(0, &mk_delete(MANY).encode_to_vec());
    let answer = send(&server, UPDATE, &grpc_web, body).await;
    let text = format!("{:?} {}", answer.headers, String::from_utf8_lossy(&answer.body));
    assert!(text.contains("data_keys_max"), "{text}");
    // A GET has a query of 64 KiB at most, so its list is shorter.
    let levels = json!({"levels": vec![1; 5000]}).to_string();
    for query in [
        format!("message={levels}"),
        format!(
            "base64=1&compression=gzip&message={}",
            URL_SAFE_NO_PAD.encode(gzip(levels.as_bytes()))
        ),
    ] {
        let path = format!("{SERVICE}/ListApplications?{query}").replace('"', "%22");
        let answer = web::get(&server, Version::Http1, &path).await;
        assert_eq!(named(&answer.json()), refused("request_list_max"));
    }
    let names = URL_SAFE_NO_PAD.encode(gzip(texts("applications", 5000).as_bytes()));
    let path = format!("{watch}?base64=1&compression=gzip&message={names}");
    let events = request(&server, Method::GET, &path, &[("accept", "text/event-stream")], "");
    let answer = web::send(&server, Version::Http1, events).await;
    assert_eq!(named(&answer.json()), refused("request_list_max"));
    let grown = server.peak_memory() - idle;
    assert!(grown < MEMORY_MAX, "{grown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_becomes_a_thousand_times_as_large_is_refused() {
    let server = Server::ephemeral();
    let idle = server.peak_memory();
    let bomb = gzip(texts("applications", MANY).as_bytes());
    assert!(bomb.len() < 8 << 10, "{}", bomb.len());
    let watch = format!("{SERVICE}/WatchApplications");
    let headers =
        [("content-type", "application/connect+json"), ("connect-content-encoding", "gzip")];
    let answer = send(&server, &watch, &headers, envelope(1, &bomb)).await;
    assert_eq!(named_at_end(&answer), refused("compression_ratio_max"));
    let headers = [("content-type", JSON), ("content-encoding", "gzip")];
    let bomb = gzip(texts("delete", MANY).as_bytes());
    let answer = send(&server, UPDATE, &headers, bomb.into()).await;
    assert_eq!(named(&answer.json()), refused("compression_ratio_max"));
    let grown = server.peak_memory() - idle;
    assert!(grown < MEMORY_MAX, "{grown}");
    // A small body may have any ratio.
    let status = json!({"level": "LEVEL_ACTIVE", "message": "a".repeat(4000)});
    let report = json!({"application": "web", "unit": "web/0", "status": status}).to_string();
    let path = "/bellwether.v1.ReportService/ReportStatus";
    let answer = send(&server, path, &headers, gzip(report.as_bytes()).into()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Returns how often large requests were decoded beside the threads that serve connections.
fn decoded(server: &Server) -> u64 {
    let text = fetch(server.ops, "/metrics").1;
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("bellwether_offloaded_total{work=\"decode\"} "));
    count.unwrap_or("0").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_is_decoded_beside_the_threads_that_serve_connections() {
    let server = Server::ephemeral();
    let set = |count: usize| v1::ReplaceStatusesRequest {
        application: "web".into(),
        unit: "web/0".into(),
        statuses: (0..count)
            .map(|key| v1::StatusReport {
                key: format!("{key:04}"),
                level: v1::Level::Active.into(),
                message: "m".repeat(100),
                ..v1::StatusReport::default()
            })
            .collect(),
        ..Default::default()
    };
    let mut reports = server.reports().await;
    reports.replace_statuses(set(100)).await.unwrap();
    assert_eq!(decoded(&server), 0, "a small request is decoded where it arrives");
    reports.replace_statuses(set(1000)).await.unwrap();
    assert_eq!(decoded(&server), 1);
    let statuses: Vec<Value> = (0..1000)
        .map(|key| {
            let message = "m".repeat(100);
            json!({"key": format!("{key:04}"), "level": "LEVEL_ACTIVE", "message": message})
        })
        .collect();
    let body = json!({"application": "web", "unit": "web/1", "statuses": statuses}).to_string();
    let path = "/bellwether.v1.ReportService/ReplaceStatuses";
    let answer = send(&server, path, &[("content-type", JSON)], body.into()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // From JSON to binary proto, and from that to the handler.
    assert_eq!(decoded(&server), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_of_a_session_is_decoded_there_too() {
    let server = Server::ephemeral();
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    let statuses = |count: usize| {
        let status = |key| v1::StatusReport {
            key: format!("{key:04}"),
            ..status(v1::Level::Active, &"m".repeat(100))
        };
        (0..count).map(status).collect::<Vec<_>>()
    };
    for (count, expected) in [(1, 0), (1000, 1), (1, 1)] {
        let seq = peer.replace("", statuses(count)).await;
        loop {
            match peer.next().await.unwrap().expect("the session goes on") {
                Told::Ack(ack) if ack.seq == seq => break,
                Told::Reject(reject) => panic!("no acknowledgement: {reject:?}"),
                _ => {}
            }
        }
        assert_eq!(decoded(&server), expected, "{count}");
    }
    peer.replace("", vec![v1::StatusReport::default(); 200_000]).await;
    let refused = loop {
        match peer.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a list that is too long was accepted"),
            Err(status) => break status,
        }
    };
    let info = refused.get_details_error_info().unwrap();
    assert_eq!(info.metadata["limit"], "request_parts_max", "{}", refused.message());
}
