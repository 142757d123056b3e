//! `ingest`: unary reports acknowledged per second and the commits that they become, beside
//! etcd puts of the same number of bytes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::{Level, ReportStatusRequest, StatusKind, StatusReport};
use prost::Message;
use tonic::Status;
use tonic::transport::Channel;

use crate::Load;
use crate::commits;
use crate::cost::Cost;
use crate::echo::Echoes;
use crate::etcd::{self, Etcd, Puts};
use crate::load::{self, Plan, Work};
use crate::machine::Machine;
use crate::redis::{self, Fsync, Redis};
use crate::report::{Report, Row, Sent, Side};
use crate::rounds::{self, Contender, Progress};
use crate::scalar::{AnyRow, ScalarRow, ScalarSide, Target};
use crate::server::{Place, Server};
use crate::site::Site;

/// Flags of `ingest`.
#[derive(Debug, clap::Args)]
pub struct Ingest {
    /// Stores of our server; each is measured
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Store::Embedded])]
    pub store: Vec<Store>,
    /// When Redis syncs its file to disk [default: everysec]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub fsync: Option<Fsync>,
    /// The peer to measure
    #[arg(long, value_enum, default_value_t = Peer::Etcd)]
    pub peer: Peer,
    /// Calls open at once on each connection
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: u32,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The store of our server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    /// On disk, fsync before each acknowledgement
    Embedded,
    /// In memory
    Memory,
    /// In a Redis of its own with an append-only file
    Redis,
}

/// The peer to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    /// One etcd; for --store memory also a plain tonic echo
    Etcd,
    /// Only the plain tonic echo
    Echo,
    /// Nothing
    None,
}

/// Applications that reports are spread over: enough that no single one is the bottleneck.
pub const APPLICATIONS: u64 = 64;
/// Units of each. With one status each, there are as many keys as calls in flight by default: a
/// unit reports again when its last report is acknowledged, as a worker does.
const UNITS: u64 = 16;
/// Distinct statuses that are reported.
pub const KEYS: u64 = APPLICATIONS * UNITS;

/// The least ratio to etcd's puts, over a Redis that syncs every second.
const REDIS_TARGET: f64 = 1.4;
/// The least ratio to the echo: in memory, all work besides the call itself must be small.
const ECHO_TARGET: f64 = 0.65;
/// The most microseconds of processor time of our server for a call, in memory.
const MICROS_TARGET: f64 = 22.0;

/// Runs the command: starts the sides, measures them in turn, prints the report.
pub async fn run(args: Ingest) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let started = Started::start(&args, &site).await?;
    let request_bytes = report(0).encoded_len();
    let plan = args.load.plan(args.in_flight);
    let contenders = started.contenders(&plan, request_bytes);
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let names = contenders.iter().map(|contender| contender.name.as_str());
    let sides = names.zip(&measured);
    let sides =
        sides.map(|(name, rounds)| Side::of(name, rounds.iter().map(|round| &round.cost.calls)));
    let mut sides: Vec<Side> = sides.collect::<anyhow::Result<_>>()?;
    let mut peers = sides.split_off(started.ours.len()).into_iter();
    let etcd = started.etcd.as_ref().and_then(|_| peers.next());
    let echo = started.echo.as_ref().and_then(|_| peers.next());
    let mut rows = Vec::new();
    for ((ours, side), rounds) in started.ours.iter().zip(sides).zip(&measured) {
        let commits = rounds.iter().filter_map(|round| round.commits_per_second).collect();
        let commits = Side::counted(&side.name, commits);
        rows.extend(ours.compare(side, etcd.as_ref(), echo.as_ref()).into_iter().map(AnyRow::Rate));
        rows.push(AnyRow::Rate(ours.commits_beside(commits, etcd.as_ref())));
        rows.push(ours.cost_row(rounds));
    }
    Report { machine, sent: args.sent(request_bytes), rows }.print(args.load.json)
}

/// The processes of a measurement.
struct Started {
    ours: Vec<Ours>,
    etcd: Option<Etcd>,
    echo: Option<Server>,
}

/// A server of ours. Fields are dropped in their order: the server before its Redis.
struct Ours {
    server: Server,
    redis: Option<(Redis, Fsync)>,
    store: Store,
}

impl Started {
    async fn start(args: &Ingest, site: &Site) -> anyhow::Result<Started> {
        let wants = |store| args.store.contains(&store);
        if args.fsync.is_some() && !wants(Store::Redis) {
            bail!("--fsync is for --store redis; the embedded store always waits for the disk");
        }
        // Checked before anything is started: a missing binary is the likeliest failure.
        let etcd_binary = (args.peer == Peer::Etcd).then(etcd::find).transpose()?;
        let redis_binary = wants(Store::Redis).then(redis::find).transpose()?;
        let wants_echo = match args.peer {
            Peer::Etcd => wants(Store::Memory),
            Peer::Echo => true,
            Peer::None => false,
        };
        let progress = Progress::new();
        progress.say("starting servers");
        let fsync = args.fsync.unwrap_or(Fsync::Everysec);
        let mut ours = Vec::new();
        for &store in &args.store {
            let redis_binary = redis_binary.as_ref().filter(|_| store == Store::Redis);
            ours.push(Ours::start(store, redis_binary, fsync, site).await?);
        }
        let etcd = match &etcd_binary {
            Some(binary) => Some(Etcd::start(binary, &site.directory).await?),
            None => None,
        };
        let echo = if wants_echo { Some(Server::start_echo(&site.directory).await?) } else { None };
        Ok(Started { ours, etcd, echo })
    }

    /// Returns our sides in their order, then etcd, then the echo.
    fn contenders(&self, plan: &Plan, request_bytes: usize) -> Vec<Contender<Round>> {
        let mut contenders: Vec<_> =
            self.ours.iter().map(|ours| ours.contender(plan.clone())).collect();
        if let Some(etcd) = &self.etcd {
            let puts = Puts::of(request_bytes, APPLICATIONS * UNITS);
            let name = format!("etcd {}", etcd.version);
            contenders.push(contender(name, etcd.address, puts, plan.clone()));
        }
        if let Some(echo) = &self.echo {
            let echoes = Echoes::of(request_bytes);
            let name = "plain tonic echo".to_string();
            contenders.push(contender(name, echo.grpc, echoes, plan.clone()));
        }
        contenders
    }
}

impl Ours {
    async fn start(
        store: Store,
        redis_binary: Option<&PathBuf>,
        fsync: Fsync,
        site: &Site,
    ) -> anyhow::Result<Ours> {
        let redis = match redis_binary {
            Some(binary) => Some((Redis::start(binary, fsync, &site.directory).await?, fsync)),
            None => None,
        };
        let place = match (store, &redis) {
            (Store::Memory, _) => Place::Memory,
            (_, Some((redis, _))) => Place::Redis(redis.url()),
            (_, None) => Place::Embedded,
        };
        Ok(Ours { server: Server::start(&place, site).await?, redis, store })
    }

    /// Returns our side; its commits are counted during the load.
    fn contender(&self, plan: Plan) -> Contender<Round> {
        let name = format!("bellwether {}", bellwether::VERSION);
        let (grpc, ops, id) = (self.server.grpc, self.server.ops, self.server.id());
        let work = Arc::new(Reports);
        Contender::new(name, move |first| {
            let (work, plan) = (work.clone(), plan.clone());
            Box::pin(async move {
                let ops = ops.context("our server printed no address of its metrics")?;
                let calls = load::run(work, format!("http://{grpc}"), plan.clone(), first);
                let commits = commits::per_second(ops, &plan);
                let cost = Cost::of(calls, vec![id], plan.clone());
                let (cost, commits) = tokio::try_join!(cost, commits)?;
                Ok(Round { cost, commits_per_second: Some(commits) })
            })
        })
    }

    /// Returns a row for each peer that this store is compared with.
    fn compare(&self, side: Side, etcd: Option<&Side>, echo: Option<&Side>) -> Vec<Row> {
        let work = self.work("Unary ReportStatus");
        // An echo is no peer for a store that writes to disk.
        let echo = echo.filter(|_| self.store == Store::Memory || etcd.is_none());
        let is_everysec = matches!(self.redis, Some((_, Fsync::Everysec)));
        let row = |beside, peer: &Side, target| {
            let work = format!("{work}, beside {beside}");
            Row::compare(&work, side.clone(), Some(peer.clone()), target)
        };
        let rows = [
            etcd.map(|e| row("etcd puts with fsync", e, is_everysec.then_some(REDIS_TARGET))),
            echo.map(|e| {
                let target = (self.store == Store::Memory).then_some(ECHO_TARGET);
                row("plain tonic unary echo", e, target)
            }),
        ];
        match rows.into_iter().flatten().collect::<Vec<Row>>() {
            none if none.is_empty() => vec![Row::compare(&work, side, None, None)],
            rows => rows,
        }
    }

    /// Returns the row of the commits of those reports, beside etcd, where each put is a commit.
    fn commits_beside(&self, commits: Side, etcd: Option<&Side>) -> Row {
        let mut work = self.work("Commits of these reports");
        if etcd.is_some() {
            work.push_str(", beside etcd puts with fsync");
        }
        Row::compare(&work, commits, etcd.cloned(), None)
    }

    /// Returns the processor time of our server for a call.
    fn cost_row(&self, rounds: &[Round]) -> AnyRow {
        let micros = rounds.iter().filter_map(|round| round.cost.micros(0)).collect();
        let name = format!("bellwether {}", bellwether::VERSION);
        let side = ScalarSide::mean(&name, micros);
        let work = self.work("Processor time of the server for a unary ReportStatus");
        let target = (self.store == Store::Memory).then_some(Target::AtMost(MICROS_TARGET));
        AnyRow::Scalar(ScalarRow::compare(work, "microseconds", side, None, target))
    }

    /// Names the work and the store.
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

/// The results of one measurement of a side.
struct Round {
    cost: Cost,
    /// Commits per second of our server meanwhile.
    commits_per_second: Option<f64>,
}

fn contender<W: Work>(name: String, address: SocketAddr, work: W, plan: Plan) -> Contender<Round> {
    let work = Arc::new(work);
    Contender::new(name, move |first| {
        let load = load::run(work.clone(), format!("http://{address}"), plan.clone(), first);
        let plan = plan.clone();
        Box::pin(async move {
            let cost = Cost::of(load, Vec::new(), plan).await?;
            Ok(Round { cost, commits_per_second: None })
        })
    })
}

impl Ingest {
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

/// Reports that each change their status, so that none is answered as a repeat.
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

/// Returns report number `sequence`. All have the same length, and the message differs from the
/// last one of its unit.
pub fn report(sequence: u64) -> ReportStatusRequest {
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
}
