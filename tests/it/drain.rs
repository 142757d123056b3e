//! The stop of a server: immediately for clients with nothing open, and at the second signal for
//! all.

use bellwether::proto::v1;
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use bellwether::proto::v1::Level;

use crate::ops::fetch;
use crate::server::{Server, eventually, get, mk_report, reason};

/// Longer than any test waits: a stream that ends did not end because of the deadline.
const NEVER: &str = "drain_deadline_seconds = 3600";

#[tokio::test(flavor = "multi_thread")]
async fn peers_without_calls_do_not_hold_up_the_end() {
    let mut server = Server::configured(&["--ephemeral"], NEVER);
    let mut held = Vec::new();
    let greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for words in [&b""[..], b"PRI * HTTP", greeting] {
        let mut stream = TcpStream::connect(server.grpc).await.unwrap();
        stream.write_all(words).await.unwrap();
        held.push(stream);
    }
    eventually("they are connected", async || {
        fetch(server.ops, "/readyz?verbose").1.contains("3 of 10000 open").then_some(())
    })
    .await;
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_wait_end_with_the_server() {
    let mut server = Server::configured(&["--ephemeral"], NEVER);
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let request = v1::GetApplicationRequest { min_revision: 1 << 63, ..get("web") };
    let mut applications = server.applications().await;
    let waiting = tokio::spawn(async move { applications.get_application(request).await });
    eventually("it waits", async || {
        let (_, metrics) = fetch(server.ops, "/metrics");
        metrics.contains("bellwether_connections 2").then_some(())
    })
    .await;
    server.terminate();
    let refused = waiting.await.unwrap().unwrap_err();
    assert_eq!(reason(&refused), "DRAINING");
    assert_eq!(server.wait().code(), Some(0));
}

/// Opens a call on a connection whose client takes no byte of an answer, with a part of its
/// request.
async fn half_a_call(
    server: &Server,
    path: &str,
    sent: &'static [u8],
    is_end: bool,
) -> impl Sized + use<> {
    let stream = TcpStream::connect(server.grpc).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let (mut client, connection) =
        builder.initial_window_size(0).handshake::<_, Bytes>(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::post(format!("{}{path}", server.url()));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    let (answer, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    body.send_data(Bytes::from_static(sent), is_end).unwrap();
    (client, connection, answer, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_message_and_an_unread_watch_do_not_hold_up_the_end() {
    let watch = "/bellwether.v1.ApplicationService/WatchApplications";
    let replace = "/bellwether.v1.ReportService/ReplaceStatuses";
    let connect = "/bellwether.v1.WorkerService/Connect";
    let half: &[u8] = &[0, 0, 0, 0, 9, 1];
    for (path, sent, is_end) in
        [(watch, &[0; 5][..], true), (replace, half, false), (connect, half, false)]
    {
        let config = format!("{NEVER}\n[limits]\nrequest_seconds_max = 3600");
        let mut server = Server::configured(&["--ephemeral"], &config);
        let mut reports = server.reports().await;
        reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
        drop(reports);
        let _open = half_a_call(&server, path, sent, is_end).await;
        eventually("the call is open", async || {
            let (_, metrics) = fetch(server.ops, "/metrics");
            let connections = metrics.contains("\nbellwether_connections 1\n");
            connections.then_some(())
        })
        .await;
        server.terminate();
        assert_eq!(server.wait().code(), Some(0), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_server_immediately() {
    let mut server = Server::configured(&["--ephemeral"], NEVER);
    let stream = TcpStream::connect(server.grpc).await.unwrap();
    // A watch whose client reads nothing, so the server cannot send it the end.
    let mut builder = h2::client::Builder::new();
    let (mut client, connection) =
        builder.initial_window_size(0).handshake::<_, Bytes>(stream).await.unwrap();
    tokio::spawn(connection);
    let path = "/bellwether.v1.ApplicationService/WatchApplications";
    let request = http::Request::post(format!("{}{path}", server.url()));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    let (answer, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    body.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
    let _open = answer.await.unwrap();
    server.terminate();
    eventually("it drains", async || {
        fetch(server.ops, "/readyz").1.contains("stopping").then_some(())
    })
    .await;
    server.terminate();
    assert_eq!(server.wait().code(), Some(130));
}
