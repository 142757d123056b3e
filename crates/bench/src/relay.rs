//! `relay`: the delay from a report to its watcher at the server, behind one relay and behind two,
//! and the processor time that a relay costs the server for each change.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bellwether::proto::v1::ListApplicationsRequest;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use tokio::time::Instant;

use crate::Load;
use crate::changes::Reports;
use crate::cost;
use crate::crowd::{self, Crowd};
use crate::delay::{DelayRow, DelaySide};
use crate::fanout::PER_STREAM;
use crate::figure::thousands;
use crate::load::Plan as Window;
use crate::machine::Machine;
use crate::open_loop::{self, Plan};
use crate::pending::Delays;
use crate::replicas::WAYS;
use crate::report::Report;
use crate::rounds::{self, Contender, Progress};
use crate::runtime;
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide};
use crate::server::{Place, Server};
use crate::site::Site;
use crate::testbed::Testbed;

/// Flags of `relay`.
#[derive(Debug, clap::Args)]
pub struct Relay {
    /// Watchers, each on a stream of its own
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=15_000))]
    pub watchers: u32,
    /// Further watchers, 100 on a stream, of one application each, whose delays are not measured
    #[arg(long, default_value_t = 0, value_parser = crowd::watchers)]
    pub crowd: usize,
    /// Applications of each watcher
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub applications_each: u32,
    /// Reports per second, over all applications; each changes its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// Relays of the same server, for the cost of one
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub relays: u32,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The part of all changes that the further watchers receive at least.
const SEEN_AT_LEAST: f64 = 0.9;
/// How long a relay may take to its first copy.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the command.
pub async fn run(args: Relay) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let mut rows = args.delays(&site).await?;
    rows.extend(args.costs(&site).await?);
    Report { machine, sent: args.done(), rows }.print(args.load.json)
}

impl Relay {
    fn reports(&self) -> Reports {
        let watchers = u64::from(self.watchers);
        let applications = watchers * u64::from(self.applications_each);
        Reports { applications, watchers, sees_all: false }
    }

    /// Measures the delay to watchers at each level in turn.
    async fn delays(&self, site: &Site) -> anyhow::Result<Vec<AnyRow>> {
        let server = Server::start(&Place::Memory, site).await?;
        let first = started(&server, site).await?;
        let second = started(&first, site).await?;
        let names = ["the server", "one relay", "two levels of relays"];
        let at = [&server, &first, &second];
        let contenders: Vec<_> = (0..names.len())
            .map(|level| {
                let plan = Plan { watcher: at[level].grpc, ..self.plan(&server) };
                self.beside_a_crowd(names[level], plan, (level as u64) << 32)
            })
            .collect();
        let measured: Vec<Vec<Delays>> = rounds::alternate(&contenders, self.load.rounds).await?;
        let way = &WAYS[0];
        let side = |level: usize| DelaySide::of(names[level], &measured[level], way);
        let row = |level: usize| {
            let peer = (0 < level).then(|| side(0)).transpose()?;
            let rate = thousands(f64::from(self.rate));
            let (count, name) = (self.watchers, names[level]);
            let work = format!("{rate} changes a second, {count} watchers at {name}: {}", way.name);
            anyhow::Ok(AnyRow::Delay(DelayRow::compare(&work, side(level)?, peer, None)))
        };
        (0..names.len()).map(row).collect()
    }

    /// Returns a side with the further watchers at the place of those whose delay is measured.
    /// Its reports have numbers of their own from `offset`: all sides change the same applications.
    fn beside_a_crowd(&self, name: &str, plan: Plan, offset: u64) -> Contender<Delays> {
        let reports = self.reports();
        let crowd = Crowd { watchers: self.crowd, reports };
        let changes = f64::from(self.rate) * plan.window.as_secs_f64();
        // Each change has as many of them as there are for an application. An event may be of
        // several changes, so that not each change is one.
        let each = self.crowd as f64 / reports.applications as f64;
        let least = (changes * each * SEEN_AT_LEAST) as u64;
        Contender::new(name.to_string(), move |first| {
            let plan = plan.clone();
            Box::pin(runtime::apart(async move {
                let crowd = crowd.open(plan.watcher).await?;
                let delays = open_loop::run(Arc::new(reports), plan, first + offset).await?;
                delays.check()?;
                crowd.check(least)?;
                Ok(delays)
            }))
        })
    }

    /// Measures the processor time of a server for a change, without relays and with them.
    async fn costs(&self, site: &Site) -> anyhow::Result<Vec<AnyRow>> {
        let progress = Progress::new();
        let (mut alone, mut followed, mut of_relay) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=self.load.rounds {
            progress.say(&format!("round {round} of {}: cost of relays", self.load.rounds));
            let first = u64::from(round) << 40;
            alone.push(self.micros(0, site, first).await?[0]);
            let micros = self.micros(self.relays, site, first).await?;
            followed.push(micros[0]);
            of_relay.push(micros[1..].iter().sum::<f64>() / f64::from(self.relays));
        }
        let each = alone.iter().zip(&followed);
        let each = each.map(|(alone, followed)| (followed - alone) / f64::from(self.relays));
        let (each, count) = (each.collect(), self.relays);
        let sides = [
            ("of the server for a change, without relays".to_string(), alone),
            (format!("of the server for a change, with {count} relays"), followed),
            ("that one relay adds to the server for a change".to_string(), each),
            ("of a relay for a change".to_string(), of_relay),
        ];
        let name = Testbed::name();
        let row = |(of, rounds)| {
            let side = ScalarSide::mean(&name, rounds);
            let work = format!("Processor time {of}");
            AnyRow::Scalar(ScalarRow::compare(work, "microseconds", side, None, None))
        };
        Ok(sides.map(row).into())
    }

    /// Returns the microseconds of processor time of the server and of each relay for a change.
    async fn micros(&self, relays: u32, site: &Site, first: u64) -> anyhow::Result<Vec<f64>> {
        let server = Server::start(&Place::Memory, site).await?;
        let mut servers = vec![];
        for _ in 0..relays {
            servers.push(started(&server, site).await?);
        }
        let reports = Reports { applications: 256, watchers: 1, sees_all: true };
        let plan = Plan { watchers: 1, keys: reports.applications, ..self.plan(&server) };
        let ids: Vec<u32> = [&server].into_iter().chain(&servers).map(Server::id).collect();
        let (warm_up, window) = (plan.warm_up, plan.window);
        let during = Window { connections: plan.connections, in_flight: 1, warm_up, window };
        let changes = open_loop::run(Arc::new(reports), plan, first);
        let (delays, used) = tokio::try_join!(changes, cost::used(&ids, &during))?;
        delays.check()?;
        let count = f64::from(self.rate) * window.as_secs_f64();
        Ok(used.iter().map(|seconds| seconds * 1e6 / count).collect())
    }

    fn plan(&self, server: &Server) -> Plan {
        Plan {
            writes: server.grpc,
            watcher: server.grpc,
            watchers: u64::from(self.watchers),
            connections: self.load.connections as usize,
            rate: self.rate,
            keys: self.reports().applications,
            warm_up: self.load.warm_up(),
            window: self.load.window(),
        }
    }

    fn done(&self) -> Done {
        Done {
            workers: self.reports().applications,
            peer_workers: 0,
            connections: self.load.connections,
            rounds: self.load.rounds,
            how: format!(
                "{} changes a second, to {} applications of {} watchers, and {} further\n\
                 \x20        watchers, {PER_STREAM} on a stream;\n\
                 \x20        {} s each after {} s of warm-up",
                thousands(f64::from(self.rate)),
                self.reports().applications,
                self.watchers,
                thousands(self.crowd as f64),
                self.load.seconds,
                self.load.warm_up,
            ),
        }
    }
}

/// Starts a relay of this server, and waits until it has a copy.
pub async fn started(upstream: &Server, site: &Site) -> anyhow::Result<Server> {
    let relay = Server::start_relay(upstream, site).await?;
    let channel = open_loop::connect(relay.grpc, 1).await?.remove(0);
    let mut client = ApplicationServiceClient::new(channel);
    let until = Instant::now() + READY_WITHIN;
    loop {
        let request = ListApplicationsRequest { page_size: 1, ..Default::default() };
        match client.list_applications(request).await {
            Ok(_) => return Ok(relay),
            Err(status) if until < Instant::now() => {
                return Err(status).context("a relay has no copy");
            }
            Err(status) if status.code() != tonic::Code::Unavailable => bail!(status),
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}
