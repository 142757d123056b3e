//! `replicas`: the delay from a report on one replica to a watcher of another, over one
//! Redis. The peer is etcd, with puts on some connections and the watch on another.

use std::sync::Arc;

use anyhow::Context;
use prost::Message;

use crate::Load;
use crate::changes::Reports;
use crate::delay::{DelayRow, DelaySent, DelaySide, Way};
use crate::etcd::{self, Etcd, Puts};
use crate::machine::Machine;
use crate::open_loop::{self, Plan, WatchedWork};
use crate::pending::Delays;
use crate::redis::{self, Fsync, Redis};
use crate::report::Report;
use crate::rounds::{self, Contender, Progress};
use crate::server::{Place, Server};
use crate::site::Site;

/// Flags of `replicas`.
#[derive(Debug, clap::Args)]
pub struct Replicas {
    /// Reports per second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// When Redis syncs its file to disk
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Fsync::Everysec)]
    pub fsync: Fsync,
    /// The peer to measure
    #[arg(long, value_enum, default_value_t = Peer::Etcd)]
    pub peer: Peer,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The peer to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    /// One etcd
    Etcd,
    /// Nothing
    None,
}

/// At the default rate each application changes every 1.3 s, so that hardly any event conflates two
/// reports.
const APPLICATIONS: u64 = 256;

/// The delays that are measured on each side.
pub const WAYS: [Way; 4] = [
    Way {
        name: "from sending to the watcher's event",
        delay: |delays| &delays.due_to_seen,
        is_watched: true,
    },
    Way {
        name: "from acknowledgement to the watcher's event",
        delay: |delays| &delays.acknowledged_to_seen,
        is_watched: true,
    },
    Way {
        name: "from sending to acknowledgement",
        delay: |delays| &delays.due_to_acknowledged,
        is_watched: false,
    },
    Way {
        name: "by the load itself, from when it was due until it was sent",
        delay: |delays| &delays.due_to_sent,
        is_watched: false,
    },
];

/// Runs the command: starts the sides, measures them in turn, prints the report.
pub async fn run(args: Replicas) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let started = Started::start(&args, &site).await?;
    let reports = Reports { applications: APPLICATIONS, watchers: 1, sees_all: true };
    let request_bytes = reports.report(0).encoded_len();
    let ours = format!("bellwether {}", bellwether::VERSION);
    let plan = args.plan(&started.first, &started.second);
    let mut contenders = vec![contender(ours, reports, plan.clone())];
    if let Some(etcd) = &started.etcd {
        let plan = Plan { writes: etcd.address, watcher: etcd.address, ..plan };
        let puts = Puts::of(request_bytes, APPLICATIONS);
        contenders.push(contender(format!("etcd {}", etcd.version), puts, plan));
    }
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
    let rows = WAYS.iter().map(|way| started.row(&args, way, &names, &measured));
    let rows: Vec<DelayRow> = rows.collect::<anyhow::Result<_>>()?;
    Report { machine, sent: args.sent(request_bytes), rows }.print(args.load.json)
}

/// The processes of a measurement. Fields are dropped in their order: our servers before their
/// Redis.
struct Started {
    first: Server,
    second: Server,
    redis: Redis,
    etcd: Option<Etcd>,
}

impl Started {
    async fn start(args: &Replicas, site: &Site) -> anyhow::Result<Started> {
        // Checked before anything is started: a missing binary is the likeliest failure.
        let etcd_binary = (args.peer == Peer::Etcd).then(etcd::find).transpose()?;
        let redis_binary = redis::find()?;
        let progress = Progress::new();
        progress.say("starting servers");
        let redis = Redis::start(&redis_binary, args.fsync, &site.directory).await?;
        let place = Place::Redis(redis.url());
        let first = Server::start(&place, site).await?;
        let second = Server::start(&place, site).await?;
        let etcd = match &etcd_binary {
            Some(binary) => Some(Etcd::start(binary, &site.directory).await?),
            None => None,
        };
        Ok(Started { first, second, redis, etcd })
    }

    /// Returns the row of one delay of all sides, ours first.
    fn row(
        &self,
        args: &Replicas,
        way: &Way,
        names: &[&str],
        measured: &[Vec<Delays>],
    ) -> anyhow::Result<DelayRow> {
        let (version, fsync) = (&self.redis.version, args.fsync.name());
        let beside = self.etcd.as_ref().map_or("", |_| ", beside etcd with fsync");
        let name = way.name;
        let work = format!("Two replicas over Redis {version} with AOF {fsync}{beside}: {name}");
        let sides = names.iter().zip(measured);
        let mut sides = sides.map(|(name, rounds)| DelaySide::of(name, rounds, way));
        let ours = sides.next().context("our side was not measured")??;
        let peer = sides.next().transpose()?;
        Ok(DelayRow::compare(&work, ours, peer, None))
    }
}

impl Replicas {
    fn plan(&self, first: &Server, second: &Server) -> Plan {
        Plan {
            writes: first.grpc,
            watcher: second.grpc,
            watchers: 1,
            connections: self.load.connections as usize,
            rate: self.rate,
            keys: APPLICATIONS,
            warm_up: self.load.warm_up(),
            window: self.load.window(),
        }
    }

    fn sent(&self, request_bytes: usize) -> DelaySent {
        DelaySent {
            request_bytes,
            per_second: self.rate,
            applications: APPLICATIONS,
            connections: self.load.connections,
            rounds: self.load.rounds,
            seconds: self.load.seconds,
            warm_up_seconds: self.load.warm_up,
        }
    }
}

/// Returns a side that is written to and watched by this plan.
pub fn contender<W: WatchedWork>(name: String, work: W, plan: Plan) -> Contender<Delays> {
    let work = Arc::new(work);
    Contender::new(name, move |first| {
        let round = open_loop::run(work.clone(), plan.clone(), first);
        Box::pin(async move {
            let delays = round.await?;
            delays.check()?;
            Ok(delays)
        })
    })
}
