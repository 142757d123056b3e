//! `collect`: collects the statuses of an application's workers, of which some never answer.
//! The call must return by its deadline.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::{CollectApplicationRequest, CollectApplicationResponse};
use hdrhistogram::Histogram;
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::Load;
use crate::delay::{self, DelayRow, DelaySide};
use crate::ingest::Store;
use crate::machine::Machine;
use crate::replicas::Peer;
use crate::report::Report;
use crate::rounds::{self, Contender};
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide, Target};
use crate::testbed::Testbed;
use crate::worker::{Conduct, Crew, Fleet};
use crate::{open_loop, runtime};

/// Flags of `collect`.
#[derive(Debug, clap::Args)]
pub struct Collect {
    /// Workers of the collected application
    #[arg(long, default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=10_000))]
    pub workers: u64,
    /// How long a call waits for its workers
    #[arg(long, default_value_t = 1000, value_name = "MILLISECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub deadline: u64,
    /// Store of our server
    #[arg(long, value_enum, default_value_t = Store::Embedded)]
    pub store: Store,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// One worker in so many never answers, and another one in so many answers late.
const FAULTY_ONE_IN: u64 = 100;
/// The delay of a late answer beyond the deadline.
const LATE: Duration = Duration::from_millis(100);
/// The most that a call may take beyond its deadline.
const OVER_TARGET_SECONDS: f64 = 0.005;
/// The least share of healthy workers whose answers must be included.
const SHARE_TARGET: f64 = 0.999;
/// How long all workers may take to connect and report once.
const SETTLE_DEADLINE: Duration = Duration::from_secs(60);

/// Runs the command.
pub async fn run(args: Collect) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let testbed = Testbed::start(args.store, Peer::None, "", &site).await?;
    let of = |name: &str, faulty| {
        let round = Round::of(&args, testbed.server.grpc, faulty);
        Contender::new(name, move |_| Box::pin(runtime::apart(round.clone().run())))
    };
    let contenders = [of("with stragglers", true), of("all healthy", false)];
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let [stragglers, healthy] = &measured[..] else {
        bail!("not every contender was measured");
    };
    let name = Testbed::name();
    let delays = |rounds: &[Calls], delay: fn(&Calls) -> &Histogram<u64>| {
        DelaySide::spanning(&name, &rounds.iter().map(delay).collect::<Vec<_>>())
    };
    let one_in = format!("1 in {FAULTY_ONE_IN} silent, 1 in {FAULTY_ONE_IN} late");
    let over = DelayRow::compare(
        &format!("CollectApplication, {one_in}: time beyond the deadline"),
        delays(stragglers, |calls| &calls.over)?,
        None,
        Some(OVER_TARGET_SECONDS),
    );
    let share = ScalarRow::compare(
        format!("CollectApplication, {one_in}: share of the healthy that is in the answer"),
        "share",
        ScalarSide::mean(&name, stragglers.iter().map(Calls::share).collect()),
        None,
        Some(Target::AtLeast(SHARE_TARGET)),
    );
    let took = DelayRow::compare(
        "CollectApplication, all healthy: from asking to the answer",
        delays(healthy, |calls| &calls.took)?,
        None,
        None,
    );
    let sent = Done {
        workers: args.workers,
        peer_workers: 0,
        connections: args.load.connections,
        rounds: args.load.rounds,
        how: format!(
            "one application, {}; calls one after another for {} s, deadline {} ms; \
             each answer changes a status",
            testbed.place(args.store),
            args.load.seconds,
            args.deadline,
        ),
    };
    let rows = vec![AnyRow::Delay(over), AnyRow::Scalar(share), AnyRow::Delay(took)];
    Report { machine, sent, rows }.print(args.load.json)
}

/// The results of one round.
struct Calls {
    /// Microseconds beyond the deadline; 0 for a call that returned before it.
    over: Histogram<u64>,
    /// Microseconds of whole calls.
    took: Histogram<u64>,
    healthy_asked: u64,
    healthy_answered: u64,
}

impl Calls {
    fn share(&self) -> f64 {
        self.healthy_answered as f64 / self.healthy_asked as f64
    }
}

/// The behaviour of the workers, once all are connected.
#[derive(Default)]
struct Temper {
    is_faulty: AtomicBool,
    acknowledged: AtomicU64,
    deadline: Duration,
}

/// The behaviour of one worker.
#[derive(Debug, PartialEq, Eq)]
enum Health {
    Healthy,
    Silent,
    Late,
}

fn health(index: u64) -> Health {
    match index % FAULTY_ONE_IN {
        1 => Health::Silent,
        2 => Health::Late,
        _ => Health::Healthy,
    }
}

impl Conduct for Temper {
    fn thinks(&self, index: u64, _: &bellwether::proto::v1::Collect) -> Option<Duration> {
        match self.is_faulty.load(Ordering::Relaxed) {
            false => Some(Duration::ZERO),
            true => match health(index) {
                Health::Healthy => Some(Duration::ZERO),
                Health::Silent => None,
                Health::Late => Some(self.deadline + LATE),
            },
        }
    }

    fn acknowledged(&self, _: u64) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Round {
    address: SocketAddr,
    crew: Crew,
    faulty: bool,
    deadline: Duration,
    load: Load,
}

impl Round {
    fn of(args: &Collect, address: SocketAddr, faulty: bool) -> Round {
        let connections = args.load.connections as usize;
        Round {
            address,
            crew: Crew { workers: args.workers, applications: 1, connections },
            faulty,
            deadline: Duration::from_millis(args.deadline),
            load: args.load.clone(),
        }
    }

    async fn run(self) -> anyhow::Result<Calls> {
        let temper = Arc::new(Temper { deadline: self.deadline, ..Temper::default() });
        let mut fleet = Fleet::connect(self.address, self.crew, &temper).await?;
        // The server collects from each worker when it connects.
        let settled = || self.crew.workers <= temper.acknowledged.load(Ordering::Relaxed);
        let settle_until = Instant::now() + SETTLE_DEADLINE;
        while !settled() {
            ensure!(Instant::now() < settle_until, "not every worker was asked when it came");
            fleet.check()?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        temper.is_faulty.store(self.faulty, Ordering::Relaxed);
        let channel = open_loop::connect(self.address, 1).await?.remove(0);
        let warm_until = Instant::now() + self.load.warm_up();
        while Instant::now() < warm_until {
            self.call(&channel).await?;
        }
        let mut calls = Calls {
            over: delay::histogram()?,
            took: delay::histogram()?,
            healthy_asked: 0,
            healthy_answered: 0,
        };
        let until = Instant::now() + self.load.window();
        while Instant::now() < until {
            let (answer, took) = self.call(&channel).await?;
            delay::record(&mut calls.took, took, 1);
            delay::record(&mut calls.over, took.saturating_sub(self.deadline), 1);
            self.count(&answer, &mut calls)?;
        }
        fleet.check()?;
        fleet.leave().await?;
        Ok(calls)
    }

    async fn call(
        &self,
        channel: &Channel,
    ) -> anyhow::Result<(CollectApplicationResponse, Duration)> {
        let request = CollectApplicationRequest {
            application: self.crew.application(0),
            deadline: Some(self.deadline.try_into().context("deadline")?),
            ..CollectApplicationRequest::default()
        };
        let mut client = ApplicationServiceClient::new(channel.clone());
        let start = Instant::now();
        let answer = client.collect_application(request).await.context("collect")?.into_inner();
        Ok((answer, start.elapsed()))
    }

    fn count(&self, answer: &CollectApplicationResponse, calls: &mut Calls) -> anyhow::Result<()> {
        let (asked, workers) = (answer.asked_count as u64, self.crew.workers);
        ensure!(asked == workers, "{asked} of {workers} workers were asked");
        for unit in &answer.answers {
            let name = unit.unit.as_ref().map_or("", |unit| &unit.name);
            let index = name.rsplit_once('/').and_then(|(_, index)| index.parse().ok());
            let index = index.with_context(|| format!("{name:?} is no unit of ours"))?;
            let is_healthy = !self.faulty || health(index) == Health::Healthy;
            calls.healthy_asked += u64::from(is_healthy);
            calls.healthy_answered += u64::from(is_healthy && unit.answered);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_silent_and_one_late() {
        let count = |of: Health| (0..1000).filter(|index| health(*index) == of).count();
        assert_eq!(
            (count(Health::Silent), count(Health::Late), count(Health::Healthy)),
            (10, 10, 980)
        );
    }
}
