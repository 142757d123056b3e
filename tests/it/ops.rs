//! Metrics and probes for operators; an unavailable collector affects no client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use bellwether::proto::v1::Level;

use crate::server::{DEADLINE, Server, command, get, mk_report};

/// Sends a plain HTTP GET. Returns the status line and the body.
pub fn fetch(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_string(), body.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_happened() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for (level, message) in [(Level::Active, "a"), (Level::Active, "a"), (Level::Blocked, "b")] {
        reports.report_status(mk_report("web", "web/0", level, message)).await.unwrap();
    }
    let mut applications = server.applications().await;
    applications.get_application(get("nobody")).await.unwrap_err();
    let (status, text) = fetch(server.ops, "/metrics");
    assert!(status.contains("200"), "{status}");
    for expected in [
        r#"bellwether_reports_total{result="changed"} 2"#,
        r#"bellwether_reports_total{result="repeated"} 1"#,
        r#"bellwether_applications{level="blocked"} 1"#,
        r#"bellwether_units{level="blocked"} 1"#,
        "bellwether_commit_duration_seconds_bucket",
        "bellwether_commit_batch_size",
        "bellwether_watch_streams",
        "bellwether_build_info",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    let calls = text.lines().find(|line| {
        line.starts_with("rpc_server_call_duration_seconds_count")
            && line.contains("bellwether.v1.ReportService/ReportStatus")
            && line.contains("OK")
    });
    assert!(calls.is_some_and(|line| line.ends_with(" 3")), "{calls:?}");
    assert!(!text.contains("web/0"), "names of units are no labels");
    assert_eq!(fetch(server.ops, "/livez").1, "ok\n");
    assert!(fetch(server.ops, "/readyz?verbose").1.contains("[+]store ok"));
    assert!(fetch(server.ops, "/nothing").0.contains("404"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_is_not_noticed() {
    // A collector that accepts connections and never answers.
    let black_hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", black_hole.local_addr().unwrap());
    let mut command = command(&["--ephemeral"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    let mut server = Server::spawn(command);
    let mut reports = server.reports().await;
    for n in 0..100 {
        let report = mk_report("web", "web/0", Level::Active, &n.to_string());
        reports.report_status(report).await.unwrap();
    }
    drop(reports);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "the shutdown is not held up");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_stops_cleanly_with_a_client_that_never_reads() {
    let mut server = Server::ephemeral();
    let _silent = TcpStream::connect(server.grpc).unwrap();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

/// Places of the ops port that clients hold with half a request become free.
#[test]
fn half_requests_do_not_lock_a_probe_out() {
    let server = Server::ephemeral();
    let half = || {
        let mut stream = TcpStream::connect(server.ops).unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n").unwrap();
        stream
    };
    let held: Vec<TcpStream> = (0..300).map(|_| half()).collect();
    assert_eq!(fetch(server.ops, "/livez").1, "ok\n");
    drop(held);
}
