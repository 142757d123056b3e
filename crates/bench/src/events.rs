//! `events`: ten thousand readers of Server-Sent Events, each on a connection of HTTP/1.1 of its
//! own, as browsers have them. Measured are the memory of the server for each, and the time until
//! a change has reached them.
//!
//! The next change is made when the last one has reached every reader, so nothing is conflated.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tonic::transport::Endpoint;

use crate::Load;
use crate::fanout::report;
use crate::h2_readers::Watched;
use crate::machine::Machine;
use crate::memory::resident;
use crate::report::Report;
use crate::rounds::{self, Contender};
use crate::runtime;
use crate::scalar::{ScalarRow, ScalarSide, Target};
use crate::server::{Place, Server};
use crate::site::Site;
use crate::testbed::Testbed;

/// Flags of `events`.
#[derive(Debug, Clone, clap::Args)]
pub struct Events {
    /// Readers, each on a connection of its own; this process and the server need a file for each
    #[arg(long, default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub watchers: u32,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The most bytes of the server for each reader.
const BYTES_TARGET: f64 = 32.0 * 1024.0;
/// The most seconds in which a change reaches 99 of 100 readers: a page is live under 1 s.
const SECONDS_TARGET: f64 = 1.0;
/// Connections that open at once.
const OPENING: u32 = 64;
/// How long all readers may take to open, and to receive one change.
const DEADLINE: Duration = Duration::from_secs(60);
/// Longest time that is recorded.
const MICROS_MAX: u64 = 60_000_000;

const REQUEST: &[u8] = b"GET /bellwether.v1.ApplicationService/WatchApplications HTTP/1.1\r\n\
    Host: localhost\r\nAccept: text/event-stream\r\n\r\n";
/// The first bytes of an event. Both have the same length, so that a part at the end of a read is
/// shorter than either.
const CHANGE: &[u8; 17] = b"data: {\"upserted\"";
const CURRENT: &[u8; 17] = b"data: {\"snapshotC";

/// The numbers of one round.
struct Round {
    bytes: f64,
    p99_seconds: f64,
}

/// Runs the command.
pub async fn run(args: Events) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let contender = {
        let (args, site) = (args.clone(), site.clone());
        Contender::new(Testbed::name(), move |first| {
            Box::pin(round(args.clone(), site.clone(), first))
        })
    };
    let measured = rounds::alternate(&[contender], args.load.rounds).await?;
    let rounds = measured.first().context("nothing was measured")?;
    let side = |of: fn(&Round) -> f64| {
        ScalarSide::mean(&Testbed::name(), rounds.iter().map(of).collect::<Vec<f64>>())
    };
    let row = |work: &str, unit, side, target| {
        ScalarRow::compare(work.to_string(), unit, side, None, Some(Target::AtMost(target)))
    };
    let bytes = side(|round| round.bytes);
    let seconds = side(|round| round.p99_seconds);
    let rows = vec![
        row("Bytes of the server for each reader of events", "bytes", bytes, BYTES_TARGET),
        row(
            "From a report to 99 of 100 readers, with one application",
            "seconds",
            seconds,
            SECONDS_TARGET,
        ),
    ];
    let sent = Watched {
        watchers: args.watchers as usize,
        connections: args.watchers,
        rounds: args.load.rounds,
        how: format!(
            "Server-Sent Events over HTTP/1.1, memory store, {} s a round; the next change when\n\
             \x20        the last has reached everybody; resident memory of the server's process",
            args.load.seconds,
        ),
    };
    Report { machine, sent, rows }.print(args.load.json)
}

async fn round(args: Events, site: Site, first: u64) -> anyhow::Result<Round> {
    let server = Server::start(&Place::Memory, &site).await?;
    let (address, id) = (server.grpc, server.id());
    runtime::apart(measure(args, address, id, first)).await
}

async fn measure(args: Events, address: SocketAddr, id: u32, first: u64) -> anyhow::Result<Round> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = ReportServiceClient::new(channel);
    client.report_status(report(first)).await?;
    // The memory of the process itself is not counted: threads, their heaps.
    let shared = Arc::new(Counts::new()?);
    let mut warm = Readers::open(address, OPENING, &shared).await?;
    let before = resident(id).await?;
    let mut readers = Readers::open(address, args.watchers, &shared).await?;
    let bytes = (resident(id).await? - before) / f64::from(args.watchers);
    let count = u64::from(args.watchers + OPENING);
    let (began, mut changes, mut is_warm) = (Instant::now(), 0, false);
    while began.elapsed() < args.load.warm_up() + args.load.window() {
        if !is_warm && args.load.warm_up() <= began.elapsed() {
            is_warm = true;
            shared.clear()?;
        }
        changes += 1;
        shared.sent_now();
        let answer = client.report_status(report(first + changes)).await?.into_inner();
        ensure!(answer.changed, "a report that changes its status changed nothing");
        shared.wait(changes * count, &mut [&mut warm, &mut readers]).await?;
    }
    Ok(Round { bytes, p99_seconds: shared.p99_seconds()? })
}

/// What all readers have received.
struct Counts {
    changes: AtomicU64,
    current: AtomicU64,
    moved: Notify,
    start: Instant,
    /// When the last change was sent, in microseconds from the start.
    sent_micros: AtomicU64,
    delays: Mutex<Histogram<u64>>,
}

impl Counts {
    fn new() -> anyhow::Result<Counts> {
        Ok(Counts {
            changes: AtomicU64::new(0),
            current: AtomicU64::new(0),
            moved: Notify::new(),
            start: Instant::now(),
            sent_micros: AtomicU64::new(0),
            delays: Mutex::new(histogram()?),
        })
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn sent_now(&self) {
        self.sent_micros.store(self.micros(), Ordering::Relaxed);
    }

    fn clear(&self) -> anyhow::Result<()> {
        *self.delays.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = histogram()?;
        Ok(())
    }

    fn heard(&self, changes: u64, current: u64) {
        if 0 < changes {
            let delay = self.micros().saturating_sub(self.sent_micros.load(Ordering::Relaxed));
            let mut delays = self.delays.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            delays.saturating_record_n(delay, changes);
        }
        self.changes.fetch_add(changes, Ordering::Relaxed);
        self.current.fetch_add(current, Ordering::Relaxed);
        self.moved.notify_one();
    }

    /// Waits until so many changes were received.
    async fn wait(&self, changes: u64, readers: &mut [&mut Readers]) -> anyhow::Result<()> {
        let until = Instant::now() + DEADLINE;
        while self.changes.load(Ordering::Relaxed) < changes {
            if timeout_at(until, self.moved.notified()).await.is_err() {
                readers.iter_mut().try_for_each(|readers| readers.check())?;
                bail!("a change did not reach every reader");
            }
        }
        Ok(())
    }

    fn p99_seconds(&self) -> anyhow::Result<f64> {
        let delays = self.delays.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        ensure!(!delays.is_empty(), "no change was measured");
        Ok(delays.value_at_quantile(0.99) as f64 / 1e6)
    }
}

fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, MICROS_MAX, 3)?)
}

/// Open readers; closed when dropped.
struct Readers(JoinSet<anyhow::Result<()>>);

impl Readers {
    /// Opens readers, and waits until each is current.
    async fn open(
        address: SocketAddr,
        count: u32,
        counts: &Arc<Counts>,
    ) -> anyhow::Result<Readers> {
        let mut readers = Readers(JoinSet::new());
        let until = Instant::now() + DEADLINE;
        let before = counts.current.load(Ordering::Relaxed);
        for number in 0..u64::from(count) {
            while counts.current.load(Ordering::Relaxed) + u64::from(OPENING) < before + number {
                let moved = timeout_at(until, counts.moved.notified()).await;
                readers.check()?;
                moved.context("not every reader is open")?;
            }
            readers.0.spawn(read(address, counts.clone()));
        }
        while counts.current.load(Ordering::Relaxed) < before + u64::from(count) {
            let moved = timeout_at(until, counts.moved.notified()).await;
            readers.check()?;
            moved.context("not every reader is open")?;
        }
        Ok(readers)
    }

    /// Fails if a reader has ended.
    fn check(&mut self) -> anyhow::Result<()> {
        match self.0.try_join_next() {
            Some(ended) => ended?,
            None => Ok(()),
        }
    }
}

/// Reads the events of one connection until it ends, which is a failure.
async fn read(address: SocketAddr, counts: Arc<Counts>) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await.context("connect a reader")?;
    stream.write_all(REQUEST).await?;
    let (mut held, mut buffer) = (Vec::new(), vec![0; 4096]);
    loop {
        let read = stream.read(&mut buffer).await?;
        ensure!(read != 0, "a stream ended: {}", String::from_utf8_lossy(&held));
        held.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let (changes, current) = (times(&held, CHANGE), times(&held, CURRENT));
        held.drain(..held.len().saturating_sub(CHANGE.len() - 1));
        if 0 < changes + current {
            counts.heard(changes, current);
        }
    }
}

fn times(text: &[u8], part: &[u8]) -> u64 {
    text.windows(part.len()).filter(|window| *window == part).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_counted() {
        let text = b"retry: 2000\n\ndata: {\"upserted\":{}}\n\ndata: {\"snapshotComplete\":{}}";
        assert_eq!((times(text, CHANGE), times(text, CURRENT)), (1, 1));
    }
}
