//! `bench ingest`: unary reports acknowledged per second and the commits they become, beside etcd
//! puts of as many bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use prost::Message;
use tonic::Status;
use tonic::transport::Channel;

use crate::bench::Load;
use crate::bench::commits;
use crate::bench::echo::Echoes;
use crate::bench::etcd::{self, Etcd, Puts};
use crate::bench::load::{self, Measured, Plan, Work};
use crate::bench::machine::Machine;
use crate::bench::redis::{self, Fsync, Redis};
use crate::bench::report::{Report, Row, Sent, Side};
use crate::bench::rounds::{self, Contender, Progress};
use crate::bench::server::{Place, Server};
use crate::proto::v1::report_service_client::ReportServiceClient;
use crate::proto::v1::{Level, ReportStatusRequest, StatusKind, StatusReport};

/// Flags of `bench ingest`.
#[derive(Debug, clap::Args)]
pub struct Ingest {
    /// Where our server remembers
    #[arg(long, value_enum, default_value_t = Store::Embedded)]
    pub store: Store,
    /// When Redis tells its disk to keep what it has written [default: everysec]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub fsync: Option<Fsync>,
    /// What to measure beside it
    #[arg(long, value_enum, default_value_t = Peer::Etcd)]
    pub peer: Peer,
    /// Calls open at once on each connection
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: u32,
    /// How much is sent.
    #[command(flatten)]
    pub load: Load,
}

/// Where our server remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    /// On disk, fsync before each acknowledgement
    Embedded,
    /// In memory
    Memory,
    /// In a Redis of its own that appends to a file
    Redis,
}

/// What to measure beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    /// One etcd; with --store memory also a plain tonic echo
    Etcd,
    /// Only the plain tonic echo
    Echo,
    /// Nothing
    None,
}

/// Applications that reports are spread over: enough that no single one is the limit.
const APPLICATIONS: u64 = 64;
/// Units of each. With one status each, as many keys as calls in flight by default: a unit reports
/// again when its last report is acknowledged, as a worker does.
const UNITS: u64 = 16;

/// In memory, what is left besides the call itself must be small.
const ECHO_TARGET: f64 = 0.8;

/// Runs the command: starts the sides, measures them in turn, prints the report.
pub async fn run(args: Ingest) -> anyhow::Result<()> {
    let parent = args.load.data_directory();
    let machine = Machine::look(&parent);
    let started = Started::start(&args, &parent).await?;
    let request_bytes = report(0).encoded_len();
    let plan = args.plan();
    let mut contenders = vec![started.ours(plan.clone())];
    let mut comparisons = Vec::new();
    if let Some(etcd) = &started.etcd {
        let puts = Puts::of(request_bytes, APPLICATIONS * UNITS);
        let name = format!("etcd {}", etcd.version);
        contenders.push(contender(name, etcd.address, puts, plan.clone()));
        comparisons.push(("etcd puts with fsync", None));
    }
    if let Some(echo) = &started.echo {
        let echoes = Echoes::of(request_bytes);
        contenders.push(contender("plain tonic echo".into(), echo.grpc, echoes, plan));
        let target = (args.store == Store::Memory).then_some(ECHO_TARGET);
        comparisons.push(("plain tonic unary echo", target));
    }
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let names = contenders.iter().map(|contender| contender.name.as_str());
    let sides = names.zip(&measured);
    let sides = sides.map(|(name, rounds)| Side::of(name, rounds.iter().map(|round| &round.calls)));
    let sides: Vec<Side> = sides.collect::<anyhow::Result<_>>()?;
    let mut rows = compare(&started.work("Unary ReportStatus"), &sides, &comparisons);
    rows.push(commits_beside(&started, &sides, &measured[0]));
    Report { machine, sent: args.sent(request_bytes), rows }.print(args.load.json)
}

/// What runs for a measurement. Fields are dropped in their order: our server before its Redis.
struct Started {
    server: Server,
    redis: Option<(Redis, Fsync)>,
    store: Store,
    etcd: Option<Etcd>,
    echo: Option<Server>,
}

impl Started {
    async fn start(args: &Ingest, parent: &std::path::Path) -> anyhow::Result<Started> {
        if args.fsync.is_some() && args.store != Store::Redis {
            bail!("--fsync is for --store redis; the embedded store always waits for the disk");
        }
        // Before anything is started: not having them is the likeliest failure.
        let etcd_binary = (args.peer == Peer::Etcd).then(etcd::find).transpose()?;
        let redis_binary = (args.store == Store::Redis).then(redis::find).transpose()?;
        let wants_echo = match args.peer {
            Peer::Etcd => args.store == Store::Memory,
            Peer::Echo => true,
            Peer::None => false,
        };
        let progress = Progress::new();
        progress.say("starting servers");
        let fsync = args.fsync.unwrap_or(Fsync::Everysec);
        let redis = match &redis_binary {
            Some(binary) => Some((Redis::start(binary, fsync, parent).await?, fsync)),
            None => None,
        };
        let place = match (args.store, &redis) {
            (Store::Memory, _) => Place::Memory,
            (_, Some((redis, _))) => Place::Redis(redis.url()),
            (_, None) => Place::Embedded,
        };
        let server = Server::start(&place, parent).await?;
        let etcd = match &etcd_binary {
            Some(binary) => Some(Etcd::start(binary, parent).await?),
            None => None,
        };
        let echo = if wants_echo { Some(Server::start_echo(parent).await?) } else { None };
        Ok(Started { server, redis, store: args.store, etcd, echo })
    }

    /// Our side, whose commits are counted meanwhile.
    fn ours(&self, plan: Plan) -> Contender<Round> {
        let name = format!("bellwether {}", env!("CARGO_PKG_VERSION"));
        let (grpc, ops, work) = (self.server.grpc, self.server.ops, Arc::new(Reports));
        Contender::new(name, move |first| {
            let (work, plan) = (work.clone(), plan.clone());
            Box::pin(async move {
                let ops = ops.context("our server has not said where its metrics are")?;
                let calls = load::run(work, format!("http://{grpc}"), plan.clone(), first);
                let commits = commits::per_second(ops, &plan);
                let (calls, commits) = tokio::try_join!(calls, commits)?;
                calls.check()?;
                Ok(Round { calls, commits_per_second: Some(commits) })
            })
        })
    }

    /// What is done, and where it is kept.
    fn work(&self, what: &str) -> String {
        match (self.store, &self.redis) {
            (Store::Memory, _) => format!("{what}, memory store"),
            (_, Some((redis, fsync))) => {
                format!("{what}, Redis {} with AOF {}", redis.version, fsync.name())
            }
            (_, None) => format!("{what}, embedded store, fsync before acknowledge"),
        }
    }
}

/// What one measurement of a side gave.
struct Round {
    calls: Measured,
    /// Commits that our server made meanwhile.
    commits_per_second: Option<f64>,
}

fn contender<W: Work>(name: String, address: SocketAddr, work: W, plan: Plan) -> Contender<Round> {
    let work = Arc::new(work);
    Contender::new(name, move |first| {
        let load = load::run(work.clone(), format!("http://{address}"), plan.clone(), first);
        Box::pin(async move {
            let calls = load.await?;
            calls.check()?;
            Ok(Round { calls, commits_per_second: None })
        })
    })
}

/// A row for each peer; the first side is ours.
fn compare(work: &str, sides: &[Side], comparisons: &[(&str, Option<f64>)]) -> Vec<Row> {
    let Some((ours, peers)) = sides.split_first() else {
        return Vec::new();
    };
    if peers.is_empty() {
        return vec![Row::compare(work, ours.clone(), None, None)];
    }
    let rows = peers.iter().zip(comparisons).map(|(peer, (beside, target))| {
        let work = format!("{work}, beside {beside}");
        Row::compare(&work, ours.clone(), Some(peer.clone()), *target)
    });
    rows.collect()
}

/// The commits that those reports became, beside etcd, where each put is one.
fn commits_beside(started: &Started, sides: &[Side], ours: &[Round]) -> Row {
    let by_round = ours.iter().filter_map(|round| round.commits_per_second).collect();
    let commits = Side::counted(&sides[0].name, by_round);
    let etcd = started.etcd.as_ref().and(sides.get(1)).cloned();
    let mut work = started.work("Commits of these reports");
    if etcd.is_some() {
        work.push_str(", beside etcd puts with fsync");
    }
    Row::compare(&work, commits, etcd, None)
}

impl Ingest {
    fn plan(&self) -> Plan {
        Plan {
            connections: self.load.connections as usize,
            in_flight: self.in_flight as usize,
            warm_up: self.load.warm_up(),
            window: self.load.window(),
        }
    }

    fn sent(&self, request_bytes: usize) -> Sent {
        Sent {
            request_bytes,
            keys: APPLICATIONS * UNITS,
            applications: APPLICATIONS,
            connections: self.load.connections,
            in_flight: self.in_flight,
            rounds: self.load.rounds,
            seconds: self.load.seconds,
            warm_up_seconds: self.load.warm_up,
        }
    }
}

/// Reports of which each changes its status: none may be answered from what is known.
struct Reports;

impl Work for Reports {
    async fn call(&self, channel: Channel, sequence: u64) -> Result<(), Status> {
        let mut client = ReportServiceClient::new(channel);
        let answer = client.report_status(report(sequence)).await?.into_inner();
        match answer.changed {
            true => Ok(()),
            false => Err(Status::data_loss("a report that changes its status changed nothing")),
        }
    }
}

/// The report number `sequence`, always as long. The message differs from the last one of its unit.
fn report(sequence: u64) -> ReportStatusRequest {
    let key = sequence % (APPLICATIONS * UNITS);
    let (application, unit) = (key % APPLICATIONS, key / APPLICATIONS);
    ReportStatusRequest {
        application: format!("app-{application:02}"),
        unit: format!("app-{application:02}/{unit:02}"),
        status: Some(StatusReport {
            kind: StatusKind::Push.into(),
            level: Level::Active.into(),
            message: format!("serving, request {sequence:016x}"),
            ..StatusReport::default()
        }),
        ..ReportStatusRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn reports_are_as_long_and_spread_and_all_different() {
        let reports: Vec<ReportStatusRequest> = (0..10_000).map(report).collect();
        let lengths: HashSet<usize> = reports.iter().map(Message::encoded_len).collect();
        assert_eq!(lengths, HashSet::from([report(u64::MAX).encoded_len()]));
        let units: HashSet<_> = reports.iter().map(|r| (&r.application, &r.unit)).collect();
        assert_eq!(units.len() as u64, APPLICATIONS * UNITS);
        let messages: HashSet<_> =
            reports.iter().filter_map(|r| r.status.as_ref()).map(|s| &s.message).collect();
        assert_eq!(messages.len(), reports.len());
    }

    #[test]
    fn each_peer_gets_a_row_and_none_gets_one_alone() {
        let side = |name: &str| Side {
            name: name.to_string(),
            per_second: 1.0,
            per_second_by_round: vec![1.0],
            p50_seconds: Some(0.1),
            p99_seconds: Some(0.1),
        };
        let peers = [("etcd puts with fsync", None), ("plain tonic unary echo", Some(0.8))];
        let rows = compare("work", &[side("ours"), side("etcd"), side("echo")], &peers);
        let targets: Vec<Option<f64>> = rows.iter().map(|row| row.target).collect();
        assert_eq!(targets, [None, Some(0.8)]);
        assert!(rows[1].work.ends_with("beside plain tonic unary echo"), "{}", rows[1].work);
        let rows = compare("work", &[side("ours")], &[]);
        assert_eq!((rows.len(), &rows[0].peer), (1, &None));
    }
}
