//! Peers that exceed their share or send nothing: the server serves the others as before.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bellwether::proto::health::HealthCheckRequest;
use bellwether::proto::health::health_client::HealthClient;
use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bytes::Bytes;
use http_body::Frame;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};

use crate::ops::fetch;
use crate::peer::{Peer, hello};
use crate::server::{DEADLINE, Server, eventually, get, mk_report, reason};
use crate::web::{self, Version};

/// The HTTP/2 preface and an empty SETTINGS frame.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Opens a connection from this address and sends nothing.
async fn connect(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if from != LOCAL {
        socket.bind(SocketAddr::new(from, 0))?;
    }
    socket.connect(to).await
}

/// Returns a channel from this address.
pub async fn channel(from: IpAddr, server: &Server) -> Channel {
    let to = server.grpc;
    let connector =
        tower::service_fn(
            move |_: http::Uri| async move { connect(from, to).await.map(TokioIo::new) },
        );
    let endpoint = Endpoint::from_shared(server.url()).unwrap();
    endpoint.connect_with_connector(connector).await.unwrap()
}

/// Each connection of this process takes a file descriptor.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Opens this many connections from `peers` addresses; each sends these first bytes and nothing
/// else.
async fn crowd(
    server: &Server,
    count: usize,
    peers: usize,
    words: &'static [u8],
) -> Vec<TcpStream> {
    let to = server.grpc;
    let mut streams = Vec::new();
    let opening = (0..count).map(|n| async move {
        let peer = n % peers;
        let from = IpAddr::from([127, 0, (peer >> 8) as u8, (peer & 255) as u8 + 1]);
        let mut stream = connect(from, to).await.unwrap();
        // The connection may be closed before the bytes are sent.
        let _ = stream.write_all(words).await;
        stream
    });
    let mut opening = futures_util::stream::iter(opening);
    let mut opening = std::pin::pin!(futures_util::StreamExt::buffer_unordered(&mut opening, 64));
    while let Some(stream) = futures_util::StreamExt::next(&mut opening).await {
        streams.push(stream);
    }
    streams
}

const CROWD: usize = 10_000;
/// The time that a new client waits: a second more than the handshake timeout.
const PATIENCE: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_silent_connections_lock_no_client_out() {
    raise_file_limit();
    for (peers, words) in [(1, &b""[..]), (100, b""), (100, GREETING)] {
        let server = Server::ephemeral();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, ops) = (is_over.clone(), server.ops);
        let prober = std::thread::spawn(move || {
            let mut probes = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(fetch(ops, "/livez").1, "ok\n");
                probes += 1;
            }
            probes
        });
        let held = crowd(&server, CROWD, peers, words).await;
        let served = tokio::time::timeout(PATIENCE, async {
            let report = mk_report("web", "web/0", Level::Active, "");
            server.reports().await.report_status(report).await.unwrap();
        });
        assert!(served.await.is_ok(), "nobody is served beside {CROWD} from {peers} peers");
        is_over.store(true, Ordering::Relaxed);
        assert!(0 < prober.join().unwrap());
        let (_, text) = fetch(server.ops, "/readyz?verbose");
        assert!(text.contains("[+]connections ok: ") && text.contains(" of 10000 open"), "{text}");
        let (_, metrics) = fetch(server.ops, "/metrics");
        let ended = metrics.lines().find(|line| {
            let name = "bellwether_connections_refused_total";
            line.starts_with(name) && !line.ends_with(" 0")
        });
        assert!(ended.is_some(), "{metrics}");
        assert!(metrics.contains("\nbellwether_connections "), "{metrics}");
        drop(held);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_request_in_time_is_closed() {
    let server = Server::configured(&["--ephemeral"], "[limits]\nhandshake_seconds_max = 1");
    // Nothing, half of the preface, half of a request, and another protocol.
    for words in [&b""[..], &GREETING[..20], b"GET / HTTP/1.1\r\nHost: a\r\n", b"\x16\x03\x01"] {
        let mut stream = connect(LOCAL, server.grpc).await.unwrap();
        stream.write_all(words).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await;
        // The server closes or resets the connection without an answer.
        assert!(ended.is_ok() && answer.is_empty(), "{words:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_its_share_of_connections_and_the_others_theirs() {
    let server = Server::configured(&["--ephemeral"], "[limits]\nconnections_max = 16");
    let other = IpAddr::from([127, 0, 0, 2]);
    let watch = v1::WatchApplicationsRequest::default();
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = ApplicationServiceClient::new(channel(other, &server).await);
        held.push(client.watch_applications(watch.clone()).await.unwrap().into_inner());
    }
    // The share is 2 of 16, and both connections have an open call.
    let mut third = connect(other, server.grpc).await.unwrap();
    let ended = tokio::time::timeout(DEADLINE, third.read(&mut [0])).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    let mut mine = server.applications().await;
    assert!(mine.get_application(get("nobody")).await.is_err_and(|e| reason(&e).contains("NOT")));
    let (_, metrics) = fetch(server.ops, "/metrics");
    assert!(metrics.contains("bellwether_connections_refused_total{reason=\"share\"} 1"));
    for mut stream in held {
        assert!(stream.message().await.unwrap().is_some(), "open calls go on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_its_share_of_watches_and_sessions() {
    let limits = "[limits]\nwatch_streams_max = 8\nhealth_watch_streams_max = 8\n";
    let text = format!("{limits}[sessions]\nsessions_max = 8\n");
    let server = Server::configured(&["--ephemeral"], &text);
    let other = IpAddr::from([127, 0, 0, 2]);
    let watch = v1::WatchApplicationsRequest::default();
    let limit = |error: &tonic::Status| {
        use tonic_types::StatusExt;
        assert_eq!(reason(error), "TOO_MANY_STREAMS", "{error:?}");
        error.get_details_error_info().unwrap().metadata["limit"].clone()
    };
    let mut mine = server.applications().await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(mine.watch_applications(watch.clone()).await.unwrap());
    }
    let refused = mine.watch_applications(watch.clone()).await.unwrap_err();
    assert_eq!(limit(&refused), "watch_streams_per_peer_max");
    let mut theirs = ApplicationServiceClient::new(channel(other, &server).await);
    theirs.watch_applications(watch.clone()).await.unwrap();

    // Health watches have their own limit.
    let mut health = server.health().await;
    let mut watched = Vec::new();
    for _ in 0..2 {
        watched.push(health.watch(HealthCheckRequest::default()).await.unwrap());
    }
    let refused = health.watch(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(limit(&refused), "health_watch_streams_per_peer_max");
    let mut theirs = HealthClient::new(channel(other, &server).await);
    theirs.watch(HealthCheckRequest::default()).await.unwrap();

    let mut sessions = Vec::new();
    for n in 0..2 {
        sessions.push(Peer::connect(&server, hello("web", &format!("web/{n}"))).await);
    }
    let refused = Peer::try_connect(&server, hello("web", "web/2")).await.err().unwrap();
    assert_eq!(limit(&refused), "sessions_per_peer_max");
    Peer::over(channel(other, &server).await, hello("web", "web/3")).await.unwrap();
    // A released permit can be used again.
    drop(sessions);
    eventually("a session again", async || {
        Peer::try_connect(&server, hello("web", "web/4")).await.ok()
    })
    .await;
    drop(held);
    eventually("a watch again", async || mine.watch_applications(watch.clone()).await.ok()).await;
}

/// The start of a 4 MiB message whose rest is never sent.
const PROMISE: &[u8] = &[0, 0, 0x40, 0, 0];
const STREAMS: usize = 1000;

fn post(server: &Server, path: &str) -> http::Request<()> {
    let request = http::Request::post(format!("{}{path}", server.url()));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    request.body(()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announced_length_takes_no_memory() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let before = server.memory();
    let stream = connect(LOCAL, server.grpc).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut held = Vec::new();
    for _ in 0..STREAMS {
        client = client.ready().await.unwrap();
        let request = post(&server, "/bellwether.v1.ReportService/ReplaceStatuses");
        let (answer, mut body) = client.send_request(request, false).unwrap();
        // More than the prefix, so that the server touches the reserved memory.
        body.send_data(Bytes::from([PROMISE, &[0x0a]].concat()), false).unwrap();
        held.push((answer, body));
    }
    // The server answers a call that was sent after all of them, so they have arrived.
    let mut worst = 0;
    for _ in 0..100 {
        client = client.ready().await.unwrap();
        let request = post(&server, "/grpc.health.v1.Health/Check");
        let (answer, mut body) = client.send_request(request, false).unwrap();
        body.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
        assert_eq!(answer.await.unwrap().status(), 200);
        worst = worst.max(server.memory());
    }
    let grown = worst.saturating_sub(before) >> 20;
    println!("{grown} MiB for {STREAMS} promises of 4 MiB");
    assert!(grown <= 100, "{grown} MiB for {STREAMS} promises of 4 MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_requests_that_are_not_complete_are_bounded() {
    let limits =
        "[limits]\nincomplete_bytes_per_connection_max = 100000\nrequest_seconds_max = 3600";
    let server = Server::configured(&["--ephemeral"], limits);
    let stream = connect(LOCAL, server.grpc).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut held = Vec::new();
    let refused = loop {
        client = client.ready().await.unwrap();
        let request = post(&server, "/bellwether.v1.ReportService/ReplaceStatuses");
        let (mut answer, mut body) = client.send_request(request, false).unwrap();
        body.send_data(Bytes::from([PROMISE, &[0; 30_000]].concat()), false).unwrap();
        held.push(body);
        assert!(held.len() < 10, "nothing is refused");
        // Only the call above the limit is answered.
        let looks = tokio::time::timeout(Duration::from_millis(300), &mut answer).await;
        if let Ok(answer) = looks {
            break tonic::Status::from_header_map(answer.unwrap().headers()).unwrap();
        }
    };
    assert_eq!(held.len(), 4);
    assert_eq!(reason(&refused), "RATE_LIMITED");
    // Other clients are served, and so are complete messages on the same connection.
    server.reports().await.report_status(mk_report("a", "a/0", Level::Active, "")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_never_complete_is_ended() {
    let server = Server::configured(&["--ephemeral"], "[limits]\nrequest_seconds_max = 1");
    let stream = connect(LOCAL, server.grpc).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let report = prost::Message::encode_to_vec(&mk_report("web", "web/0", Level::Active, ""));
    let whole = [&[0, 0, 0, 0, report.len() as u8][..], &report].concat();
    // No byte; a part of the message; the whole message without the end of the request.
    for sent in [vec![], whole[..7].to_vec(), whole] {
        let mut client = client.clone().ready().await.unwrap();
        let request = post(&server, "/bellwether.v1.ReportService/ReportStatus");
        let (answer, mut body) = client.send_request(request, false).unwrap();
        body.send_data(Bytes::from(sent), false).unwrap();
        let answer = tokio::time::timeout(DEADLINE, answer).await.expect("it waits for ever");
        let status = tonic::Status::from_header_map(answer.unwrap().headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        assert_eq!(reason(&status), "REQUEST_INCOMPLETE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_old_end_and_their_calls_do_not() {
    let server = Server::configured(&["--ephemeral"], "[limits]\nconnection_age_seconds_max = 1");
    let mut applications = server.applications().await;
    let watch = v1::WatchApplicationsRequest::default();
    let mut open = applications.watch_applications(watch).await.unwrap().into_inner();
    let mut idle = connect(LOCAL, server.grpc).await.unwrap();
    idle.write_all(GREETING).await.unwrap();
    let mut said = Vec::new();
    let ended = tokio::time::timeout(DEADLINE, idle.read_to_end(&mut said)).await;
    assert!(ended.is_ok(), "it is never too old");
    // The header of a GOAWAY frame of 8 bytes: it has no debug data.
    assert!(said.windows(4).any(|frame| frame == [0, 0, 8, 7]), "{said:?}");
    server.reports().await.report_status(mk_report("a", "a/0", Level::Active, "")).await.unwrap();
    let told = eventually("the change", async || {
        let message = open.message().await.unwrap().expect("the watch goes on");
        let event = message.event?;
        matches!(event, v1::watch_applications_response::Event::Upserted(_)).then_some(())
    });
    told.await;
}

/// The rest of a request, which a test sends when it wants.
struct LateBody(tokio::sync::mpsc::Receiver<Bytes>);

impl http_body::Body for LateBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A reset after the answer counts as a failure for some clients, such as curl 7.88.
#[tokio::test]
async fn an_answer_before_the_end_of_a_request_resets_no_stream() {
    let server = Server::ephemeral();
    let (rest, late) = tokio::sync::mpsc::channel(1);
    let path = format!("{}/nothing", server.url());
    let refused = http::Request::post(path).body(Body::new(LateBody(late))).unwrap();
    let answer = web::read(web::open(server.grpc, Version::Http2, refused).await).await;
    assert_eq!(answer.status, 404);
    // Twice the window of a stream, so that the server must read it.
    for _ in 0..8 {
        let sent = rest.send(Bytes::from(vec![0; 16 << 10]));
        let sent = tokio::time::timeout(DEADLINE, sent).await.expect("the server reads it");
        sent.expect("the stream is open");
    }
}
