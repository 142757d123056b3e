//! `following`: the processor time that each change costs Redis, the replica that makes it, and a
//! replica that only follows, with more and more replicas over one Redis at a fixed rate; and the
//! memory that an application takes of Redis and of a replica that only follows.

use std::sync::Arc;

use anyhow::ensure;
use bellwether::proto::v1::ExplainApplicationRequest;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;

use crate::Load;
use crate::changes::Reports;
use crate::cost;
use crate::figure::thousands;
use crate::load::Plan as Window;
use crate::machine::Machine;
use crate::memory;
use crate::open_loop::{self, Plan};
use crate::redis::{self, Fsync, Redis};
use crate::report::Report;
use crate::rounds::Progress;
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide, Target};
use crate::server::{Place, Server};
use crate::site::Site;
use crate::testbed::Testbed;

/// Flags of `following`.
#[derive(Debug, clap::Args)]
pub struct Following {
    /// Numbers of replicas; each is measured
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16))]
    pub replicas: Vec<u32>,
    /// Changes per second, all at the first replica
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// Let all replicas load all applications before, so that they follow them
    #[arg(long)]
    pub active: bool,
    /// Applications whose memory is measured at the second of two replicas; 0 for none
    #[arg(long, default_value_t = 10_000)]
    pub applications: u64,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The most bytes of an application at a replica that only follows.
const KEPT_TARGET: f64 = 700.0;
/// The most microseconds of a change at a replica that only follows.
const FOLLOWED_TARGET: f64 = 15.0;

const FOLLOWER: &str = "a replica that follows";

/// Applications that change in turn.
const APPLICATIONS: u64 = 256;

/// Runs the command.
pub async fn run(args: Following) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let binary = redis::find()?;
    let progress = Progress::new();
    let mut costs: Vec<Costs> = args.replicas.iter().map(|_| Costs::default()).collect();
    let (mut kept, mut stored) = (Vec::new(), Vec::new());
    for round in 1..=args.load.rounds {
        for (replicas, costs) in args.replicas.iter().zip(&mut costs) {
            progress.say(&format!("round {round} of {}: {replicas} replicas", args.load.rounds));
            let redis = Redis::start(&binary, Fsync::Everysec, &site.directory).await?;
            let first = u64::from(round) << 40;
            args.measure(*replicas, &redis, &site, first, costs).await?;
        }
        if 0 < args.applications {
            progress.say(&format!("round {round} of {}: memory", args.load.rounds));
            let redis = Redis::start(&binary, Fsync::Everysec, &site.directory).await?;
            let [of_redis, of_follower] = args.measure_memory(&redis, &site).await?;
            stored.push(of_redis);
            kept.push(of_follower);
        }
    }
    drop(progress);
    let counts = args.replicas.iter().zip(costs);
    let mut rows: Vec<AnyRow> =
        counts.flat_map(|(replicas, costs)| costs.rows(*replicas)).collect();
    let target = Some(Target::AtMost(KEPT_TARGET));
    for (of, rounds, target) in [("Redis", stored, None), (FOLLOWER, kept, target)] {
        if !rounds.is_empty() {
            let work = format!("Bytes of {of} for an application with one status");
            let side = ScalarSide::mean(&Testbed::name(), rounds);
            rows.push(AnyRow::Scalar(ScalarRow::compare(work, "bytes", side, None, target)));
        }
    }
    Report { machine, sent: args.done(), rows }.print(args.load.json)
}

/// The microseconds of processor time for a change, of each round.
#[derive(Default)]
struct Costs {
    of_redis: Vec<f64>,
    of_writer: Vec<f64>,
    of_follower: Vec<f64>,
}

impl Costs {
    fn rows(self, replicas: u32) -> Vec<AnyRow> {
        let name = Testbed::name();
        let sides = [
            ("Redis", self.of_redis, None),
            ("the replica that makes it", self.of_writer, None),
            (FOLLOWER, self.of_follower, Some(Target::AtMost(FOLLOWED_TARGET))),
        ];
        let measured = sides.into_iter().filter(|(_, rounds, _)| !rounds.is_empty());
        let row = |(of, rounds, target)| {
            let work = format!("Processor time of {of} for a change, {replicas} replicas");
            let side = ScalarSide::mean(&name, rounds);
            AnyRow::Scalar(ScalarRow::compare(work, "microseconds", side, None, target))
        };
        measured.map(row).collect()
    }
}

impl Following {
    async fn measure(
        &self,
        replicas: u32,
        redis: &Redis,
        site: &Site,
        first: u64,
        costs: &mut Costs,
    ) -> anyhow::Result<()> {
        let mut servers = Vec::new();
        for _ in 0..replicas {
            servers.push(Server::start(&Place::Redis(redis.url()), site).await?);
        }
        let plan = self.plan(&servers[0]);
        let reports = Arc::new(Reports { applications: APPLICATIONS, watchers: 1, sees_all: true });
        // A first round creates the applications, and lasts until the replicas know each other.
        open_loop::run(reports.clone(), plan.clone(), first).await?.check()?;
        if self.active {
            for server in &servers {
                load_all(server, &reports).await?;
            }
        }
        let ids: Vec<u32> =
            [redis.id()].into_iter().chain(servers.iter().map(Server::id)).collect();
        let window = Window {
            connections: plan.connections,
            in_flight: 1,
            warm_up: plan.warm_up,
            window: plan.window,
        };
        let changes = open_loop::run(reports, plan.clone(), first + (1 << 32));
        let (delays, used) = tokio::try_join!(changes, cost::used(&ids, &window))?;
        delays.check()?;
        let count = f64::from(self.rate) * plan.window.as_secs_f64();
        let micros: Vec<f64> = used.iter().map(|seconds| seconds * 1e6 / count).collect();
        let [of_redis, of_writer, followers @ ..] = &*micros else {
            anyhow::bail!("no processor time was measured");
        };
        costs.of_redis.push(*of_redis);
        costs.of_writer.push(*of_writer);
        if !followers.is_empty() {
            costs.of_follower.push(followers.iter().sum::<f64>() / followers.len() as f64);
        }
        Ok(())
    }

    /// Returns the bytes of Redis for an application, and those of the second of two replicas; all
    /// reports go to the first one.
    async fn measure_memory(&self, redis: &Redis, site: &Site) -> anyhow::Result<[f64; 2]> {
        let first = Server::start(&Place::Redis(redis.url()), site).await?;
        let second = Server::start(&Place::Redis(redis.url()), site).await?;
        let channels = memory::channels(first.grpc, self.load.connections as usize)?;
        // As many before: a process keeps what it has once allocated.
        memory::report_one_each(&channels, 0..self.applications).await?;
        let resident = async || {
            let of_redis = memory::resident(redis.id()).await?;
            anyhow::Ok([of_redis, memory::resident(second.id()).await?])
        };
        let before = resident().await?;
        memory::report_one_each(&channels, self.applications..2 * self.applications).await?;
        let after = resident().await?;
        Ok([0, 1].map(|n| (after[n] - before[n]) / self.applications as f64))
    }

    fn plan(&self, first: &Server) -> Plan {
        Plan {
            writes: first.grpc,
            watcher: first.grpc,
            watchers: 1,
            connections: self.load.connections as usize,
            rate: self.rate,
            keys: APPLICATIONS,
            warm_up: self.load.warm_up(),
            window: self.load.window(),
        }
    }

    fn done(&self) -> Done {
        let active = if self.active { ", which all replicas have loaded" } else { "" };
        Done {
            workers: APPLICATIONS,
            peer_workers: 0,
            connections: self.load.connections,
            rounds: self.load.rounds,
            how: format!(
                "{} changes a second at one replica, to {APPLICATIONS} applications{active};\n\
                 \x20        {} s each after {} s of warm-up; memory of {} applications",
                thousands(f64::from(self.rate)),
                self.load.seconds,
                self.load.warm_up,
                thousands(self.applications as f64),
            ),
        }
    }
}

/// Lets a replica load every application.
async fn load_all(server: &Server, reports: &Reports) -> anyhow::Result<()> {
    let channel = open_loop::connect(server.grpc, 1).await?.remove(0);
    let mut client = ApplicationServiceClient::new(channel);
    for number in 0..APPLICATIONS {
        let report = reports.report(number);
        let (namespace, application) = (report.namespace, report.application);
        let request = ExplainApplicationRequest { namespace, application, ..Default::default() };
        let answer = client.explain_application(request).await?.into_inner();
        ensure!(answer.beaten_count == 0, "an application with more than one status");
    }
    Ok(())
}
