//! Requests that two programs could read in two ways are refused, and what HTTP asks of a server
//! is kept: hosts, types, heads, deadlines, TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use bellwether::proto::v1;
use bytes::Bytes;
use http::Method;

use crate::authority::{Authority, EVERYTHING};
use crate::identities::TokenFile;
use crate::server::{DEADLINE, Server, get};
use crate::web::{self, JSON, VERSIONS, Version, request, send};

const REPORT: &str = "/bellwether.v1.ReportService/ReportStatus";
const BODY: &str =
    r#"{"application": "web", "unit": "web/0", "status": {"level": "LEVEL_ACTIVE"}}"#;

/// Sends bytes, and returns what the server answers up to the end of the connection.
fn raw(to: SocketAddr, bytes: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the status of HTTP.
fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_one_host_and_one_type() {
    let server = Server::ephemeral();
    let json = format!("Content-Type: {JSON}\r\n");
    let hosts = [
        ("1.1", "Host: localhost\r\n", 200),
        ("1.0", "", 200),
        ("1.1", "", 400),
        ("1.1", "Host: localhost\r\nHost: localhost\r\n", 400),
        ("1.1", "Host: localhost\r\nHost: evil.example\r\n", 400),
        ("1.1", "Host: evil.example#.localhost\r\n", 400),
        ("1.1", "Host: evil.example/.localhost\r\n", 400),
        ("1.1", "Host: evil.example@localhost\r\n", 400),
        ("1.1", "Host: evil.example\r\n", 421),
    ];
    for (version, host, expected) in hosts {
        let head = format!("GET /health HTTP/{version}\r\n{host}Connection: close\r\n\r\n");
        let answer = raw(server.grpc, head.as_bytes()).unwrap();
        assert_eq!(status(&answer), expected, "{host}: {answer}");
    }
    for (types, expected) in
        [(json.clone(), 200), (json.repeat(2), 400), (format!("{json}Content-Type: a/b\r\n"), 400)]
    {
        let head = format!(
            "POST {REPORT} HTTP/1.1\r\nHost: localhost\r\n{types}Connection: close\r\n\
             Content-Length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        let answer = raw(server.grpc, head.as_bytes()).unwrap();
        assert_eq!(status(&answer), expected, "{types}: {answer}");
    }
    let twice = [("content-type", "application/grpc"), ("content-type", JSON)];
    let twice = request(&server, Method::POST, REPORT, &twice, BODY);
    assert_eq!(send(&server, Version::Http2, twice).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_json_is_there_once() {
    let server = Server::ephemeral();
    let twice = BODY.replace(r#""unit""#, r#""unit": "web/9", "unit""#);
    let inside = BODY.replace(r#""level""#, r#""level": "LEVEL_ERROR", "level""#);
    for body in [twice, inside] {
        let headers = [("content-type", JSON)];
        let asked = request(&server, Method::POST, REPORT, &headers, body);
        let answer = send(&server, Version::Http1, asked).await;
        assert_eq!((answer.status, answer.reason().as_str()), (400, "MALFORMED_REQUEST"));
        let message = answer.json()["message"].to_string();
        assert!(message.contains("is there twice"), "{message}");
    }
}

#[test]
fn a_head_that_is_too_large_is_answered() {
    let server = Server::ephemeral();
    for size in [70_000, 300_000] {
        let long =
            format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(size));
        let answer = raw(server.grpc, long.as_bytes()).expect("no reset");
        assert_eq!(status(&answer), 431, "{answer}");
        assert!(answer.contains("at most 65536 bytes"), "{answer}");
    }
    // It fits.
    let fits = format!(
        "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: {}\r\n\r\n",
        "x".repeat(60_000)
    );
    assert_eq!(status(&raw(server.grpc, fits.as_bytes()).unwrap()), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_of_zero_has_passed() {
    let server = Server::ephemeral();
    for version in VERSIONS {
        let headers = [("content-type", JSON), ("connect-timeout-ms", "0")];
        let asked = request(&server, Method::POST, REPORT, &headers, BODY);
        let answer = send(&server, version, asked).await;
        assert_eq!((answer.status, answer.reason().as_str()), (504, "DEADLINE_EXCEEDED"));
    }
    let report = v1::ReportStatusRequest {
        application: "web".into(),
        unit: "web/0".into(),
        status: Some(v1::StatusReport { level: v1::Level::Active as i32, ..Default::default() }),
        ..Default::default()
    };
    let message = prost::Message::encode_to_vec(&report);
    let framed = [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()][..], &message].concat();
    for timeout in ["0n", "0S", "00000000m"] {
        let headers =
            [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", timeout)];
        let asked = request(&server, Method::POST, REPORT, &headers, Bytes::from(framed.clone()));
        let answer = send(&server, Version::Http2, asked).await;
        assert_eq!(answer.header("grpc-status"), "4", "{timeout}: {answer:?}");
    }
    let found = server.applications().await.get_application(get("web")).await;
    assert_eq!(found.unwrap_err().code(), tonic::Code::NotFound, "nothing was reported");
}

#[test]
fn browsers_learn_to_use_tls_for_a_host_of_its_own() {
    let authority = Authority::new();
    let server = authority.serve(&["--allowed-origins", "https://bellwether.example"]);
    let ask = |host: &str| {
        let ca = authority.text("ca.pem");
        let url = format!("https://localhost:{}/health", server.grpc.port());
        let host = format!("host: {host}");
        let mut curl = Command::new("curl");
        curl.args(["-4", "-sSi", "--max-time", "20", "--cacert", &ca, "-H", &host, &url]);
        let output = curl.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let answer = ask("bellwether.example");
    assert!(answer.contains("strict-transport-security: max-age=31536000\r\n"), "{answer}");
    // Other servers share this one.
    let answer = ask("localhost");
    assert!(answer.contains(" 200") && !answer.contains("strict-transport"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_descriptors_need_a_known_caller() {
    let tokens = TokenFile::new();
    let token = std::fs::read_to_string(tokens.create("known", "1h")).unwrap();
    let server = tokens.serve(EVERYTHING);
    let ask = async |authorization: &str| {
        let headers = [("authorization", authorization)];
        let headers = if authorization.is_empty() { &[][..] } else { &headers };
        let asked = request(&server, Method::GET, "/descriptor.binpb", headers, "");
        send(&server, Version::Http1, asked).await
    };
    let stranger = ask("").await;
    assert_eq!((stranger.status, stranger.reason().as_str()), (401, "CREDENTIALS_MISSING"));
    assert_eq!(ask("Bearer bw_known_00").await.reason(), "CREDENTIALS_INVALID");
    let known = ask(&format!("Bearer {}", token.trim())).await;
    assert_eq!(known.status, 200);
    assert_eq!(&known.body[..], bellwether::proto::FILE_DESCRIPTOR_SET);
    let open = Server::ephemeral();
    assert_eq!(web::get(&open, Version::Http1, "/descriptor.binpb").await.status, 200);
}

/// A page gives this machine a name of its own, and reads what a browser on it can read.
#[test]
fn no_web_page_reads_the_ops_port() {
    let tokens = TokenFile::new();
    tokens.create("known", "1h");
    let closed = tokens.serve(EVERYTHING);
    for server in [&closed, &Server::ephemeral()] {
        let ask = |path: &str, headers: &str| {
            let head = format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
            raw(server.ops, head.as_bytes()).unwrap()
        };
        for (headers, expected) in [
            ("Host: 127.0.0.1:9090\r\n", 200),
            ("Host: localhost:9090\r\n", 200),
            ("Host: 10.0.0.7:9090\r\n", 200),
            ("Host: [::1]:9090\r\n", 200),
            ("Host: bellwether:9090\r\n", 200),
            ("Host: localhost\r\nSec-Fetch-Site: none\r\n", 200),
            ("Host: evil.example:9090\r\n", 421),
            ("Host: evil.example#.localhost\r\n", 400),
            ("", 400),
            ("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403),
            ("Host: 127.0.0.1\r\nSec-Fetch-Site: same-site\r\n", 403),
        ] {
            let answer = ask("/metrics", headers);
            assert_eq!(status(&answer), expected, "{headers}: {answer:.200}");
            let details = ask("/readyz?verbose", headers);
            assert_eq!(details.contains("[+]store"), expected == 200, "{headers}: {details}");
            // Probes have no secrets.
            assert_eq!(status(&ask("/livez", headers)), 200, "{headers}");
        }
    }
    let named =
        Server::start(&["--ephemeral", "--allowed-origins", "http://bellwether.monitoring:9090"]);
    let head = b"GET /metrics HTTP/1.1\r\nHost: bellwether.monitoring:9090\r\n\r\n";
    assert_eq!(status(&raw(named.ops, head).unwrap()), 200);
}
