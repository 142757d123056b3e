//! `watchers`: the delay from a report to its watcher on one server, with many changes a
//! second and many watchers. The peer is etcd, with puts and watches of the same shape.

use anyhow::Context;
use prost::Message;

use crate::Load;
use crate::changes::Reports;
use crate::delay::{DelayRow, DelaySent, DelaySide, Way};
use crate::etcd::Puts;
use crate::figure::thousands;
use crate::ingest::Store;
use crate::machine::Machine;
use crate::open_loop::Plan;
use crate::pending::Delays;
use crate::replicas::{Peer, WAYS, contender};
use crate::report::Report;
use crate::rounds;
use crate::testbed::Testbed;

/// Flags of `watchers`.
#[derive(Debug, clap::Args)]
pub struct Watchers {
    /// Watchers, each on a stream of its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub watchers: u32,
    /// The applications that each of them sees
    #[arg(long, value_enum, default_value_t = Sight::Own, value_name = "WHAT")]
    pub sees: Sight,
    /// Reports per second, over all applications; each changes its own
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// Store of our server
    #[arg(long, value_enum, default_value_t = Store::Embedded)]
    pub store: Store,
    /// The peer to measure
    #[arg(long, value_enum, default_value_t = Peer::Etcd)]
    pub peer: Peer,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The applications that a watcher sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Sight {
    /// The applications of its own namespace, or a range of keys
    Own,
    /// Everything; each change is timed at one watcher, in equal shares
    All,
}

/// Applications of each watcher. At the default rate each changes every 1.3 s, so that hardly any
/// event conflates two reports.
const APPLICATIONS_EACH: u64 = 64;
/// The limit of the 99th percentile from sending to the watcher's event.
const SEEN_TARGET_SECONDS: f64 = 0.010;
/// The most that it may be, as a share of the peer's.
const PEER_RATIO_MAX: f64 = 0.5;

/// Runs the command.
pub async fn run(args: Watchers) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let testbed = Testbed::start(args.store, args.peer, "", &site).await?;
    let reports = args.reports();
    let request_bytes = reports.report(0).encoded_len();
    let plan = args.plan(&testbed);
    let mut contenders = vec![contender(Testbed::name(), reports, plan.clone())];
    if let Some(etcd) = &testbed.etcd {
        let plan = Plan { writes: etcd.address, watcher: etcd.address, ..plan };
        let puts = Puts::of(request_bytes, reports.applications);
        let puts = puts.watched_by(reports.watchers, reports.sees_all);
        contenders.push(contender(format!("etcd {}", etcd.version), puts, plan));
    }
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
    let place = testbed.place(args.store);
    let rows = WAYS.iter().map(|way| args.row(&place, way, &names, &measured));
    let rows: Vec<DelayRow> = rows.collect::<anyhow::Result<_>>()?;
    Report { machine, sent: args.sent(request_bytes), rows }.print(args.load.json)
}

impl Watchers {
    fn reports(&self) -> Reports {
        let watchers = u64::from(self.watchers);
        let applications = watchers * APPLICATIONS_EACH;
        Reports { applications, watchers, sees_all: self.sees == Sight::All }
    }

    fn plan(&self, testbed: &Testbed) -> Plan {
        Plan {
            writes: testbed.server.grpc,
            watcher: testbed.server.grpc,
            watchers: u64::from(self.watchers),
            connections: self.load.connections as usize,
            rate: self.rate,
            keys: self.reports().applications,
            warm_up: self.load.warm_up(),
            window: self.load.window(),
        }
    }

    /// Returns the row of one delay of all sides, ours first.
    fn row(
        &self,
        place: &str,
        way: &Way,
        names: &[&str],
        measured: &[Vec<Delays>],
    ) -> anyhow::Result<DelayRow> {
        let beside = names.get(1).map_or("", |_| ", beside etcd");
        let sight = match self.sees {
            Sight::Own => "each of its own",
            Sight::All => "each of all",
        };
        let work = format!(
            "{} changes a second, {} watchers, {sight}, {place}{beside}: {}",
            thousands(f64::from(self.rate)),
            self.watchers,
            way.name,
        );
        let sides = names.iter().zip(measured);
        let mut sides = sides.map(|(name, rounds)| DelaySide::of(name, rounds, way));
        let ours = sides.next().context("our side was not measured")??;
        let peer = sides.next().transpose()?;
        let is_aim = way.name == WAYS[0].name;
        let row = DelayRow::compare(&work, ours, peer, is_aim.then_some(SEEN_TARGET_SECONDS));
        Ok(if is_aim { row.at_most_of_peer(PEER_RATIO_MAX) } else { row })
    }

    fn sent(&self, request_bytes: usize) -> DelaySent {
        DelaySent {
            request_bytes,
            per_second: self.rate,
            applications: self.reports().applications,
            connections: self.load.connections,
            rounds: self.load.rounds,
            seconds: self.load.seconds,
            warm_up_seconds: self.load.warm_up,
        }
    }
}
