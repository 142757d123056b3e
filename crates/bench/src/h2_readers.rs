//! Ten thousand readers that only count events: a minimal HTTP/2 client, so that the processor is
//! left to the server, and every side is read in the same way.
//!
//! It opens streams, passes each whole message to a function, and answers what the protocol
//! requires. It does not decode headers: a stream that ends is a failure, whatever the reason.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::figure::thousands;

/// The request that opens each stream.
#[derive(Debug, Clone)]
pub struct Call {
    /// `/package.Service/Method`.
    pub path: &'static str,
    /// Encoded messages, each with its [`frame`]; 16 KiB at most.
    pub requests: Vec<u8>,
    /// Whether the client half of the stream is closed after the requests.
    pub is_all: bool,
}

/// Counts the events in a message, and may read more from it. `stream` counts from 0 over all
/// connections.
pub trait Hear: Send + Sync + 'static {
    /// Takes one whole message; returns the number of its events.
    fn hear(&self, stream: usize, message: &[u8]) -> u64;
}

/// Open streams; closed when dropped.
pub struct Readers {
    tasks: JoinSet<anyhow::Result<()>>,
    heard: Arc<Heard>,
}

/// The counts of all streams together.
#[derive(Debug, Default)]
struct Heard {
    opened: AtomicU64,
    events: AtomicU64,
    moved: Notify,
    /// Whether reading has stopped.
    is_deaf: AtomicBool,
}

/// Streams that a connection opens before it waits for the server's answers: their requests fit
/// into the smallest initial window.
const OPENING: usize = 32;
/// The most bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// The largest window of HTTP/2.
const WINDOW: u32 = 0x7fff_ffff;
/// The bytes after which a connection's window is extended again.
const WINDOW_USED: u32 = 1 << 30;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

impl Readers {
    /// Opens `streams` streams, in equal shares over `connections`. `call` returns the request of
    /// each.
    pub fn open(
        address: SocketAddr,
        (streams, connections): (usize, usize),
        call: impl Fn(usize) -> Call,
        hear: &Arc<impl Hear>,
    ) -> Readers {
        let heard = Arc::new(Heard::default());
        let mut tasks = JoinSet::new();
        for connection in 0..connections {
            let streams = (connection..streams).step_by(connections);
            let calls: Vec<(usize, Call)> = streams.map(|stream| (stream, call(stream))).collect();
            tasks.spawn(connect(address, calls, hear.clone(), heard.clone()));
        }
        Readers { tasks, heard }
    }

    /// Returns the events received so far.
    pub fn events(&self) -> u64 {
        self.heard.events.load(Ordering::Relaxed)
    }

    /// Returns the streams that the server has accepted so far.
    pub fn opened(&self) -> u64 {
        self.heard.opened.load(Ordering::Relaxed)
    }

    /// Stops reading without closing anything.
    pub fn stop_reading(&self) {
        self.heard.is_deaf.store(true, Ordering::Relaxed);
    }

    /// Waits until the condition holds.
    pub async fn until(
        &mut self,
        holds: impl Fn(&Readers) -> bool,
        within: Duration,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + within;
        while !holds(self) {
            ensure!(Instant::now() < until, "not within {within:?}");
            if let Some(ended) = self.tasks.try_join_next() {
                ended.context("reader")??;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Waits until this many events are received.
    pub async fn heard(&mut self, events: u64, within: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + within;
        let heard = self.heard.clone();
        loop {
            let moved = heard.moved.notified();
            let now = self.events();
            if events <= now {
                return Ok(());
            }
            tokio::select! {
                waited = timeout_at(until, moved) => {
                    waited.with_context(|| {
                        format!("{} of {events} events came within {within:?}", self.events())
                    })?;
                }
                Some(ended) = self.tasks.join_next() => ended.context("reader")??,
            }
        }
    }
}

/// The load, the same for each side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Watched {
    /// Watchers.
    pub watchers: usize,
    /// Connections that they share.
    pub connections: u32,
    /// Rounds, in each of which each side was measured once.
    pub rounds: u32,
    /// A description of the other parameters.
    pub how: String,
}

impl Display for Watched {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Watched { watchers, connections, rounds, how } = self;
        let watchers = thousands(*watchers as f64);
        writeln!(
            f,
            "{watchers} watchers over {connections} connections, {rounds} rounds in turn;"
        )?;
        write!(f, "         {how}")
    }
}

/// Returns a message in the framing of gRPC, not compressed.
pub fn frame(message: &impl prost::Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend((bytes.len() as u32).to_be_bytes());
    framed.extend(bytes);
    framed
}

async fn connect(
    address: SocketAddr,
    calls: Vec<(usize, Call)>,
    hear: Arc<impl Hear>,
    heard: Arc<Heard>,
) -> anyhow::Result<()> {
    let socket = TcpStream::connect(address).await.context("connect a reader")?;
    socket.set_nodelay(true)?;
    let mut connection = Connection {
        socket,
        streams: calls.iter().map(|(stream, _)| Stream::new(*stream)).collect(),
        waits_for: 0,
        answer: Vec::new(),
        used: 0,
        hear,
        heard,
    };
    connection.run(address, calls).await
}

/// One stream and the start of an incomplete message.
struct Stream {
    number: usize,
    is_open: bool,
    begun: Vec<u8>,
}

struct Connection<H> {
    socket: TcpStream,
    streams: Vec<Stream>,
    /// Streams that are requested and not open yet.
    waits_for: usize,
    /// Bytes to send.
    answer: Vec<u8>,
    used: u32,
    hear: Arc<H>,
    heard: Arc<Heard>,
}

impl<H: Hear> Connection<H> {
    async fn run(&mut self, address: SocketAddr, calls: Vec<(usize, Call)>) -> anyhow::Result<()> {
        self.answer.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        // The SETTINGS frame: the window of a stream, and no header table.
        let mut settings = vec![0, 4];
        settings.extend(WINDOW.to_be_bytes());
        settings.extend([0, 1, 0, 0, 0, 0]);
        self.send(SETTINGS, 0, 0, &settings);
        self.send(WINDOW_UPDATE, 0, 0, &(WINDOW - 0xffff).to_be_bytes());
        let mut calls = calls.into_iter().enumerate();
        let mut bytes = vec![0; READ_BYTES];
        let mut filled = 0;
        loop {
            if self.waits_for == 0 {
                for (index, (_, call)) in calls.by_ref().take(OPENING) {
                    self.ask(2 * index as u32 + 1, address, &call);
                    self.waits_for += 1;
                }
            }
            self.socket.write_all(&self.answer).await.context("write")?;
            self.answer.clear();
            while self.heard.is_deaf.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            let read = self.socket.read(&mut bytes[filled..]).await.context("read")?;
            ensure!(read != 0, "the server has closed a connection with readers");
            filled += read;
            let taken = self.take(&bytes[..filled])?;
            bytes.copy_within(taken..filled, 0);
            filled -= taken;
        }
    }

    fn ask(&mut self, id: u32, address: SocketAddr, call: &Call) {
        // POST and http from the static table; then literals.
        let mut headers = vec![0x83, 0x86];
        let text = |headers: &mut Vec<u8>, text: &str| {
            headers.push(text.len() as u8);
            headers.extend(text.as_bytes());
        };
        headers.push(0x04);
        text(&mut headers, call.path);
        headers.push(0x01);
        text(&mut headers, &address.to_string());
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
            headers.push(0);
            text(&mut headers, name);
            text(&mut headers, value);
        }
        self.send(HEADERS, END_HEADERS, id, &headers);
        let end = if call.is_all { END_STREAM } else { 0 };
        self.send(DATA, end, id, &call.requests);
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.answer.extend(&(payload.len() as u32).to_be_bytes()[1..]);
        self.answer.extend([kind, flags]);
        self.answer.extend(stream.to_be_bytes());
        self.answer.extend(payload);
    }

    /// Takes the complete frames among these bytes; returns their length.
    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<usize> {
        let (mut taken, mut events) = (0, 0);
        while let Some((head, rest)) = bytes[taken..].split_first_chunk::<9>() {
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = rest.get(..len) else { break };
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            events += self.frame((head[3], head[4], id), payload)?;
            taken += 9 + len;
        }
        if WINDOW_USED < self.used {
            let used = std::mem::take(&mut self.used);
            self.send(WINDOW_UPDATE, 0, 0, &used.to_be_bytes());
        }
        if 0 < events {
            self.heard.events.fetch_add(events, Ordering::Relaxed);
            self.heard.moved.notify_waiters();
        }
        Ok(taken)
    }

    fn frame(&mut self, (kind, flags, id): (u8, u8, u32), payload: &[u8]) -> anyhow::Result<u64> {
        match kind {
            DATA | HEADERS if flags & (END_STREAM | PADDED) != 0 => {
                bail!("the server has ended or refused a stream")
            }
            RST_STREAM => bail!("the server has cut off a stream"),
            GOAWAY => bail!("the server has sent GOAWAY: {}", String::from_utf8_lossy(payload)),
            SETTINGS if flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => self.send(PING, ACK, 0, payload),
            HEADERS => self.opened(id)?,
            DATA => {
                self.used += payload.len() as u32;
                let stream = self.streams.get_mut(id as usize / 2).context("an unknown stream")?;
                return Ok(stream.data(payload, &*self.hear));
            }
            _ => {}
        }
        Ok(0)
    }

    fn opened(&mut self, id: u32) -> anyhow::Result<()> {
        let stream = self.streams.get_mut(id as usize / 2).context("an unknown stream")?;
        if !std::mem::replace(&mut stream.is_open, true) {
            self.waits_for -= 1;
            self.heard.opened.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Stream {
    fn new(number: usize) -> Stream {
        Stream { number, is_open: false, begun: Vec::new() }
    }

    /// Returns the events in the messages that this payload completes.
    fn data(&mut self, payload: &[u8], hear: &impl Hear) -> u64 {
        if self.begun.is_empty() {
            let (events, rest) = messages(self.number, payload, hear);
            self.begun.extend(rest);
            return events;
        }
        self.begun.extend(payload);
        let begun = std::mem::take(&mut self.begun);
        let (events, rest) = messages(self.number, &begun, hear);
        self.begun.extend(rest);
        events
    }
}

/// Returns the events in the whole messages among these bytes, and the remaining bytes.
fn messages<'a>(number: usize, mut bytes: &'a [u8], hear: &impl Hear) -> (u64, &'a [u8]) {
    let mut events = 0;
    while let Some((head, rest)) = bytes.split_first_chunk::<5>() {
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((message, rest)) = rest.split_at_checked(len) else { break };
        events += hear.hear(number, message);
        bytes = rest;
    }
    (events, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Echo;

    struct Bytes;

    impl Hear for Bytes {
        fn hear(&self, _: usize, message: &[u8]) -> u64 {
            message.len() as u64
        }
    }

    #[test]
    fn messages_are_whole_however_they_come() {
        let message = frame(&Echo { payload: vec![7; 20] });
        let all: Vec<u8> = [&message[..], &message, &message].concat();
        for cut in 1..all.len() {
            let mut stream = Stream::new(0);
            let events = all.chunks(cut).map(|chunk| stream.data(chunk, &Bytes)).sum::<u64>();
            assert_eq!(events, 3 * 22, "cut into pieces of {cut}");
            assert!(stream.begun.is_empty());
        }
    }
}
