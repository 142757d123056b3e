//! The Connect protocol on the port of gRPC: plain requests of HTTP with JSON or binary proto.

use std::io::{Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bellwether::proto::v1;
use bytes::{BufMut, Bytes, BytesMut};
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::Method;
use prost::Message;
use serde_json::{Value, json};

use crate::ops::fetch;
use crate::server::Server;
use crate::web::{self, JSON, VERSIONS, Version, get, next_frame, open, post, request, send};

const GET_APPLICATION: &str = "/bellwether.v1.ApplicationService/GetApplication";
const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";

fn envelope(flags: u8, message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(flags);
    bytes.put_u32(message.len() as u32);
    bytes.put_slice(message);
    bytes.freeze()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

/// The messages of a stream, as they arrive.
struct Envelopes {
    body: hyper::body::Incoming,
    held: BytesMut,
}

impl Envelopes {
    async fn next(&mut self) -> Option<(u8, Bytes)> {
        loop {
            if let Some(length) = self.held.get(1..5) {
                let end = 5 + u32::from_be_bytes(length.try_into().unwrap()) as usize;
                if end <= self.held.len() {
                    let frame = self.held.split_to(end).freeze();
                    return Some((frame[0], frame.slice(5..)));
                }
            }
            self.held.extend_from_slice(&next_frame(&mut self.body).await?);
        }
    }

    async fn json(&mut self) -> (u8, Value) {
        let (flags, message) = self.next().await.expect("there is a message");
        (flags, serde_json::from_slice(&message).unwrap())
    }
}

async fn stream(
    server: &Server,
    version: Version,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Envelopes {
    let request = request(server, Method::POST, WATCH, headers, body);
    let response = open(server.grpc, version, request).await;
    assert_eq!(response.status(), 200);
    Envelopes { body: response.into_body(), held: BytesMut::new() }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_json_reports_and_reads() {
    let server = Server::ephemeral();
    for version in VERSIONS {
        let body = json!({
            "application": "web",
            "unit": "web/0",
            "status": {"level": "LEVEL_BLOCKED", "message": "add a database", "ttl": "90s"},
        });
        let answer = post(&server, version, "ReportService/ReportStatus", &body.to_string()).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, JSON), "{answer:?}");
        let read =
            post(&server, version, "ApplicationService/GetApplication", r#"{"application":"web"}"#);
        let application = &read.await.json()["application"];
        assert_eq!(application["status"]["level"], "LEVEL_BLOCKED", "{application}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_safe_method_is_read_by_get_and_another_is_not() {
    let server = Server::ephemeral();
    web::report(&server, "LEVEL_ACTIVE", "").await;
    let json = "%7B%22application%22:%22web%22%7D";
    let coded = URL_SAFE_NO_PAD.encode(r#"{"application":"web"}"#);
    let packed = URL_SAFE_NO_PAD.encode(gzip(br#"{"application":"web"}"#));
    for version in VERSIONS {
        for query in [
            format!("connect=v1&encoding=json&message={json}"),
            format!("message={json}"),
            format!("connect=v1&encoding=json&base64=1&message={coded}"),
            format!("connect=v1&encoding=json&base64=1&compression=gzip&message={packed}"),
        ] {
            let answer = get(&server, version, &format!("{GET_APPLICATION}?{query}")).await;
            assert_eq!(answer.status, 200, "{query}: {answer:?}");
            assert_eq!(answer.json()["application"]["status"]["level"], "LEVEL_ACTIVE");
            assert_eq!(answer.header("cache-control"), "no-store");
        }
        let list = get(&server, version, "/bellwether.v1.ApplicationService/ListApplications");
        assert_eq!(list.await.json()["applications"].as_array().unwrap().len(), 1);
        let path = "/bellwether.v1.ApplicationService/DeleteApplication?message=%7B%7D";
        let refused = get(&server, version, path).await;
        assert_eq!((refused.status, refused.header("allow")), (405, "POST"), "{refused:?}");
    }
    let binary = v1::GetApplicationRequest { application: "web".into(), ..Default::default() };
    let message = URL_SAFE_NO_PAD.encode(binary.encode_to_vec());
    let path = format!("{GET_APPLICATION}?connect=v1&encoding=proto&base64=1&message={message}");
    let answer = get(&server, Version::Http1, &path).await;
    assert_eq!(answer.header("content-type"), "application/proto");
    let answer = v1::GetApplicationResponse::decode(answer.body).unwrap();
    assert_eq!(answer.application.unwrap().status.unwrap().level, v1::Level::Active as i32);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_json_under_the_status_that_fits() {
    let server = Server::ephemeral();
    let get_application = "ApplicationService/GetApplication";
    for (method, body, status, code, reason) in [
        (get_application, r#"{"application":"web"}"#, 404, "not_found", "APPLICATION_NOT_FOUND"),
        (get_application, r#"{"application":"a/b"}"#, 400, "invalid_argument", "INVALID_NAME"),
        (get_application, "{", 400, "invalid_argument", "MALFORMED_REQUEST"),
        (get_application, "", 400, "invalid_argument", "MALFORMED_REQUEST"),
        (get_application, "{} {}", 400, "invalid_argument", "MALFORMED_REQUEST"),
        (get_application, r#"{"aplication":"web"}"#, 400, "invalid_argument", "MALFORMED_REQUEST"),
    ] {
        let answer = post(&server, Version::Http1, method, body).await;
        let error = answer.json();
        assert_eq!((answer.status, error["code"].as_str()), (status, Some(code)), "{answer:?}");
        assert_eq!(answer.reason(), reason, "{error}");
        let detail = &error["details"][0];
        assert_eq!(detail["type"], "google.rpc.ErrorInfo");
        assert!(STANDARD_NO_PAD.decode(detail["value"].as_str().unwrap()).is_ok());
    }
    let unknown = post(&server, Version::Http1, get_application, r#"{"aplication":"web"}"#).await;
    let message = unknown.json()["message"].to_string();
    assert!(message.contains("aplication"), "the field is named: {message}");
    let missing = post(&server, Version::Http1, "ApplicationService/Nothing", "{}").await;
    assert_eq!(
        (missing.status, missing.header("content-type")),
        (404, "text/plain; charset=utf-8")
    );
    let (_, metrics) = fetch(server.ops, "/metrics");
    let counted = metrics.lines().any(|line| {
        line.contains("GetApplication") && line.contains("NOT_FOUND") && !line.ends_with(" 0")
    });
    assert!(counted, "a call counts as the same call over gRPC:\n{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_another_kind_is_refused_with_those_that_are_accepted() {
    let server = Server::ephemeral();
    for version in VERSIONS {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""] {
            let headers = [("content-type", kind)];
            for (path, accepted) in [
                (GET_APPLICATION, "application/json, application/proto"),
                (WATCH, "application/connect+json, application/connect+proto"),
            ] {
                let request = request(&server, Method::POST, path, &headers, "{}");
                let answer = send(&server, version, request).await;
                assert_eq!((answer.status, answer.header("accept-post")), (415, accepted));
            }
        }
    }
    let grpc = [("content-type", "application/grpc")];
    let grpc = request(&server, Method::POST, GET_APPLICATION, &grpc, "");
    assert_eq!(send(&server, Version::Http1, grpc).await.status, 505);
    let form = [("content-type", "application/connect+json")];
    let path = "/bellwether.v1.ApplicationService/MultiplexWatches";
    let both_ways = request(&server, Method::POST, path, &form, "");
    assert_eq!(send(&server, Version::Http1, both_ways).await.status, 505);
    let version = [("content-type", JSON), ("connect-protocol-version", "2")];
    let version = request(&server, Method::POST, GET_APPLICATION, &version, "{}");
    assert_eq!(send(&server, Version::Http1, version).await.status, 400);
    let packed = [("content-type", JSON), ("content-encoding", "br")];
    let packed = request(&server, Method::POST, GET_APPLICATION, &packed, "{}");
    let packed = send(&server, Version::Http1, packed).await;
    assert_eq!((packed.status, packed.reason().as_str()), (501, "UNSUPPORTED_ENCODING"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_grpc_hold_for_every_form_of_a_body() {
    let server = Server::ephemeral();
    let body = format!(r#"{{"application":"{}"}}"#, "a".repeat(70_000));
    let (plain, packed) = ([("content-type", JSON)], gzip(body.as_bytes()));
    let compressed = [("content-type", JSON), ("content-encoding", "gzip")];
    assert!(packed.len() < 1000);
    for version in VERSIONS {
        for (headers, body) in
            [(&plain[..], body.clone().into_bytes()), (&compressed[..], packed.clone())]
        {
            let request = request(&server, Method::POST, GET_APPLICATION, headers, body);
            let answer = send(&server, version, request).await;
            assert_eq!((answer.status, answer.reason().as_str()), (429, "REQUEST_TOO_LARGE"));
        }
    }
    let headers = [("content-type", "application/connect+json")];
    let large = [&[0][..], &u32::MAX.to_be_bytes()].concat();
    let mut refused = stream(&server, Version::Http1, &headers, large).await;
    let (flags, end) = refused.json().await;
    assert_eq!((flags, &end["error"]["code"]), (2, &json!("resource_exhausted")), "{end}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_body_does_not_cost_the_client_its_answer() {
    let server = Server::ephemeral();
    for (kind, status) in [(JSON, 429), ("text/plain", 415)] {
        for _ in 0..20 {
            let headers = [("content-type", kind)];
            let body = vec![b'x'; 3 << 20];
            let request = request(&server, Method::POST, GET_APPLICATION, &headers, body);
            assert_eq!(send(&server, Version::Http1, request).await.status, status);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_in_the_middle_is_refused_in_time() {
    let server = Server::configured(&["--ephemeral"], "[limits]\nrequest_seconds_max = 1");
    let headers = [("content-type", JSON), ("content-length", "100")];
    let late = request(&server, Method::POST, GET_APPLICATION, &headers, "");
    let (parts, _) = late.into_parts();
    let request = http::Request::from_parts(parts, tonic::body::Body::new(Never));
    let answer = send(&server, Version::Http1, request).await;
    assert_eq!((answer.status, answer.reason().as_str()), (504, "REQUEST_INCOMPLETE"));
}

/// A body whose bytes do not come.
struct Never;

impl http_body::Body for Never {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, tonic::Status>>> {
        Poll::Pending
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_compressed_both_ways() {
    let server = Server::ephemeral();
    let message = "a long message ".repeat(100);
    web::report(&server, "LEVEL_ACTIVE", message.trim()).await;
    let headers =
        [("content-type", JSON), ("content-encoding", "gzip"), ("accept-encoding", "br, gzip")];
    for version in VERSIONS {
        let body = gzip(br#"{"application":"web"}"#);
        let request = request(&server, Method::POST, GET_APPLICATION, &headers, body);
        let answer = send(&server, version, request).await;
        assert_eq!((answer.status, answer.header("content-encoding")), (200, "gzip"));
        let answer: Value = serde_json::from_slice(&gunzip(&answer.body)).unwrap();
        assert_eq!(answer["application"]["status"]["level"], "LEVEL_ACTIVE", "{answer}");
    }
    let headers = [
        ("content-type", "application/connect+json"),
        ("connect-content-encoding", "gzip"),
        ("connect-accept-encoding", "gzip"),
    ];
    let body = envelope(1, &gzip(b"{}"));
    let mut watch = stream(&server, Version::Http1, &headers, body).await;
    let (flags, packed) = watch.next().await.unwrap();
    assert_eq!(flags, 1);
    let first: Value = serde_json::from_slice(&gunzip(&packed)).unwrap();
    assert_eq!(first["upserted"]["name"], "web", "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_streams_in_json_and_in_proto() {
    let server = Server::ephemeral();
    web::report(&server, "LEVEL_ACTIVE", "").await;
    for version in VERSIONS {
        let headers = [("content-type", "application/connect+json")];
        let mut watch = stream(&server, version, &headers, envelope(0, b"{}")).await;
        let (flags, first) = watch.json().await;
        assert_eq!((flags, &first["upserted"]["name"]), (0, &json!("web")), "{first}");
        let (_, complete) = watch.json().await;
        assert_eq!(complete["snapshotComplete"]["applicationCount"], 1, "{complete}");
        let level =
            format!("LEVEL_{}", ["ERROR", "WAITING"][usize::from(version == Version::Http1)]);
        web::report(&server, &level, "").await;
        let (_, change) = watch.json().await;
        assert_eq!(change["upserted"]["status"]["level"], json!(level), "{change}");
    }
    let headers = [("content-type", "application/connect+proto")];
    let mut watch = stream(&server, Version::Http2, &headers, envelope(0, b"")).await;
    let (flags, first) = watch.next().await.unwrap();
    assert_eq!(flags, 0);
    assert!(v1::WatchApplicationsResponse::decode(first).unwrap().event.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_error() {
    let server = Server::ephemeral();
    let headers = [("content-type", "application/connect+json"), ("connect-timeout-ms", "200")];
    let mut watch = stream(&server, Version::Http1, &headers, envelope(0, b"{}")).await;
    loop {
        let (flags, message) = watch.json().await;
        if flags == 2 {
            assert_eq!(message["error"]["code"], "deadline_exceeded", "{message}");
            break;
        }
    }
    assert!(watch.next().await.is_none(), "nothing follows the end");
    let headers = [("content-type", "application/connect+json")];
    let body = envelope(0, br#"{"resumeToken":"x"}"#);
    let mut refused = stream(&server, Version::Http1, &headers, body).await;
    let (flags, end) = refused.json().await;
    assert_eq!((flags, &end["error"]["code"]), (2, &json!("invalid_argument")), "{end}");
    let cut = stream(&server, Version::Http1, &headers, Bytes::from_static(b"\0\0\0\0\x09{"));
    let (flags, end) = cut.await.json().await;
    assert_eq!((flags, &end["error"]["code"]), (2, &json!("invalid_argument")), "{end}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_is_served_only_if_it_is_configured() {
    let page = "https://status.example.com";
    let ask = [
        ("origin", page),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    let call = [("origin", page), ("content-type", JSON)];
    let closed = Server::ephemeral();
    let asked = request(&closed, Method::OPTIONS, GET_APPLICATION, &ask, "");
    let asked = send(&closed, Version::Http1, asked).await;
    assert_eq!(asked.status, 405);
    assert!(!asked.headers.contains_key("access-control-allow-origin"));
    let called = request(&closed, Method::POST, GET_APPLICATION, &call, "{}");
    let called = send(&closed, Version::Http1, called).await;
    assert!(!called.headers.contains_key("access-control-allow-origin"));
    let rebound = [("host", "evil.example:50051"), ("content-type", JSON)];
    let rebound = request(&closed, Method::POST, GET_APPLICATION, &rebound, "{}");
    assert_eq!(send(&closed, Version::Http1, rebound).await.status, 421);

    let open = Server::start(&["--ephemeral", "--allowed-origins", page]);
    let asked = request(&open, Method::OPTIONS, GET_APPLICATION, &ask, "");
    let asked = send(&open, Version::Http1, asked).await;
    assert_eq!((asked.status, asked.header("access-control-allow-origin")), (204, page));
    let called = request(&open, Method::POST, GET_APPLICATION, &call, "{}");
    let called = send(&open, Version::Http1, called).await;
    assert_eq!(called.header("access-control-allow-origin"), page);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_descriptors_are_served() {
    let server = Server::ephemeral();
    let answer = get(&server, Version::Http1, "/descriptor.binpb").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/protobuf"));
    assert_eq!(&answer.body[..], bellwether::proto::FILE_DESCRIPTOR_SET);
    let missing = get(&server, Version::Http1, "/nothing").await;
    assert_eq!(missing.status, 404);
}

/// A status takes two bytes of binary proto and hundreds in memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_million_parts_is_refused_before_it_is_decoded() {
    let server = Server::ephemeral();
    let path = "/bellwether.v1.ReportService/ReplaceStatuses";
    let field = v1::ReplaceStatusesRequest {
        statuses: vec![v1::StatusReport::default()],
        ..v1::ReplaceStatusesRequest::default()
    };
    let binary = field.encode_to_vec().repeat(1 << 20);
    let json = format!("{{\"unit\":\"web/0\",\"statuses\":[{}]}}", vec!["{}"; 1 << 20].join(","));
    for (kind, body) in [("application/proto", binary), (JSON, json.into_bytes())] {
        let headers = [("content-type", kind)];
        let request = request(&server, Method::POST, path, &headers, body);
        let answer = send(&server, Version::Http1, request).await;
        assert_eq!(answer.reason(), "REQUEST_TOO_LARGE", "{answer:?}");
        let message = answer.json()["message"].as_str().unwrap().to_string();
        assert!(message.contains("statuses has more than 4096 entries"), "{message}");
    }
    let peak = server.peak_memory() >> 20;
    assert!(peak < 150, "{peak} MiB for two messages of 3 MiB");
}
