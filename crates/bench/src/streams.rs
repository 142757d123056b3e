//! `streams`: reports acknowledged per second on the streams of workers, beside etcd puts and
//! a plain tonic stream echo of the same bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::bail;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use bellwether::proto::v1::{ConnectReport, ConnectRequest, ConnectResponse, Hello};
use bellwether::proto::v1::{Level, StatusKind, StatusReport};
use futures_util::Stream;
use prost::Message;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::Load;
use crate::cold::Lines;
use crate::cost::{self, Cost};
use crate::echo::Echoes;
use crate::etcd::{self, Etcd, Puts};
use crate::ingest::Store;
use crate::load::{self, Measured, Plan};
use crate::machine::Machine;
use crate::pipelined::{self, Exchange, Messages};
use crate::redis::{self, Fsync, Redis};
use crate::report::{Report, Row, Sent, Side};
use crate::rounds::{self, Contender, Progress};
use crate::scalar::AnyRow;
use crate::server::{Place, Server};
use crate::site::Site;
use crate::wire;

/// Flags of `streams`.
#[derive(Debug, clap::Args)]
pub struct Streams {
    /// Store of our server
    #[arg(long, value_enum, default_value_t = Store::Redis)]
    pub store: Store,
    /// When Redis syncs its file to disk [default: everysec]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub fsync: Option<Fsync>,
    /// Streams on each connection, each of a worker of its own
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    /// Unacknowledged reports on each stream
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: u32,
    /// Distinct statuses that are reported, over all streams
    #[arg(long, default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(64..=250_000))]
    pub keys: u64,
    /// Measure only our side
    #[arg(long)]
    pub alone: bool,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// Applications that workers are spread over.
const APPLICATIONS: u64 = 64;
/// Keys of one component; its limit is 1,024.
const KEYS_PER_COMPONENT: u64 = 1000;
/// Puts open at once on each connection, unless our side has fewer: the fastest number for etcd,
/// found by trials.
const PUTS_IN_FLIGHT: usize = 128;

/// The least ratios to etcd's puts, by store.
const REDIS_TARGET: f64 = 15.0;
const EMBEDDED_TARGET: f64 = 15.0;
/// The most microseconds of processor time for a report over Redis: of our server, and of Redis.
const OVER_REDIS_MICROS_TARGET: f64 = 2.7;
const OF_REDIS_MICROS_TARGET: f64 = 0.8;
/// The lines of memory that a report reads in memory, with the default number of statuses, and
/// that the cache of one core does not have.
const LINES: Lines = Lines { count: 47, mib: 34, ratio_max: 0.4 };

/// Runs the command: starts the sides, measures them in turn, prints the report.
pub async fn run(args: Streams) -> anyhow::Result<()> {
    if args.fsync.is_some() && args.store != Store::Redis {
        bail!("--fsync is for --store redis; the embedded store always waits for the disk");
    }
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let progress = Progress::new();
    progress.say("starting servers");
    let started = Started::start(&args, &site).await?;
    drop(progress);
    let streams = u64::from(args.streams * args.load.connections);
    let reports = Reports { streams, keys: args.keys, name: "app", applications: APPLICATIONS };
    let request_bytes = reports.message(0, 0, 1).encoded_len();
    let (contenders, comparisons) = started.contenders(&args, reports, request_bytes);
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let names = contenders.iter().map(|contender| contender.name.as_str());
    let sides = names
        .zip(&measured)
        .map(|(name, rounds)| Side::of(name, rounds.iter().map(|round| &round.calls)));
    let sides: Vec<Side> = sides.collect::<anyhow::Result<_>>()?;
    let work = format!("Reports on workers' streams, {}", started.what);
    let mut rows = match sides.split_first() {
        Some((ours, [])) => vec![AnyRow::Rate(Row::compare(&work, ours.clone(), None, None))],
        Some((ours, peers)) => {
            let rows = peers.iter().zip(&comparisons).map(|(peer, (beside, target))| {
                let work = format!("{work}, beside {beside}");
                AnyRow::Rate(Row::compare(&work, ours.clone(), Some(peer.clone()), *target))
            });
            rows.collect()
        }
        None => Vec::new(),
    };
    if let Some(ours) = measured.first() {
        rows.extend(started.cost_rows(&args, ours)?);
    }
    Report { machine, sent: args.sent(request_bytes), rows }.print(args.load.json)
}

/// The processes of a measurement. Fields are dropped in their order: our server before its Redis.
struct Started {
    server: Server,
    redis: Option<Redis>,
    /// The store of our server, in words.
    what: String,
    /// The least ratio to etcd's puts.
    target: Option<f64>,
    etcd: Option<Etcd>,
    echo: Option<Server>,
}

/// The name of a peer, and the least ratio to it.
type Comparison = (&'static str, Option<f64>);

impl Started {
    async fn start(args: &Streams, site: &Site) -> anyhow::Result<Started> {
        // Checked before anything is started: a missing binary is the likeliest failure.
        let etcd_binary = (!args.alone).then(etcd::find).transpose()?;
        let redis_binary = (args.store == Store::Redis).then(redis::find).transpose()?;
        let fsync = args.fsync.unwrap_or(Fsync::Everysec);
        let redis = match &redis_binary {
            Some(binary) => Some(Redis::start(binary, fsync, &site.directory).await?),
            None => None,
        };
        let (place, what, target) = match (args.store, &redis) {
            (Store::Memory, _) => (Place::Memory, "memory store".to_string(), None),
            (_, Some(redis)) => {
                let what = format!("Redis {} with AOF {}", redis.version, fsync.name());
                (Place::Redis(redis.url()), what, Some(REDIS_TARGET))
            }
            (_, None) => {
                let what = "embedded store, fsync before acknowledge".to_string();
                (Place::Embedded, what, Some(EMBEDDED_TARGET))
            }
        };
        let server = Server::start(&place, site).await?;
        let etcd = match &etcd_binary {
            Some(binary) => Some(Etcd::start(binary, &site.directory).await?),
            None => None,
        };
        let echo = if args.alone { None } else { Some(Server::start_echo(&site.directory).await?) };
        Ok(Started { server, redis, what, target, etcd, echo })
    }

    fn contenders(
        &self,
        args: &Streams,
        reports: Reports,
        request_bytes: usize,
    ) -> (Vec<Contender<Cost>>, Vec<Comparison>) {
        let plan = args.load.plan(args.in_flight);
        let streams = args.streams as usize;
        let ours = format!("bellwether {}", bellwether::VERSION);
        let ids = [self.server.id()].into_iter().chain(self.redis.as_ref().map(Redis::id));
        let ours = costing(ours, (self.server.grpc, ids.collect()), reports, &plan, streams);
        let mut contenders = vec![ours];
        let mut comparisons = Vec::new();
        if let Some(etcd) = &self.etcd {
            let puts = Arc::new(Puts::of(request_bytes, args.keys));
            let url = format!("http://{}", etcd.address);
            let in_flight = PUTS_IN_FLIGHT.min(plan.in_flight * streams);
            let plan = Plan { in_flight, ..plan.clone() };
            contenders.push(Contender::new(format!("etcd {}", etcd.version), move |first| {
                let calls = load::run(puts.clone(), url.clone(), plan.clone(), first);
                Box::pin(Cost::of(calls, Vec::new(), plan.clone()))
            }));
            comparisons.push(("etcd puts with fsync", self.target));
        }
        if let Some(echo) = &self.echo {
            let name = "plain tonic stream echo".to_string();
            let echoes = Echoes::of(request_bytes);
            contenders.push(costing(name, (echo.grpc, Vec::new()), echoes, &plan, streams));
            comparisons.push(("plain tonic stream echo", None));
        }
        (contenders, comparisons)
    }
}

/// Returns a side that is measured on streams, with the processor time of these processes.
fn costing<E: Exchange>(
    name: String,
    (address, ids): (SocketAddr, Vec<u32>),
    exchange: E,
    plan: &Plan,
    streams: usize,
) -> Contender<Cost> {
    let (exchange, plan) = (Arc::new(exchange), plan.clone());
    Contender::new(name, move |first| {
        let url = format!("http://{address}");
        let calls = pipelined::run(exchange.clone(), url, plan.clone(), streams, first);
        Box::pin(Cost::of(calls, ids.clone(), plan.clone()))
    })
}

/// Returns a side that is measured on streams.
pub fn pipelining<E: Exchange>(
    name: String,
    address: SocketAddr,
    exchange: E,
    plan: Plan,
    streams: usize,
) -> Contender<Measured> {
    let exchange = Arc::new(exchange);
    Contender::new(name, move |first| {
        let url = format!("http://{address}");
        Box::pin(checked(pipelined::run(exchange.clone(), url, plan.clone(), streams, first)))
    })
}

/// Returns a measurement that fails if a call failed.
pub async fn checked(
    measuring: impl Future<Output = anyhow::Result<Measured>>,
) -> anyhow::Result<Measured> {
    let measured = measuring.await?;
    measured.check()?;
    Ok(measured)
}

impl Started {
    /// Returns the processor time of our processes for a report.
    fn cost_rows(&self, args: &Streams, ours: &[Cost]) -> anyhow::Result<Vec<AnyRow>> {
        let server = (args.store == Store::Redis).then_some(OVER_REDIS_MICROS_TARGET);
        let work = |of| format!("Processor time of {of} for a report on a stream, {}", self.what);
        let name = format!("bellwether {}", bellwether::VERSION);
        let server = cost::row(work("the server"), &name, ours, 0, server);
        let redis = self.redis.as_ref().and_then(|redis| {
            let name = format!("Redis {}", redis.version);
            cost::row(work("Redis"), &name, ours, 1, Some(OF_REDIS_MICROS_TARGET))
        });
        let mut rows: Vec<AnyRow> = server.into_iter().chain(redis).collect();
        if args.store == Store::Memory {
            let micros = ours.iter().filter_map(|round| round.micros(0)).collect();
            let work = work("the server") + ", beside reads of as many lines that are in no cache";
            rows.push(LINES.beside(work, micros)?);
        }
        Ok(rows)
    }
}

impl Streams {
    fn sent(&self, request_bytes: usize) -> Sent {
        Sent {
            request_bytes,
            keys: self.keys,
            applications: APPLICATIONS,
            connections: self.load.connections,
            in_flight: self.in_flight * self.streams,
            rounds: self.load.rounds,
            seconds: self.load.seconds,
            warm_up_seconds: self.load.warm_up,
        }
    }
}

/// Reports that each change their status. Each stream is of a unit of its own, with its share of
/// the keys.
#[derive(Debug, Clone, Copy)]
pub struct Reports {
    /// Streams, over all connections.
    pub streams: u64,
    /// Distinct statuses, over all streams.
    pub keys: u64,
    /// The prefix of the names of the applications.
    pub name: &'static str,
    /// Applications that units belong to.
    pub applications: u64,
}

impl Reports {
    /// Opens a worker's stream.
    pub async fn connect(
        channel: Channel,
        messages: impl Stream<Item = ConnectRequest> + Send + 'static,
    ) -> Result<Streaming<ConnectResponse>, Status> {
        let mut client = WorkerServiceClient::new(channel);
        Ok(client.connect(messages).await?.into_inner())
    }

    /// Returns the number of statuses of a stream; at least one.
    pub fn keys_of(&self, stream: usize) -> u64 {
        let rest = u64::from((stream as u64) < self.keys % self.streams);
        (self.keys / self.streams + rest).max(1)
    }
}

impl Exchange for Reports {
    type Sent = ConnectRequest;
    type Told = ConnectResponse;

    async fn open(
        &self,
        channel: Channel,
        _: usize,
        messages: Messages<Reports>,
    ) -> Result<Streaming<ConnectResponse>, Status> {
        Reports::connect(channel, messages).await
    }

    fn hello(&self, stream: usize) -> Option<ConnectRequest> {
        let stream = stream as u64;
        let application = format!("{}-{:02}", self.name, stream % self.applications);
        let unit = format!("{application}/{}", stream / self.applications);
        let hello = Hello { application, unit, ..Hello::default() };
        Some(ConnectRequest { message: Some(Said::Hello(Box::new(hello))) })
    }

    fn message(&self, stream: usize, first: u64, seq: u64) -> ConnectRequest {
        let key = seq % self.keys_of(stream);
        let status = StatusReport {
            component: format!("c{}", key / KEYS_PER_COMPONENT),
            key: format!("key-{:06}", key % KEYS_PER_COMPONENT),
            kind: StatusKind::Push.into(),
            level: Level::Active.into(),
            message: format!("serving, request {:016x}", first + seq),
            ..StatusReport::default()
        };
        let report = ConnectReport { seq, statuses: vec![status] };
        ConnectRequest { message: Some(Said::Report(report)) }
    }

    fn acknowledged(&self, told: ConnectResponse, before: u64) -> Result<u64, Status> {
        match told.message {
            Some(Told::Ack(ack)) => Ok(ack.seq),
            Some(Told::Reject(reject)) => Err(Status::aborted(format!("{reject:?}"))),
            _ => Ok(before),
        }
    }
}

impl Exchange for Echoes {
    type Sent = wire::Echo;
    type Told = wire::Echo;

    async fn open(
        &self,
        channel: Channel,
        _: usize,
        messages: Messages<Echoes>,
    ) -> Result<Streaming<wire::Echo>, Status> {
        wire::streaming(channel, wire::ECHO_STREAM, messages).await
    }

    fn hello(&self, _: usize) -> Option<wire::Echo> {
        None
    }

    fn message(&self, _: usize, _: u64, _: u64) -> wire::Echo {
        self.message()
    }

    fn acknowledged(&self, _: wire::Echo, before: u64) -> Result<u64, Status> {
        Ok(before + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_out_all_keys() {
        for (streams, keys) in [(32, 100), (32, 100_000), (3, 64)] {
            let reports = Reports { streams, keys, name: "app", applications: 1 };
            let shares: Vec<u64> = (0..streams as usize).map(|s| reports.keys_of(s)).collect();
            assert_eq!(shares.iter().sum::<u64>(), keys, "{shares:?}");
        }
    }
}
