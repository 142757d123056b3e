//! `heartbeats`: workers that send only heartbeats. Measures their cost for the server, and
//! checks that they cost no commit; beside the same number of leases kept alive in etcd.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::Instant;

use crate::Load;
use crate::ingest::Store;
use crate::lease;
use crate::machine::Machine;
use crate::replicas::Peer;
use crate::report::Report;
use crate::rounds::{self, Contender};
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide, Target};
use crate::testbed::Testbed;
use crate::worker::{Conduct, Crew, Fleet};
use crate::{commits, process, runtime};

/// Flags of `heartbeats`.
#[derive(Debug, clap::Args)]
pub struct Heartbeats {
    /// Workers, each with a session; the same number of leases
    #[arg(long, default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=50_000))]
    pub workers: u64,
    /// Heartbeat interval that the server asks for
    #[arg(long, default_value_t = 2, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
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

/// Applications that workers belong to.
const APPLICATIONS: u64 = 100;
/// The least ratio of our heartbeats to the peer's keepalives for the same processor time.
const RATIO_TARGET: f64 = 10.0;
/// The least processor time that can be measured.
const CPU_SECONDS_MIN: f64 = 0.01;
/// How long all workers may take to connect and report once.
const SETTLE_DEADLINE: Duration = Duration::from_secs(120);

/// Runs the command.
pub async fn run(args: Heartbeats) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let file = format!(
        "[sessions]\nheartbeat_interval_seconds = {}\nheartbeats_per_second_max = {}\n",
        args.interval, args.workers,
    );
    let testbed = Testbed::start(args.store, args.peer, &file, &site).await?;
    let mut contenders = vec![ours(&args, &testbed)?];
    if let Some(etcd) = &testbed.etcd {
        let name = format!("etcd {}", etcd.version);
        let (round, address, id) = (Round::of(&args), etcd.address, etcd.id());
        contenders.push(Contender::new(name, move |first| {
            Box::pin(runtime::apart(round.clone().leases(address, id, first)))
        }));
    }
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
    let rows = rows(&names, &measured)?;
    let sent = Done {
        workers: args.workers,
        peer_workers: testbed.etcd.as_ref().map_or(0, |_| args.workers),
        connections: args.load.connections,
        rounds: args.load.rounds,
        how: format!(
            "{APPLICATIONS} applications, {}; a stream each, heard every {} s for {} s; \
             processor time of the server's process, idle work included",
            testbed.place(args.store),
            args.interval,
            args.load.seconds,
        ),
    };
    Report { machine, sent, rows }.print(args.load.json)
}

/// Returns the rows of the counts of each side; ours is the first.
fn rows(names: &[&str], measured: &[Vec<Beats>]) -> anyhow::Result<Vec<AnyRow>> {
    let side = |of: &dyn Fn(&Beats) -> f64| {
        let named = names.iter().zip(measured);
        let mut sides =
            named.map(|(name, rounds)| ScalarSide::mean(name, rounds.iter().map(of).collect()));
        (sides.next(), sides.next())
    };
    let row = |work: &str, unit, (ours, peer): (Option<_>, Option<_>), target| {
        let ours = ours.context("our side was not measured")?;
        anyhow::Ok(AnyRow::Scalar(ScalarRow::compare(work, unit, ours, peer, target)))
    };
    let ratio = Some(Target::RatioAtLeast(RATIO_TARGET));
    let (ours_commits, _) = side(&|beats| beats.commits.unwrap_or(0) as f64);
    let beside = names.get(1).map_or("", |_| ", beside keepalives of etcd's leases");
    Ok(vec![
        row(
            "Commits to the store while heartbeats are taken",
            "commits",
            (ours_commits, None),
            Some(Target::AtMost(0.0)),
        )?,
        row(
            &format!("Heartbeats taken for a second of a processor{beside}"),
            "per CPU second",
            side(&|beats| beats.beats as f64 / beats.cpu_seconds),
            ratio,
        )?,
        row(
            &format!("Processor for 1,000 heartbeats{beside}"),
            "CPU ms",
            side(&|beats| 1e6 * beats.cpu_seconds / beats.beats as f64),
            None,
        )?,
        row(
            &format!("Heartbeats as they came{beside}"),
            "per second",
            side(&|beats| beats.beats as f64 / beats.seconds),
            None,
        )?,
    ])
}

fn ours(args: &Heartbeats, testbed: &Testbed) -> anyhow::Result<Contender<Beats>> {
    let (round, ops) = (Round::of(args), testbed.ops()?);
    let (address, id) = (testbed.server.grpc, testbed.server.id());
    Ok(Contender::new(Testbed::name(), move |_| {
        Box::pin(runtime::apart(round.clone().sessions(address, ops, id)))
    }))
}

/// The results of one round.
struct Beats {
    beats: u64,
    cpu_seconds: f64,
    seconds: f64,
    /// Commits of our server meanwhile.
    commits: Option<u64>,
}

#[derive(Clone)]
struct Round {
    crew: Crew,
    interval: Duration,
    load: Load,
}

/// Counts the messages of the workers.
#[derive(Default)]
struct Counts {
    beats: AtomicU64,
    acknowledged: AtomicU64,
}

impl Conduct for Counts {
    fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    fn acknowledged(&self, _: u64) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

impl Round {
    fn of(args: &Heartbeats) -> Round {
        let (workers, connections) = (args.workers, args.load.connections as usize);
        let crew = Crew { workers, applications: APPLICATIONS, connections };
        Round { crew, interval: Duration::from_secs(args.interval), load: args.load.clone() }
    }

    async fn sessions(
        self,
        address: SocketAddr,
        ops: SocketAddr,
        id: u32,
    ) -> anyhow::Result<Beats> {
        let counts = Arc::new(Counts::default());
        let mut fleet = Fleet::connect(address, self.crew, &counts).await?;
        // The server collects from each worker when it connects, and each answer is a commit.
        let settle_until = Instant::now() + SETTLE_DEADLINE;
        while counts.acknowledged.load(Ordering::Relaxed) < self.crew.workers {
            ensure!(Instant::now() < settle_until, "not every worker was asked when it came");
            fleet.check()?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // By then the heartbeats of the workers are spread over the interval.
        tokio::time::sleep(self.interval + self.load.warm_up()).await;
        let commits = commits::total(ops).await?;
        let beats = self.window(id, &counts.beats).await?;
        let commits = commits::total(ops).await? - commits;
        fleet.check()?;
        fleet.leave().await?;
        Ok(Beats { commits: Some(commits), ..beats })
    }

    async fn leases(self, address: SocketAddr, id: u32, first: u64) -> anyhow::Result<Beats> {
        let Crew { workers, .. } = self.crew;
        let mut kept = lease::keep(address, self.crew, self.interval, first).await?;
        // Each lease gets a first keepalive at the start.
        let settle_until = Instant::now() + SETTLE_DEADLINE;
        while kept.answered.load(Ordering::Relaxed) < workers {
            ensure!(Instant::now() < settle_until, "not every lease was kept alive once");
            kept.check()?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // By then the keepalives are spread over the interval.
        tokio::time::sleep(self.interval + self.load.warm_up()).await;
        let beats = self.window(id, &kept.answered).await?;
        kept.check()?;
        Ok(beats)
    }

    /// Counts for the time of one measurement.
    async fn window(&self, id: u32, beats: &AtomicU64) -> anyhow::Result<Beats> {
        let (start, cpu) = (Instant::now(), process::cpu_seconds(id)?);
        let before = beats.load(Ordering::Relaxed);
        tokio::time::sleep(self.load.window()).await;
        Ok(Beats {
            beats: beats.load(Ordering::Relaxed) - before,
            cpu_seconds: (process::cpu_seconds(id)? - cpu).max(CPU_SECONDS_MIN),
            seconds: start.elapsed().as_secs_f64(),
            commits: None,
        })
    }
}
