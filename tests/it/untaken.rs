//! Answers that the client does not take: their memory is bounded, other clients are served, and
//! they end after a while.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether_client::{Event, Watch};
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong, Reason, RecvStream};
use http::Response;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ops::fetch;
use crate::server::{DEADLINE, Server, eventually, mk_report, reason};

const LIST: &str = "/bellwether.v1.ApplicationService/ListStatuses";
const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";

/// A client of HTTP/2 that takes no byte of any answer.
struct Client {
    send: SendRequest<Bytes>,
    ping: PingPong,
    url: String,
}

impl Client {
    async fn connect(server: &Server) -> Client {
        Client::of_window(server, 0).await
    }

    /// Connects with this window for each stream.
    async fn of_window(server: &Server, window: u32) -> Client {
        let stream = TcpStream::connect(server.grpc).await.unwrap();
        let mut builder = h2::client::Builder::new();
        let (send, mut connection) =
            builder.initial_window_size(window).handshake::<_, Bytes>(stream).await.unwrap();
        let ping = connection.ping_pong().unwrap();
        tokio::spawn(connection);
        Client { send, ping, url: server.url() }
    }

    /// Sends a request of gRPC with this message, or a GET of a path. Returns the answer without
    /// its body.
    async fn begin(&mut self, path: &str, message: Option<Vec<u8>>) -> h2::client::ResponseFuture {
        let uri = format!("{}{path}", self.url);
        let request = match message {
            Some(_) => http::Request::post(uri)
                .header("content-type", "application/grpc")
                .header("te", "trailers"),
            None => http::Request::get(uri).header("accept", "text/event-stream, */*"),
        };
        self.send = self.send.clone().ready().await.unwrap();
        let request = request.body(()).unwrap();
        let (answer, mut body) = self.send.send_request(request, message.is_none()).unwrap();
        if let Some(message) = message {
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            let framed = [&[0][..], &length, &message].concat();
            body.send_data(framed.into(), true).unwrap();
        }
        answer
    }

    /// Opens a stream of events after the one with this id.
    async fn open_after(&mut self, path: &str, id: &str) -> Response<RecvStream> {
        let request = http::Request::get(format!("{}{path}", self.url));
        let request = request.header("accept", "text/event-stream").header("last-event-id", id);
        self.send = self.send.clone().ready().await.unwrap();
        let (answer, _) = self.send.send_request(request.body(()).unwrap(), true).unwrap();
        answer.await.unwrap()
    }

    async fn open(&mut self, path: &str, message: Option<Vec<u8>>) -> Response<RecvStream> {
        let answer = self.begin(path, message).await;
        tokio::time::timeout(DEADLINE, answer).await.expect("an answer in time").unwrap()
    }

    /// Sends this many equal requests at once, and waits for the heads of all answers.
    async fn flood(
        &mut self,
        path: &str,
        message: Option<Vec<u8>>,
        count: usize,
    ) -> Vec<Response<RecvStream>> {
        let mut begun = Vec::new();
        for _ in 0..count {
            begun.push(self.begin(path, message.clone()).await);
        }
        let mut answers = Vec::new();
        for answer in begun {
            answers.push(tokio::time::timeout(DEADLINE, answer).await.unwrap().unwrap());
        }
        answers
    }
}

/// Returns the value of a metric.
fn metric(server: &Server, name: &str) -> u64 {
    let (_, text) = fetch(server.ops, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

fn answer_bytes(server: &Server) -> u64 {
    metric(server, "bellwether_answer_bytes")
}

const STREAMS_ENDED: &str = r#"bellwether_answers_untaken_total{what="stream"}"#;
const CONNECTIONS_ENDED: &str = r#"bellwether_answers_untaken_total{what="connection"}"#;

/// Reports applications with this many bytes of message each.
async fn report_applications(server: &Server, count: usize, bytes: usize) {
    let mut reports = server.reports().await;
    for n in 0..count {
        let app = format!("app-{n:03}");
        let report = mk_report(&app, &format!("{app}/0"), Level::Blocked, &"m".repeat(bytes));
        reports.report_status(report).await.unwrap();
    }
}

/// Reports a unit whose list of statuses has a MiB, and returns the request for the list.
async fn report_long_list(server: &Server) -> Vec<u8> {
    let status = |n: usize| v1::StatusReport {
        key: format!("key-{n:04}"),
        level: Level::Active.into(),
        message: "m".repeat(4000),
        ..v1::StatusReport::default()
    };
    let report = v1::ReplaceStatusesRequest {
        application: "web".into(),
        unit: "web/0".into(),
        statuses: (0..250).map(status).collect(),
        ..v1::ReplaceStatusesRequest::default()
    };
    server.reports().await.replace_statuses(report).await.unwrap();
    let list = v1::ListStatusesRequest {
        application: "web".into(),
        unit: "web/0".into(),
        page_size: 1000,
        ..v1::ListStatusesRequest::default()
    };
    list.encode_to_vec()
}

/// An address that has no part in the attack.
const ANOTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Memory that an attack may take.
const MEMORY_MAX: u64 = 100 << 20;

/// Checks the memory since `before`, and that another client is served meanwhile.
async fn check_bounded(server: &Server, before: u64) {
    let report = mk_report("innocent", "innocent/0", Level::Active, "");
    let channel = crate::edge::channel(ANOTHER, server).await;
    ReportServiceClient::new(channel).report_status(report).await.unwrap();
    let (bytes, grown) = (answer_bytes(server), server.peak_memory().saturating_sub(before));
    println!("{} MiB of memory, {} MiB counted", grown >> 20, bytes >> 20);
    assert!(grown <= MEMORY_MAX, "{} MiB", grown >> 20);
    assert!(bytes <= 72 << 20, "{bytes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_files_take_bounded_memory() {
    let server = Server::configured(&["--ephemeral"], "[limits]\nanswer_wait_seconds_max = 0");
    let before = server.memory();
    let mut held = Vec::new();
    for _ in 0..30 {
        let mut client = Client::connect(&server).await;
        let answers = client.flood("/page.js", None, 1000).await;
        held.push((client, answers));
    }
    let statuses = held.iter().flat_map(|(_, answers)| answers.iter().map(Response::status));
    let refused = statuses.filter(|status| status.as_u16() == 429).count();
    assert!(10_000 < refused, "{refused} are refused");
    check_bounded(&server, before).await;
    drop(held);
    eventually("all bytes are given back", async || (answer_bytes(&server) == 0).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_lists_take_bounded_memory() {
    let server = Server::ephemeral();
    let list = report_long_list(&server).await;
    let before = server.memory();
    let mut client = Client::connect(&server).await;
    let answers = client.flood(LIST, Some(list), 1000).await;
    let errors: Vec<_> =
        answers.iter().filter_map(|a| tonic::Status::from_header_map(a.headers())).collect();
    assert!(900 < errors.len() && errors.len() < 1000, "{}", errors.len());
    for error in errors {
        assert_eq!(reason(&error), "RATE_LIMITED");
        assert!(error.message().contains("answer_bytes_per_connection_max"), "{error:?}");
    }
    check_bounded(&server, before).await;
    drop((client, answers));
    eventually("all bytes are given back", async || (answer_bytes(&server) == 0).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_pages_take_bounded_memory() {
    let server = Server::ephemeral();
    report_applications(&server, 300, 4000).await;
    let before = server.memory();
    let mut client = Client::connect(&server).await;
    let answers = client.flood("/", None, 200).await;
    let refused = answers.iter().filter(|answer| answer.status().as_u16() == 429).count();
    assert!((150..200).contains(&refused), "{refused}");
    check_bounded(&server, before).await;
    drop((client, answers));
    eventually("all bytes are given back", async || (answer_bytes(&server) == 0).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_pages_over_http1_take_bounded_memory() {
    let server = Server::ephemeral();
    report_applications(&server, 300, 4000).await;
    let before = server.memory();
    let mut held = Vec::new();
    for _ in 0..150 {
        let mut stream = TcpStream::connect(server.grpc).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        held.push(stream);
    }
    for stream in &mut held {
        // The head of the answer: the rest stays where it is.
        let head = tokio::time::timeout(DEADLINE, stream.read_u8()).await;
        assert_eq!(head.expect("an answer in time").unwrap(), b'H');
    }
    check_bounded(&server, before).await;
    drop(held);
    eventually("all bytes are given back", async || (answer_bytes(&server) == 0).then_some(()))
        .await;
}

const IMPATIENT: &str = "[limits]\nuntaken_seconds_max = 1\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_window_stays_closed_is_reset_and_its_connection_goes_on() {
    let server = Server::configured(&["--ephemeral"], IMPATIENT);
    let list = report_long_list(&server).await;
    let watch = v1::WatchApplicationsRequest::default().encode_to_vec();
    let mut client = Client::connect(&server).await;
    for (ended, (path, message)) in
        [("/page.js", None), ("/", None), (WATCH, None), (WATCH, Some(watch)), (LIST, Some(list))]
            .into_iter()
            .enumerate()
    {
        let answer = client.open(path, message).await;
        assert_eq!(answer.status(), 200, "{path}");
        let mut body = answer.into_body();
        let end = tokio::time::timeout(DEADLINE, body.data()).await.expect("it ends").unwrap();
        assert_eq!(end.unwrap_err().reason(), Some(Reason::ENHANCE_YOUR_CALM), "{path}");
        assert_eq!(metric(&server, STREAMS_ENDED), ended as u64 + 1);
        client.ping.ping(Ping::opaque()).await.unwrap();
    }
    assert_eq!(metric(&server, CONNECTIONS_ENDED), 0);
    eventually("all bytes are given back", async || (answer_bytes(&server) == 0).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_http1_that_does_not_read_is_closed() {
    let server = Server::configured(&["--ephemeral"], IMPATIENT);
    report_applications(&server, 300, 4000).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.grpc).await.unwrap();
    // More than the buffers of the system hold.
    for _ in 0..20 {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    }
    eventually("it is closed", async || (metric(&server, CONNECTIONS_ENDED) == 1).then_some(()))
        .await;
    let mut read = Vec::new();
    // A reset is an end too.
    let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut read)).await.unwrap();
    eventually("all bytes are given back", async || (answer_bytes(&server) == 0).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_without_room_is_refused_and_served_once_there_is_some() {
    let limits = "[limits]\nanswer_bytes_per_connection_max = 2000000\nanswer_wait_seconds_max = 0";
    let server = Server::configured(&["--ephemeral"], limits);
    let list = report_long_list(&server).await;
    let mut client = Client::connect(&server).await;
    let unread = client.open(LIST, Some(list.clone())).await;
    let refused = client.open(LIST, Some(list.clone())).await;
    let refused = tonic::Status::from_header_map(refused.headers()).unwrap();
    assert_eq!(reason(&refused), "RATE_LIMITED");
    assert!(refused.message().contains("answer_bytes_per_connection_max"), "{refused:?}");
    let page = client.open("/", None).await;
    assert_eq!(page.status(), 429);
    // A short answer has room, and so has any on another connection.
    assert_eq!(client.open("/page.svg", None).await.status(), 200);
    let mut other = Client::connect(&server).await;
    let served = other.open(LIST, Some(list.clone())).await;
    assert!(tonic::Status::from_header_map(served.headers()).is_none());
    let limit = r#"bellwether_limit_refusals_total{limit="answer_bytes_per_connection_max"}"#;
    assert_eq!(metric(&server, limit), 2);
    drop(unread);
    eventually("there is room again", async || {
        let answer = client.open(LIST, Some(list.clone())).await;
        tonic::Status::from_header_map(answer.headers()).is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_an_open_call_until_it_is_taken() {
    let server = Server::configured(&["--ephemeral"], "[limits]\ncalls_per_principal_max = 1");
    report_applications(&server, 1, 10).await;
    let mut client = Client::connect(&server).await;
    // The last report is an open call until the server has seen that its answer was taken.
    let page = eventually("the reports are over", async || {
        let page = client.open("/", None).await;
        (page.status() == 200).then_some(page)
    });
    let page = page.await;
    let request = v1::GetApplicationRequest { application: "app-000".into(), ..Default::default() };
    let mut applications = server.applications().await;
    let refused = applications.get_application(request.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "RATE_LIMITED");
    assert!(refused.message().contains("calls of "), "{refused:?}");
    drop((page, client));
    eventually("the page is gone", async || {
        applications.get_application(request.clone()).await.ok().map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_was_ended_because_it_was_not_read_goes_on_and_loses_nothing() {
    let server = Server::configured(&["--ephemeral"], IMPATIENT);
    report_applications(&server, 1, 10).await;
    let client = bellwether_client::Client::connect(&server.url()).await.unwrap();
    let mut watch = Watch::new(&client, v1::WatchApplicationsRequest::default());
    while !matches!(watch.next().await.unwrap(), Event::Current) {}
    // More than the windows and the buffers of the client hold, and it reads nothing.
    let count = 400;
    report_applications(&server, count, 4000).await;
    eventually("it is ended", async || (0 < metric(&server, STREAMS_ENDED)).then_some(())).await;
    let mut names = BTreeSet::new();
    let mut disconnected = 0;
    while names.len() < count {
        match tokio::time::timeout(DEADLINE, watch.next()).await.expect("it goes on").unwrap() {
            Event::Upserted(application, _) => _ = names.insert(application.name),
            Event::Disconnected { .. } => disconnected += 1,
            Event::Removed { .. } | Event::Current => {}
        }
    }
    assert_eq!(disconnected, 1);
}

/// Reads events until the stream has ended or `is_enough`; returns the newest id and the names of
/// the applications.
async fn read_events(
    body: &mut RecvStream,
    names: &mut BTreeSet<String>,
    is_enough: impl Fn(&str, &BTreeSet<String>) -> bool,
) -> String {
    let (mut text, mut id) = (String::new(), String::new());
    while let Some(Ok(bytes)) = tokio::time::timeout(DEADLINE, body.data()).await.unwrap() {
        body.flow_control().release_capacity(bytes.len()).unwrap();
        text.push_str(std::str::from_utf8(&bytes).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            for line in event.lines() {
                id = line.strip_prefix("id: ").map_or(id, str::to_string);
                let data = line.strip_prefix("data: ").unwrap_or("null");
                let data: serde_json::Value = serde_json::from_str(data).unwrap();
                names.extend(data["upserted"]["name"].as_str().map(str::to_string));
            }
            text = rest.to_string();
        }
        if is_enough(&id, names) {
            break;
        }
    }
    id
}

/// As a browser does, which connects again with the id of the last event that it has.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_were_ended_continue_after_the_last_one() {
    let server = Server::configured(&["--ephemeral"], IMPATIENT);
    report_applications(&server, 1, 10).await;
    let mut client = Client::of_window(&server, 65_535).await;
    let mut body = client.open(WATCH, None).await.into_body();
    let (mut names, count) = (BTreeSet::new(), 100);
    let id = read_events(&mut body, &mut names, |id, _| !id.is_empty()).await;
    report_applications(&server, count, 4000).await;
    eventually("it is ended", async || (0 < metric(&server, STREAMS_ENDED)).then_some(())).await;
    let newer = read_events(&mut body, &mut names, |_, names| names.len() == count).await;
    assert!(names.len() < count, "it has ended before");
    let last = if newer.is_empty() { id } else { newer };
    let mut body = client.open_after(WATCH, &last).await.into_body();
    read_events(&mut body, &mut names, |_, names| names.len() == count).await;
    assert_eq!(names.len(), count);
}
