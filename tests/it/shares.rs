//! One address has a share: before the handshake of the gRPC port, and on the ops port. Whatever
//! one address opens, the others are served.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bellwether::proto::v1::Level;
use bellwether_client::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::authority::Authority;
use crate::ops::fetch;
use crate::server::{DEADLINE, Server, mk_report};
use crate::testing::Proxy;

/// The HTTP/2 preface and an empty SETTINGS frame.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The time that a kubelet gives a probe, with some room for a busy machine.
const PROBE: Duration = Duration::from_secs(3);

fn local(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

/// Opens a connection from this address.
async fn connect(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}

/// Opens this many connections from an address; each sends these bytes and reads nothing.
async fn crowd(from: IpAddr, to: SocketAddr, count: usize, words: &[u8]) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = connect(from, to).await.unwrap();
        // The server may have closed it already.
        let _ = stream.write_all(words).await;
        held.push(stream);
    }
    held
}

/// Asks `/livez` of the ops port from this address, as a kubelet does.
fn probe(from: IpAddr, to: SocketAddr) -> std::io::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut stream = runtime.block_on(connect(from, to))?.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PROBE))?;
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: 10.0.0.1:9090\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_crowd_on_the_ops_port_keeps_a_probe_out() {
    let whole: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
    let half: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\n";
    for words in [whole, half, b""] {
        let server = Server::ephemeral();
        // The first address alone, then so many that each place is taken.
        let mut held = Vec::new();
        for from in 2..=11 {
            let count = if from == 2 { 520 } else { 40 };
            held.extend(crowd(local(from), server.ops, count, words).await);
            if ![2, 11].contains(&from) {
                continue;
            }
            // This machine, an address with its whole share, and one without a connection.
            for prober in [1, 2, 77] {
                let ops = server.ops;
                let probed = tokio::task::spawn_blocking(move || probe(local(prober), ops));
                let answer = probed.await.unwrap();
                let answer = answer.unwrap_or_else(|error| panic!("{prober}, {words:?}: {error}"));
                assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok\n"));
                assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
            }
        }
        if words != whole {
            let metrics = fetch(server.ops, "/metrics").1;
            let name = "bellwether_connections_refused_total{reason=\"ops\"} ";
            let ended = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            assert!(400 < ended.parse::<u32>().unwrap(), "{ended}");
        }
        drop(held);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_handshake_outlives_the_silent_crowd_of_another_address() {
    let limits = "[limits]\nunfinished_connections_max = 16";
    let server = Server::configured(&["--ephemeral"], limits);
    let mut slow = connect(local(1), server.grpc).await.unwrap();
    slow.write_all(&GREETING[..20]).await.unwrap();
    let crowd = crowd(local(2), server.grpc, 64, b"").await;
    slow.write_all(&GREETING[20..]).await.unwrap();
    // The header of the SETTINGS of the server.
    let mut said = [0; 9];
    let read = tokio::time::timeout(DEADLINE, slow.read_exact(&mut said)).await.unwrap();
    read.expect("the server goes on with the slow one");
    assert_eq!(said[3], 4, "{said:?}");
    drop(crowd);
}

/// Opens silent connections without a pause, and holds the newest.
async fn flood(to: SocketAddr, over: CancellationToken) -> usize {
    let mut held = std::collections::VecDeque::new();
    let mut count = 0;
    while !over.is_cancelled() {
        let Ok(stream) = connect(local(2), to).await else { continue };
        // Closing it leaves no port behind.
        stream.set_zero_linger().unwrap();
        held.push_back(stream);
        if 200 < held.len() {
            held.pop_front();
        }
        count += 1;
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_clients_far_away_are_served_beside_a_flood_of_silent_connections() {
    let authority = Authority::new();
    let file = authority.path("limits.toml");
    std::fs::write(&file, "[limits]\nunfinished_connections_max = 64").unwrap();
    let server = authority.serve(&["--config", file.to_str().unwrap()]);
    let over = CancellationToken::new();
    let flood = tokio::spawn(flood(server.grpc, over.clone()));
    for round_trip in [40, 100, 200] {
        let proxy = Proxy::to(&server.grpc.to_string()).await;
        proxy.delay(Duration::from_millis(round_trip / 2));
        let url = format!("https://localhost:{}", proxy.port);
        for n in 0..3 {
            let client = Client::connect_with(&url, authority.client("")).await;
            let client = client.unwrap_or_else(|error| panic!("{round_trip} ms: {error}"));
            let report = mk_report("web", &format!("web/{n}"), Level::Active, "");
            let answer = client.reports().report_status(client.request(report)).await;
            client.answer(answer).unwrap_or_else(|error| panic!("{round_trip} ms: {error}"));
        }
    }
    over.cancel();
    let opened = flood.await.unwrap();
    println!("{opened} silent connections");
    assert!(64 < opened, "there is no flood");
}
