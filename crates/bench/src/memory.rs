//! `memory`: the memory of the server's process for an idle watch, for a stored status, and
//! for a reader that has stopped reading.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bellwether::proto::v1;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use futures_util::{StreamExt, stream};
use tonic::transport::{Channel, Endpoint};

use crate::Load;
use crate::fanout::{MULTIPLEX, PER_STREAM, WATCH, create, multiplexed, whole_streams};
use crate::h2_readers::{Call, Hear, Readers, Watched, frame};
use crate::machine::Machine;
use crate::report::Report;
use crate::rounds::{self, Contender, Measuring};
use crate::runtime;
use crate::scalar::{ScalarRow, ScalarSide, Target};
use crate::server::{Place, Server};
use crate::site::Site;
use crate::testbed::Testbed;
use crate::wire::{self, Shared};

/// Flags of `memory`.
#[derive(Debug, clap::Args)]
pub struct Memory {
    /// Idle watchers; a multiple of 100
    #[arg(long, default_value_t = 10_000, value_parser = whole_streams)]
    pub watchers: usize,
    /// Stored statuses
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub statuses: u64,
    /// Active applications of one status each
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub applications: u64,
    /// Changes that are not read
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub events: u64,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The most bytes of a watch with a stream of its own.
const SINGLE_TARGET: f64 = 4.0 * 1024.0;
/// The most bytes of a watch on a stream of a hundred.
const MULTIPLEXED_TARGET: f64 = 200.0;
/// The most bytes of a status beyond its own texts.
const STATUS_TARGET: f64 = 400.0;
/// The most bytes of an active application with one status.
const APPLICATION_TARGET: f64 = 8.0 * 1024.0;
/// The most bytes for each unread change: a queue would take the length of a message, which is
/// hundreds. The rest is memory that the allocator returns late.
const UNREAD_TARGET: f64 = 10.0;

/// Applications that statuses are spread over, and that change.
const APPLICATIONS: u64 = 64;
/// How many times more watches there are on shared streams: memory grows in pieces of megabytes,
/// and fewer watches would fill only a few of them.
const TIMES_MULTIPLEXED: usize = 10;
/// Statuses of a unit.
const PER_UNIT: u64 = 100;
/// Reports open at once on each connection.
const IN_FLIGHT: usize = 64;
/// How long all watches may take to open.
const DEADLINE: Duration = Duration::from_secs(60);
/// A short history, whose growth would otherwise dominate the memory of changes.
const HISTORY: &str = "[history]\nevents_max = 10\n";
/// Changes of each application before the measurement: more than the history keeps.
const CHANGES_BEFORE: u64 = 20;

/// Runs the command.
pub async fn run(args: Memory) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let (watchers, connections) = (args.watchers, args.load.connections as usize);
    let idle = |shape, watchers| Work::Idle { shape, watchers };
    let rows = [
        (
            "Bytes of a watch that hears nothing, with a stream of its own, \
             beside a plain tonic stream",
            idle(Shape::Single, watchers),
            Some(idle(Shape::Plain, watchers)),
            SINGLE_TARGET,
        ),
        (
            "Bytes of a watch that hears nothing, one of 100 on its stream",
            idle(Shape::Multiplexed, TIMES_MULTIPLEXED * watchers),
            None,
            MULTIPLEXED_TARGET,
        ),
        (
            "Bytes of a status that is kept, beyond its own words",
            Work::Keep { statuses: args.statuses },
            None,
            STATUS_TARGET,
        ),
        (
            "Bytes of an active application with one status",
            Work::Activate { applications: args.applications },
            None,
            APPLICATION_TARGET,
        ),
        (
            "Bytes for each change while a reader has stopped reading",
            Work::Stopped { events: args.events },
            None,
            UNREAD_TARGET,
        ),
    ];
    let mut measured = Vec::new();
    for (name, ours, peer, target) in rows {
        let contender = |name: String, work: Work| {
            let site = site.clone();
            Contender::new(name, move |_| work.clone().measure(connections, &site))
        };
        let peer = peer.map(|peer| contender("plain tonic".to_string(), peer));
        let contenders: Vec<_> =
            [contender(Testbed::name(), ours)].into_iter().chain(peer).collect();
        let rounds = rounds::alternate(&contenders, args.load.rounds).await?;
        let named = contenders.iter().zip(rounds);
        let mut sides = named.map(|(contender, rounds)| ScalarSide::mean(&contender.name, rounds));
        let ours = sides.next().context("our side was not measured")?;
        let target = Some(Target::AtMost(target));
        measured.push(ScalarRow::compare(name, "bytes", ours, sides.next(), target));
    }
    let sent = Watched {
        watchers,
        connections: args.load.connections,
        rounds: args.load.rounds,
        how: format!(
            "{TIMES_MULTIPLEXED} times as many on streams of 100; {} statuses of {APPLICATIONS}\n\
             \x20        applications, 100 of a unit, and {} applications, in the embedded store;\n\
             \x20        {} changes; resident memory of the server's process, before and after",
            args.statuses, args.applications, args.events,
        ),
    };
    Report { machine, sent, rows: measured }.print(args.load.json)
}

#[derive(Clone)]
enum Work {
    Idle { shape: Shape, watchers: usize },
    Keep { statuses: u64 },
    Activate { applications: u64 },
    Stopped { events: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Single,
    Multiplexed,
    Plain,
}

impl Work {
    fn measure(self, connections: usize, site: &Site) -> Measuring<f64> {
        let site = site.clone();
        Box::pin(async move {
            let server = match self {
                Work::Idle { shape: Shape::Plain, .. } => {
                    Server::start_echo(&site.directory).await?
                }
                // The default backend, which keeps most of a status on disk.
                Work::Keep { .. } | Work::Activate { .. } => {
                    Server::start(&Place::Embedded, &site).await?
                }
                _ => Server::start_with(&Place::Memory, HISTORY, &site).await?,
            };
            let (address, id) = (server.grpc, server.id());
            runtime::apart(async move {
                match self {
                    Work::Idle { shape, watchers } => {
                        idle(address, id, shape, (watchers, connections)).await
                    }
                    Work::Keep { statuses } => keep(address, id, statuses, connections).await,
                    Work::Activate { applications } => {
                        activate(address, id, applications, connections).await
                    }
                    Work::Stopped { events } => stopped(address, id, events, connections).await,
                }
            })
            .await
        })
    }
}

async fn idle(
    address: SocketAddr,
    id: u32,
    shape: Shape,
    (watchers, connections): (usize, usize),
) -> anyhow::Result<f64> {
    if shape != Shape::Plain {
        report_all(&channels(address, connections)?, 0..1, 0).await?;
    }
    let (whole, call) = match shape {
        Shape::Single => (watchers, Call { path: WATCH, requests: frame(&all()), is_all: true }),
        Shape::Plain => {
            let requests = frame(&Shared::default());
            (watchers, Call { path: wire::ECHO_LISTEN, requests, is_all: true })
        }
        Shape::Multiplexed => {
            let creates =
                (0..PER_STREAM as u64).flat_map(|watch_id| frame(&create(watch_id, all())));
            let call = Call { path: MULTIPLEX, requests: creates.collect(), is_all: false };
            (watchers / PER_STREAM, call)
        }
    };
    let open = async |streams| {
        let watchers = (watchers / whole * streams) as u64;
        let ear = Arc::new(Ear { shape, current: AtomicU64::new(0) });
        let mut readers = Readers::open(address, (streams, connections), |_| call.clone(), &ear);
        let is_current = |readers: &Readers| match shape {
            Shape::Plain => streams as u64 <= readers.opened(),
            _ => watchers <= ear.current.load(Ordering::Relaxed),
        };
        readers.until(is_current, DEADLINE).await.context("not every watch is open")?;
        anyhow::Ok(readers)
    };
    // The base memory of the process is not counted: threads, their heaps, its connections.
    let _first = open(connections.min(whole)).await?;
    let before = resident(id).await?;
    let _all = open(whole).await?;
    let after = resident(id).await?;
    Ok((after - before) / watchers as f64)
}

async fn keep(
    address: SocketAddr,
    id: u32,
    statuses: u64,
    connections: usize,
) -> anyhow::Result<f64> {
    // The same number exists before, with their applications: the process keeps up to 16 MiB of
    // pages of the file in memory for any amount of data, and these are no cost of a status.
    let channels = channels(address, connections)?;
    report_all(&channels, 0..statuses, 0).await?;
    let before = resident(id).await?;
    let measured = statuses..2 * statuses;
    report_all(&channels, measured.clone(), 0).await?;
    let after = resident(id).await?;
    let words = measured.map(|number| {
        let report = report(number, 0);
        report.status.map_or(0, |status| status.component.len() + status.message.len())
    });
    Ok((after - before - words.sum::<usize>() as f64) / statuses as f64)
}

async fn activate(
    address: SocketAddr,
    id: u32,
    applications: u64,
    connections: usize,
) -> anyhow::Result<f64> {
    let channels = channels(address, connections)?;
    // As many before, for the same reason as above.
    report_one_each(&channels, 0..applications).await?;
    let before = resident(id).await?;
    report_one_each(&channels, applications..2 * applications).await?;
    let after = resident(id).await?;
    Ok((after - before) / applications as f64)
}

/// Reports one status of each of these applications.
pub async fn report_one_each(
    channels: &[Channel],
    numbers: std::ops::Range<u64>,
) -> anyhow::Result<()> {
    let reports = numbers.map(|number| v1::ReportStatusRequest {
        application: format!("one-{number:07}"),
        unit: format!("one-{number:07}/0"),
        ..report(number, 0)
    });
    send_all(channels, reports).await
}

async fn stopped(
    address: SocketAddr,
    id: u32,
    events: u64,
    connections: usize,
) -> anyhow::Result<f64> {
    let channels = channels(address, connections)?;
    for round in 0..CHANGES_BEFORE {
        report_all(&channels, 0..APPLICATIONS, round).await?;
    }
    let ear = Arc::new(Ear { shape: Shape::Single, current: AtomicU64::new(0) });
    let call = Call { path: WATCH, requests: frame(&all()), is_all: true };
    let mut readers = Readers::open(address, (1, 1), |_| call.clone(), &ear);
    let is_current = |_: &Readers| 1 <= ear.current.load(Ordering::Relaxed);
    readers.until(is_current, DEADLINE).await.context("nobody watches")?;
    readers.stop_reading();
    let before = resident(id).await?;
    for round in 0..events.div_ceil(APPLICATIONS) {
        report_all(&channels, 0..APPLICATIONS, CHANGES_BEFORE + round).await?;
    }
    let after = resident(id).await?;
    Ok((after - before).max(0.0) / events as f64)
}

/// Counts watches that are current.
struct Ear {
    shape: Shape,
    current: AtomicU64,
}

impl Hear for Ear {
    fn hear(&self, _: usize, message: &[u8]) -> u64 {
        let current = match self.shape {
            // snapshot_complete is field 3, with a length.
            Shape::Single => u64::from(message[0] == 0x1a),
            Shape::Multiplexed => multiplexed(message).1,
            Shape::Plain => 0,
        };
        self.current.fetch_add(current, Ordering::Relaxed);
        1
    }
}

fn all() -> v1::WatchApplicationsRequest {
    v1::WatchApplicationsRequest::default()
}

/// Returns connections that are established at their first use.
pub fn channels(address: SocketAddr, connections: usize) -> anyhow::Result<Vec<Channel>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
    Ok((0..connections).map(|_| endpoint.connect_lazy()).collect())
}

/// Reports the statuses of these numbers; each must be new or change.
pub async fn report_all(
    channels: &[Channel],
    numbers: std::ops::Range<u64>,
    round: u64,
) -> anyhow::Result<()> {
    send_all(channels, numbers.map(|number| report(number, round))).await
}

/// Sends these reports; the status of each must be new or change.
async fn send_all(
    channels: &[Channel],
    reports: impl Iterator<Item = v1::ReportStatusRequest>,
) -> anyhow::Result<()> {
    let connections = channels.len();
    let reports = reports.enumerate().map(|(number, report)| {
        let channel = channels[number % connections].clone();
        async move { ReportServiceClient::new(channel).report_status(report).await }
    });
    let mut answers = stream::iter(reports).buffer_unordered(IN_FLIGHT * connections);
    while let Some(answer) = answers.next().await {
        ensure!(answer?.into_inner().changed, "a report that changes its status changed nothing");
    }
    Ok(())
}

fn report(number: u64, round: u64) -> v1::ReportStatusRequest {
    let (application, number) = (number % APPLICATIONS, number / APPLICATIONS);
    v1::ReportStatusRequest {
        application: format!("app-{application:02}"),
        unit: format!("app-{application:02}/{}", number / PER_UNIT),
        status: Some(v1::StatusReport {
            component: format!("component-{:02}", number % PER_UNIT),
            kind: v1::StatusKind::Push.into(),
            level: v1::Level::Active.into(),
            message: format!("serving, request {round:016x}"),
            ..v1::StatusReport::default()
        }),
        ..v1::ReportStatusRequest::default()
    }
}

/// How often the memory is read, and the pause in between.
const LOOKS: (u32, Duration) = (10, Duration::from_millis(200));

/// Returns the resident bytes of a process, without those that it returns soon: the least of
/// several readings.
pub async fn resident(id: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{id}/status");
    let mut least = f64::INFINITY;
    for _ in 0..LOOKS.0 {
        tokio::time::sleep(LOOKS.1).await;
        let status = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        least = least.min(parse_resident(&status).with_context(|| format!("no VmRSS in {path}"))?);
    }
    Ok(least)
}

fn parse_resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(1024.0 * kilobytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn resident_memory_is_read() {
        assert_eq!(parse_resident("Name:\tx\nVmRSS:\t    12 kB\nRssAnon: 3 kB\n"), Some(12288.0));
        assert_eq!(parse_resident("Name:\tx\n"), None);
    }

    #[test]
    fn a_report_changes_its_status() {
        let (first, again, other) = (report(65, 0), report(65, 1), report(65 + 6400, 0));
        assert_eq!((&*first.application, &*first.unit), ("app-01", "app-01/0"));
        assert_eq!(other.unit, "app-01/1");
        assert_ne!(first, again);
        assert_eq!(first.encoded_len(), again.encoded_len());
    }
}
