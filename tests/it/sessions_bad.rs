//! Workers that misbehave: their sessions end, and the server is not affected.

use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bytes::BufMut;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstDecoder;

use crate::peer::{Peer, hello, status};
use crate::redis::Redis;
use crate::server::{DEADLINE, Server, eventually, mk_report, reason};
use crate::sessions::{level, unit};
use crate::sessions_replicas::TIMES;

/// The growth of memory, in bytes, that no misbehaviour of one worker may exceed.
const GROWTH_MAX: u64 = 64 << 20;

fn quick() -> Server {
    Server::configured(&["--ephemeral"], TIMES)
}

async fn gone(server: &Server, name: &str) {
    eventually("its unit is not connected", async || {
        unit(server, "web", name).await.filter(|unit| !unit.connected)
    })
    .await;
}

/// Connects healthy workers, so that a single lost one is not the majority.
async fn others(server: &Server) -> Vec<Peer> {
    let mut peers = Vec::new();
    for n in 1..=2 {
        peers.push(Peer::connect(server, hello("web", &format!("web/{n}"))).await);
    }
    peers.iter().for_each(Peer::keep_alive);
    peers
}

/// A codec that sends the given bytes as messages.
#[derive(Default)]
struct Raw;

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;
    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = v1::ConnectResponse;
    type Encoder = Raw;
    type Decoder = ProstDecoder<v1::ConnectResponse>;
    fn encoder(&mut self) -> Raw {
        Raw
    }
    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::default()
    }
}

fn encoded(message: Said) -> Vec<u8> {
    v1::ConnectRequest { message: Some(message) }.encode_to_vec()
}

/// Opens a stream whose messages are raw bytes. Only the caller reads the answers.
async fn connect(
    server: &Server,
) -> Result<(mpsc::Sender<Vec<u8>>, Streaming<v1::ConnectResponse>), Status> {
    let endpoint = Endpoint::from_shared(server.url()).unwrap();
    over(endpoint.initial_stream_window_size(65_535).connect().await.unwrap()).await
}

/// Opens such a stream over a shared connection.
async fn over(
    channel: Channel,
) -> Result<(mpsc::Sender<Vec<u8>>, Streaming<v1::ConnectResponse>), Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let (say, said) = mpsc::channel(1);
    let path = http::uri::PathAndQuery::from_static("/bellwether.v1.WorkerService/Connect");
    let request = tonic::Request::new(ReceiverStream::new(said));
    let told = client.streaming(request, path, Raw).await?.into_inner();
    Ok((say, told))
}

/// Returns the status that ends a stream of these messages, after a hello.
async fn ends_with(server: &Server, messages: Vec<Vec<u8>>) -> Status {
    let (say, mut told) = connect(server).await.unwrap();
    for message in messages {
        // The stream may have ended before the last message.
        let _ended = say.send(message).await;
    }
    loop {
        let next = tokio::time::timeout(DEADLINE, told.message()).await;
        match next.expect("the stream does not end") {
            Ok(Some(_)) => {}
            Ok(None) => return Status::ok(""),
            Err(status) => return status,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_message_ends_the_session_with_an_error() {
    let server = quick();
    let _others = others(&server).await;
    let greeting = || encoded(Said::Hello(Box::new(hello("web", "web/0"))));
    let heartbeat = || encoded(Said::Heartbeat(v1::Heartbeat {}));
    let huge = status(Level::Active, &"x".repeat(5 << 20));
    let huge = encoded(Said::Report(v1::ConnectReport { seq: 1, statuses: vec![huge] }));
    let newer = [greeting(), vec![0xfa, 0x7f, 0x01, 0x00]]; // field 2047, with one byte
    let cases = [
        ("no hello", vec![heartbeat()], Code::InvalidArgument, "hello"),
        ("an empty hello", vec![Vec::new()], Code::InvalidArgument, "hello"),
        ("garbage for a hello", vec![vec![0xff; 100]], Code::InvalidArgument, "decode"),
        ("hello twice", vec![greeting(), greeting()], Code::InvalidArgument, "sent already"),
        ("an empty message", vec![greeting(), Vec::new()], Code::InvalidArgument, "is empty"),
        ("a message of the future", newer.to_vec(), Code::InvalidArgument, "newer version"),
        ("garbage", vec![greeting(), vec![0xff; 100]], Code::InvalidArgument, "decode"),
        ("a huge message", vec![greeting(), huge], Code::ResourceExhausted, "too large"),
    ];
    for (what, messages, code, said) in cases {
        let had_hello = 1 < messages.len();
        let ended = ends_with(&server, messages).await;
        assert_eq!(ended.code(), code, "{what}: {ended:?}");
        assert!(ended.message().contains(said), "{what}: {ended:?}");
        match had_hello {
            true => gone(&server, "web/0").await,
            false => assert_eq!(unit(&server, "web", "web/0").await, None, "{what}"),
        }
        if had_hello {
            let mut applications = server.applications().await;
            let (application, unit) = ("web".into(), "web/0".into());
            let remove = v1::RemoveUnitRequest { application, unit, ..Default::default() };
            applications.remove_unit(remove).await.unwrap();
        }
    }
    // An unknown field in a known message, as a newer version of the contract adds, does no harm.
    let mut with_more = encoded(Said::Hello(Box::new(hello("web", "web/3"))));
    with_more.extend([0xfa, 0x7f, 0x01, 0x00]);
    let (say, mut told) = connect(&server).await.unwrap();
    say.send(with_more).await.unwrap();
    assert!(matches!(told.message().await.unwrap().unwrap().message, Some(Told::Welcome(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_another_protocol_is_closed() {
    let server = quick();
    let mut stream = TcpStream::connect(server.grpc).await.unwrap();
    stream.write_all(&[0u8; 4096]).await.unwrap();
    let mut said = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut said)).await;
    let _closed_or_reset = read.expect("it is not closed");
    let peer = Peer::connect(&server, hello("web", "web/0")).await;
    assert_eq!(peer.welcome.incarnation, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_never_reads_is_held_back_and_then_gone() {
    let server = quick();
    let _others = others(&server).await;
    let (say, told) = connect(&server).await.unwrap();
    say.send(encoded(Said::Hello(Box::new(hello("web", "web/0"))))).await.unwrap();
    let before = server.memory();
    // Refusals are longer than acknowledgements. Each message is 4 kB.
    let filler = v1::StatusReport { message: "x".repeat(4000), ..Default::default() };
    let mut sent = 0;
    let sender = async {
        loop {
            sent += 1;
            let report = v1::ConnectReport { seq: sent, statuses: vec![filler.clone()] };
            if say.send(encoded(Said::Report(report))).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = sender => {}
        () = gone(&server, "web/0") => {}
    }
    let growth = server.memory().saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} bytes, {sent} messages");
    assert!(sent < 20_000, "{sent} messages were taken of one who does not listen");
    drop(told);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_messages_without_waiting_are_acknowledged_in_order() {
    const MESSAGES: u64 = 10_000;
    let server = quick();
    let (say, mut told) = connect(&server).await.unwrap();
    let before = server.memory();
    say.send(encoded(Said::Hello(Box::new(hello("web", "web/0"))))).await.unwrap();
    let sender = tokio::spawn(async move {
        for seq in 1..=MESSAGES {
            let level = [Level::Active, Level::Waiting][(seq % 2) as usize];
            let statuses = vec![status(level, &format!("message {seq}"))];
            let report = v1::ConnectReport { seq, statuses };
            say.send(encoded(Said::Report(report))).await.unwrap();
        }
        say
    });
    let (mut last, mut revision) = (0, 0);
    while last < MESSAGES {
        match told.message().await.unwrap().unwrap().message {
            Some(Told::Ack(ack)) => {
                assert!(last < ack.seq && revision <= ack.revision, "{ack:?} after {last}");
                (last, revision) = (ack.seq, ack.revision);
            }
            Some(Told::Reject(reject)) => panic!("{reject:?}"),
            _ => {}
        }
    }
    let _say = sender.await.unwrap();
    let found = unit(&server, "web", "web/0").await.unwrap();
    assert_eq!(found.message, format!("message {MESSAGES}"));
    let growth = server.memory().saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_store_delays_senders_and_keeps_them_connected() {
    let Some(redis) = Redis::start(&[]) else { return };
    let server = Server::configured(&["--store", &redis.url()], TIMES);
    // All sessions share one connection, which must survive.
    let channel = server.channel().await;
    let mut floods = Vec::new();
    for n in 0..8 {
        let (say, mut told) = over(channel.clone()).await.unwrap();
        let who = hello(&format!("app-{n}"), &format!("app-{n}/0"));
        say.send(encoded(Said::Hello(Box::new(who)))).await.unwrap();
        assert!(matches!(told.message().await.unwrap().unwrap().message, Some(Told::Welcome(_))));
        floods.push((say, told));
    }
    let before = server.memory();
    redis.signal("STOP");
    let flooded = futures_util::future::join_all(floods.into_iter().map(flood)).await;
    let growth = server.memory().saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} bytes");
    redis.signal("CONT");
    for (say, mut told, sent) in flooded {
        assert!(sent < 50_000, "{sent} messages of one worker were taken");
        // Each message is answered, and the same session continues.
        say.send(short(sent + 1)).await.unwrap();
        loop {
            match told.message().await.unwrap().unwrap().message {
                Some(Told::Ack(ack)) if sent < ack.seq => break,
                Some(Told::Reject(reject)) => {
                    assert_eq!(reject.status.unwrap().code, Code::Unavailable as i32);
                }
                _ => {}
            }
        }
    }
}

type Flooded = (mpsc::Sender<Vec<u8>>, Streaming<v1::ConnectResponse>, u64);

/// Sends short reports, one in each message, until the stream accepts no more.
async fn flood((say, told): (mpsc::Sender<Vec<u8>>, Streaming<v1::ConnectResponse>)) -> Flooded {
    let mut sent = 0;
    let end = tokio::time::Instant::now() + Duration::from_secs(2);
    while let Ok(Ok(())) = tokio::time::timeout_at(end, say.send(short(sent + 1))).await {
        sent += 1;
        tokio::task::yield_now().await;
    }
    (say, told, sent)
}

fn short(seq: u64) -> Vec<u8> {
    let statuses = vec![status(Level::Waiting, "")];
    encoded(Said::Report(v1::ConnectReport { seq, statuses }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_open_at_one_end_only_is_noticed() {
    let server = quick();
    let _others = others(&server).await;
    let proxy = Proxy::to(server.grpc).await;
    let address = format!("http://{}", proxy.address);
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let mut peer = Peer::over(channel, hello("web", "web/0")).await.unwrap();
    peer.keep_alive();
    let seq = peer.report(vec![status(Level::Active, "serving")]).await;
    peer.acknowledged(seq).await;
    // Longer than the allowed silence.
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        assert!(unit(&server, "web", "web/0").await.unwrap().connected);
    }
    proxy.passes.send_replace(false);
    gone(&server, "web/0").await;
    let found = unit(&server, "web", "web/0").await.unwrap();
    assert_eq!((found.freshness(), found.level()), (v1::Freshness::Stale, Level::Active));
    assert_eq!(level(&server, "web").await, Level::Active);
}

/// Forwards everything until it is blocked: then connections stay open, and no byte passes.
struct Proxy {
    address: std::net::SocketAddr,
    passes: watch::Sender<bool>,
}

impl Proxy {
    async fn to(server: std::net::SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (passes, passing) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (client_from, client_to) = client.into_split();
                let (server_from, server_to) =
                    TcpStream::connect(server).await.unwrap().into_split();
                tokio::spawn(pass(client_from, server_to, passing.clone()));
                tokio::spawn(pass(server_from, client_to, passing.clone()));
            }
        });
        Proxy { address, passes }
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut passes: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if passes.wait_for(|passes| *passes).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_does_not_wait_for_a_silent_session() {
    // A drain that waits for the session takes longer than the deadline of the test.
    let text = format!("drain_deadline_seconds = 600\n{TIMES}");
    let mut server = Server::configured(&["--ephemeral"], &text);
    let (_say, _told) = connect(&server).await.unwrap();
    server
        .reports()
        .await
        .report_status(mk_report("web", "web/0", Level::Active, ""))
        .await
        .unwrap();
    server.terminate();
    assert!(server.wait().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_is_open_before_the_first_message() {
    let server = quick();
    // Some clients wait for the head of the answer before they send a message.
    let (say, mut told) = connect(&server).await.unwrap();
    say.send(encoded(Said::Hello(Box::new(hello("web", "web/0"))))).await.unwrap();
    assert!(matches!(told.message().await.unwrap().unwrap().message, Some(Told::Welcome(_))));
    drop(say);
    let refused = v1::Hello { incarnation: Some(0), ..hello("web", "web/0") };
    let refused = Peer::try_connect(&server, refused).await.err().unwrap();
    assert_eq!(reason(&refused), "STALE_INCARNATION");
}
