//! Runs an attack over real sockets of the loopback interface, from several of its addresses.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::attack::{Attack, DRIP_EVERY, Means, Turn};
use super::calls;
use super::counts::Counts;

/// Connections that are opened at the same time. While the queue of the listening socket is full, a
/// new connection waits a second, and must not keep the others from trying.
const OPENING: usize = 1024;
/// Silent connections that are opened at the same time.
const SILENT_OPENING: usize = 64;
/// Pause before a connection that was ended is opened again.
const PAUSE: Duration = Duration::from_millis(1);

/// Attacks until the future is dropped. `connections_max` bounds the connections that are held.
pub async fn run(attack: Attack, to: SocketAddr, counts: Arc<Counts>, connections_max: usize) {
    let to = Way { to, addresses: attack.target.addresses };
    match attack.means {
        Means::Hold { connections, opening, drip } => {
            let connections = connections.min(connections_max);
            hold(to, connections, opening(), drip, &counts).await;
        }
        Means::Silent { connections } => {
            silent(to, connections.min(connections_max), &counts).await;
        }
        Means::Calls { connections, path, message } => {
            let mut tasks = JoinSet::new();
            for number in 0..connections {
                let from = to.source(number);
                tasks.spawn(calls::run(from, to.to, path, message(), counts.clone()));
            }
            while tasks.join_next().await.is_some() {}
        }
        Means::Flood { connections, per_second, chunk } => {
            let mut tasks = JoinSet::new();
            let per_second = per_second.map(|all| all / connections as u64);
            for number in 0..connections {
                tasks.spawn(flood(number, to, per_second, chunk, counts.clone()));
            }
            while tasks.join_next().await.is_some() {}
        }
    }
}

/// The way to the server.
#[derive(Clone, Copy)]
struct Way {
    to: SocketAddr,
    /// Addresses of this machine that the attack comes from: one address meets the limits of one
    /// address alone.
    addresses: usize,
}

impl Way {
    /// Returns the address of a connection. The innocent client has 127.0.0.1.
    fn source(self, number: usize) -> IpAddr {
        let last = u8::try_from(2 + number % self.addresses).unwrap_or(u8::MAX);
        IpAddr::from([127, 0, 0, last])
    }
}

async fn connect(number: usize, way: Way, counts: &Counts) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(way.source(number), 0))?;
    let stream = socket.connect(way.to).await?;
    stream.set_nodelay(true)?;
    counts.connected();
    Ok(stream)
}

/// A connection that is held, with the drips that it has sent.
struct Held {
    stream: TcpStream,
    drips: u64,
}

/// Opens connections without a pause, and keeps the newest.
async fn silent(to: Way, connections: usize, counts: &Counts) {
    let mut held = VecDeque::new();
    let opened = stream::iter(0..).map(|number| connect(number, to, counts));
    let mut opened = opened.buffer_unordered(SILENT_OPENING);
    while let Some(opened) = opened.next().await {
        let Ok(stream) = opened else {
            sleep(PAUSE).await;
            continue;
        };
        counts.add(0, 1);
        held.push_back(stream);
        if connections < held.len() {
            held.pop_front();
        }
    }
}

async fn hold(
    to: Way,
    connections: usize,
    opening: (Vec<u8>, u64),
    drip: fn(u64) -> Vec<u8>,
    counts: &Counts,
) {
    let mut held: Vec<Held> = Vec::new();
    loop {
        let before = held.len();
        held.retain(|held| !is_ended(&held.stream));
        counts.ended((before - held.len()) as u64);
        let (bytes, units) = &opening;
        let more = (held.len()..connections).map(|number| async move {
            let mut stream = connect(number, to, counts).await.ok()?;
            // The server may end the connection before it has everything.
            let written = tokio::time::timeout(DRIP_EVERY, stream.write_all(bytes)).await;
            written.ok()?.ok()?;
            counts.add(bytes.len(), *units);
            Some(Held { stream, drips: 0 })
        });
        let mut more = stream::iter(more).buffer_unordered(OPENING);
        while let Some(opened) = more.next().await {
            held.extend(opened);
        }
        for held in &mut held {
            let bytes = drip(held.drips);
            held.drips += 1;
            let written = held.stream.try_write(&bytes).unwrap_or(0);
            counts.add(written, 0);
        }
        sleep(DRIP_EVERY).await;
    }
}

/// Returns whether the server has ended a connection. What it has sent stays unread.
fn is_ended(stream: &TcpStream) -> bool {
    let mut byte = [0];
    let mut peeked = std::io::ErrorKind::WouldBlock;
    match futures_util::FutureExt::now_or_never(stream.peek(&mut byte)) {
        Some(Ok(0)) => return true,
        Some(Err(error)) => peeked = error.kind(),
        Some(Ok(_)) | None => {}
    }
    peeked != std::io::ErrorKind::WouldBlock
}

async fn flood(
    number: usize,
    to: Way,
    per_second: Option<u64>,
    chunk: fn(&mut Turn),
    counts: Arc<Counts>,
) {
    loop {
        if let Ok(stream) = connect(number, to, &counts).await {
            flood_one(stream, per_second, chunk, &counts).await;
            counts.ended(1);
        }
        sleep(PAUSE).await;
    }
}

/// Sends on one connection until the server ends it.
async fn flood_one(
    stream: TcpStream,
    per_second: Option<u64>,
    chunk: fn(&mut Turn),
    counts: &Counts,
) {
    let (mut read, mut write) = stream.into_split();
    let answers = async {
        let mut bytes = vec![0; 64 << 10];
        while read.read(&mut bytes).await.is_ok_and(|read| 0 < read) {}
    };
    let send = async {
        let (start, mut units) = (Instant::now(), 0);
        let mut turn = Turn::begin();
        while !turn.is_used_up() {
            if write.write_all(&turn.out).await.is_err() {
                return;
            }
            counts.add(turn.out.len(), turn.units);
            units += turn.units;
            if let Some(per_second) = per_second {
                let seconds = units as f64 / per_second as f64;
                sleep_until(start + Duration::from_secs_f64(seconds)).await;
            }
            turn.clear();
            chunk(&mut turn);
        }
    };
    tokio::select! {
        () = answers => {}
        () = send => {}
    }
}
