//! Bodies of requests that end early or have no form of HTTP, by every protocol of the port: they
//! are errors of the client, and the log does not grow with them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use bytes::Bytes;
use http::Method;

use crate::ops::fetch;
use crate::server::{DEADLINE, Server, command, eventually};
use crate::web::{Version, request, send};

const REPORT: &str = "/bellwether.v1.ReportService/ReportStatus";
const KINDS: [&str; 4] = [
    "application/grpc-web+proto",
    "application/grpc-web-text",
    "application/json",
    "application/proto",
];

/// Sends a request of HTTP/1.1, ends it, and returns what the server answers.
fn raw(server: &Server, kind: &str, rest: &str) -> String {
    let mut stream = TcpStream::connect(server.grpc).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let head = format!("POST {REPORT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n");
    stream.write_all(format!("{head}{rest}").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Opens a call of HTTP/2 with a part of its body, and resets its stream.
async fn reset(server: &Server, kind: &str) {
    let stream = tokio::net::TcpStream::connect(server.grpc).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::post(format!("{}{REPORT}", server.url()));
    let request = request.header("content-type", kind).body(()).unwrap();
    let mut client = client.ready().await.unwrap();
    let (answer, mut body) = client.send_request(request, false).unwrap();
    body.send_data(Bytes::from_static(&[0, 0, 0]), false).unwrap();
    // The server has read the first part once it answers a later call.
    let later = request_of(server, "application/json", "{}");
    send(server, Version::Http2, later).await;
    body.send_reset(h2::Reason::CANCEL);
    assert!(answer.await.is_err());
}

fn request_of(server: &Server, kind: &str, body: &str) -> http::Request<tonic::body::Body> {
    request(server, Method::POST, REPORT, &[("content-type", kind)], body.to_string())
}

/// Returns how many calls of the method ended with each code.
fn codes(metrics: &str) -> Vec<(String, u32)> {
    let name = "rpc_server_call_duration_seconds_count";
    let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains("ReportS"));
    let code = |line: &str| {
        let (_, rest) = line.split_once("rpc_response_status_code=\"").unwrap();
        rest.split('"').next().unwrap().to_string()
    };
    let count = |line: &str| line.rsplit(' ').next().unwrap().parse().unwrap();
    lines.map(|line| (code(line), count(line))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_body_is_an_error_of_the_client_by_every_protocol() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = command(&["--ephemeral"]);
    command.stderr(log.reopen().unwrap());
    let server = Server::spawn(command);
    let (cut, chunked) = ("Content-Length: 100\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n");
    let mut sent = 0;
    for kind in KINDS {
        for rest in [cut.to_string(), format!("{chunked}zz\r\nhalf"), format!("{chunked}9\r\nhalf")]
        {
            let answer = raw(&server, kind, &rest);
            sent += 1;
            let is_malformed = rest.contains("zz");
            if is_malformed && !kind.contains("grpc") {
                assert!(answer.starts_with("HTTP/1.1 400 "), "{kind}: {answer}");
                assert!(answer.contains("MALFORMED_REQUEST"), "{kind}: {answer}");
            } else if is_malformed {
                assert!(answer.starts_with("HTTP/1.1 200 "), "{kind}: {answer}");
                let says =
                    ["grpc-status: 3", "grpc-status:3", "invalid_argument", "Z3JwYy1zdGF0dXM6M"];
                assert!(says.iter().any(|words| answer.contains(words)), "{kind}: {answer}");
            }
        }
        reset(&server, kind).await;
        sent += 1;
    }
    // Text that is no base64, and that ends within four characters.
    for body in ["AA*A", "AAAAAAA"] {
        let text = request_of(&server, "application/grpc-web-text", body);
        let answer = send(&server, Version::Http1, text).await;
        sent += 1;
        assert_eq!(answer.header("grpc-status"), "3", "{answer:?}");
    }
    let metrics = eventually("the calls are counted", async || {
        let metrics = fetch(server.ops, "/metrics").1;
        let ended: u32 = codes(&metrics).iter().map(|(_, count)| count).sum();
        (sent <= ended).then_some(metrics)
    })
    .await;
    for (code, _) in codes(&metrics) {
        assert!(
            ["CANCELLED", "INVALID_ARGUMENT"].contains(&code.as_str()),
            "{:?}",
            codes(&metrics)
        );
    }
    assert_eq!(metrics.lines().find(|line| line.contains("error_type=")), None);
    let log = std::fs::read_to_string(log.path()).unwrap();
    assert!(!log.contains("call failed"), "{log}");
}
