//! `loss`: one of two replicas over Redis is killed with its workers connected. Measures how
//! long each worker takes to open a session at the other replica, and until its state there is
//! current.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::{Freshness, Hello, ListUnitsRequest};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::Load;
use crate::delay::{self, DelayRow, DelaySide};
use crate::machine::Machine;
use crate::redis::{self, Fsync, Redis};
use crate::report::Report;
use crate::rounds::{self, Contender};
use crate::runtime;
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide, Target};
use crate::server::{Place, Server};
use crate::site::Site;
use crate::testbed::Testbed;
use crate::worker::{Conduct, Crew, Worker};

/// Flags of `loss`.
#[derive(Debug, clap::Args)]
pub struct Loss {
    /// Workers, all of them connected to the replica that is killed
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=50_000))]
    pub workers: u64,
    /// A worker whose session has ended waits up to this long before it connects to the other
    /// replica
    #[arg(long, default_value_t = 1000, value_name = "MILLISECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=60_000))]
    pub jitter: u64,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// Applications that workers belong to.
const APPLICATIONS: u64 = 20;
/// How long all workers may take to connect, at first and after the kill.
const SETTLE_DEADLINE: Duration = Duration::from_secs(120);
/// Units in a page.
const PAGE_SIZE: i32 = 1000;

/// Runs the command.
pub async fn run(args: Loss) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let binary = redis::find()?;
    let plan = Plan {
        crew: Crew {
            workers: args.workers,
            applications: APPLICATIONS,
            connections: args.load.connections as usize,
        },
        jitter: Duration::from_millis(args.jitter),
        warm_up: args.load.warm_up(),
        binary,
        site,
    };
    let contenders = [Contender::new(Testbed::name(), move |_| Box::pin(round(plan.clone())))];
    let measured = rounds::alternate(&contenders, args.load.rounds).await?.remove(0);
    let name = Testbed::name();
    let delays = |delay: fn(&Recovery) -> &Histogram<u64>| {
        DelaySide::spanning(&name, &measured.iter().map(delay).collect::<Vec<_>>())
    };
    let row = |work: &str, delay| {
        anyhow::Ok(AnyRow::Delay(DelayRow::compare(work, delays(delay)?, None, None)))
    };
    let misjudged = ScalarRow::compare(
        "Units that were stale or lost at the other replica when all had come back",
        "units",
        ScalarSide::greatest(&name, measured.iter().map(|r| r.misjudged as f64).collect()),
        None,
        Some(Target::AtMost(0.0)),
    );
    let rows = vec![
        row("From the kill until a worker has a session at the other replica", |r| &r.connected)?,
        row("From the kill until the unit's state is current there", |r| &r.current)?,
        AnyRow::Scalar(misjudged),
    ];
    let sent = Done {
        workers: args.workers,
        peer_workers: 0,
        connections: args.load.connections,
        rounds: args.load.rounds,
        how: format!(
            "{APPLICATIONS} applications, two replicas over Redis with AOF everysec; one is\n\
             \x20        killed with -9, a worker then tries the other after 0 to {} ms",
            args.jitter,
        ),
    };
    Report { machine, sent, rows }.print(args.load.json)
}

/// The results of one round, in microseconds since the kill.
struct Recovery {
    connected: Histogram<u64>,
    current: Histogram<u64>,
    misjudged: u64,
}

#[derive(Clone)]
struct Plan {
    crew: Crew,
    jitter: Duration,
    warm_up: Duration,
    binary: PathBuf,
    site: Site,
}

async fn round(plan: Plan) -> anyhow::Result<Recovery> {
    let redis = Redis::start(&plan.binary, Fsync::Everysec, &plan.site.directory).await?;
    let place = Place::Redis(redis.url());
    let killed = Server::start(&place, &plan.site).await?;
    let other = Server::start(&place, &plan.site).await?;
    let id = i32::try_from(killed.id()).ok().and_then(rustix::process::Pid::from_raw);
    let id = id.context("the replica has no number")?;
    let kill = move || {
        let killed = rustix::process::kill_process(id, rustix::process::Signal::KILL);
        killed.context("kill a replica")
    };
    runtime::apart(lose(plan, [killed.grpc, other.grpc], kill)).await
}

async fn lose(
    plan: Plan,
    addresses: [SocketAddr; 2],
    kill: impl FnOnce() -> anyhow::Result<()> + Send,
) -> anyhow::Result<Recovery> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let news = Arc::new(News { tell });
    let replicas = addresses.map(|address| channels(address, plan.crew.connections));
    let [first, second] = replicas;
    let replicas = Arc::new([first?, second?]);
    let leave = CancellationToken::new();
    let mut workers = JoinSet::new();
    for index in 0..plan.crew.workers {
        let member = Member { index, crew: plan.crew, jitter: plan.jitter };
        workers.spawn(member.live(replicas.clone(), news.clone(), leave.clone()));
    }
    let mut here = Awaited::new(plan.crew.workers, 0)?;
    here.all(&mut told, Instant::now()).await.context("connect to the first replica")?;
    tokio::time::sleep(plan.warm_up).await;
    kill()?;
    let killed_at = Instant::now();
    let mut there = Awaited::new(plan.crew.workers, 1)?;
    there.all(&mut told, killed_at).await.context("connect to the other replica")?;
    let misjudged = misjudged(&replicas[1][0], &plan.crew).await?;
    leave.cancel();
    while let Some(ended) = workers.join_next().await {
        ended.context("worker")?;
    }
    Ok(Recovery { connected: there.connected, current: there.current, misjudged })
}

/// An event of a worker, with the replica.
enum Step {
    Connected { index: u64, replica: usize, at: Instant },
    Answered { index: u64, at: Instant },
}

struct News {
    tell: mpsc::UnboundedSender<Step>,
}

impl Conduct for News {
    fn acknowledged(&self, index: u64) {
        // The receiver is gone once the round has failed.
        let _ = self.tell.send(Step::Answered { index, at: Instant::now() });
    }
}

/// The workers that are not yet connected and current at a replica.
struct Awaited {
    replica: usize,
    at: Vec<Option<Instant>>,
    is_current: Vec<bool>,
    connected: Histogram<u64>,
    current: Histogram<u64>,
}

impl Awaited {
    fn new(workers: u64, replica: usize) -> anyhow::Result<Awaited> {
        let workers = usize::try_from(workers)?;
        Ok(Awaited {
            replica,
            at: vec![None; workers],
            is_current: vec![false; workers],
            connected: delay::histogram()?,
            current: delay::histogram()?,
        })
    }

    /// Waits until all workers are connected and have answered; times count from `start`.
    async fn all(
        &mut self,
        told: &mut mpsc::UnboundedReceiver<Step>,
        start: Instant,
    ) -> anyhow::Result<()> {
        let until = start + SETTLE_DEADLINE;
        let workers = self.at.len() as u64;
        while self.current.len() < workers {
            let step = tokio::time::timeout_at(until, told.recv()).await;
            let step = step.ok().flatten().with_context(|| {
                let (connected, current) = (self.connected.len(), self.current.len());
                format!("of {workers} workers {connected} are connected, {current} current")
            })?;
            self.take(step, start);
        }
        Ok(())
    }

    fn take(&mut self, step: Step, start: Instant) {
        match step {
            Step::Connected { index, replica, at } if replica == self.replica => {
                let first = self.at[index as usize].replace(at);
                if first.is_none() {
                    delay::record(&mut self.connected, at.saturating_duration_since(start), 1);
                }
            }
            Step::Connected { .. } => {}
            Step::Answered { index, at } => {
                // An answer to the previous replica does not count.
                let is_here = self.at[index as usize].is_some_and(|connected| connected <= at);
                if is_here && !std::mem::replace(&mut self.is_current[index as usize], true) {
                    delay::record(&mut self.current, at.saturating_duration_since(start), 1);
                }
            }
        }
    }
}

fn channels(address: SocketAddr, connections: usize) -> anyhow::Result<Vec<Channel>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
    Ok((0..connections).map(|_| endpoint.connect_lazy()).collect())
}

struct Member {
    index: u64,
    crew: Crew,
    jitter: Duration,
}

impl Member {
    /// Keeps the worker connected, to either replica, until it is to leave.
    async fn live(
        self,
        replicas: Arc<[Vec<Channel>; 2]>,
        news: Arc<News>,
        leave: CancellationToken,
    ) {
        let mut replica = 0;
        let mut incarnation = None;
        while !leave.is_cancelled() {
            let channels = &replicas[replica];
            let channel = channels[self.index as usize % channels.len()].clone();
            let hello = Hello { incarnation, ..self.crew.hello(self.index) };
            if let Ok(worker) = Worker::connect(channel, self.index, hello).await {
                incarnation = Some(worker.welcome.incarnation);
                let (index, at) = (self.index, Instant::now());
                let _ = news.tell.send(Step::Connected { index, replica, at });
                // After any end of a session the worker connects again.
                let _ = worker.run(news.clone(), leave.clone()).await;
            }
            if leave.is_cancelled() {
                return;
            }
            let dice = getrandom::u64().unwrap_or_default();
            let share = dice as f64 / u64::MAX as f64;
            tokio::time::sleep(self.jitter.mul_f64(share)).await;
            replica = 1 - replica;
        }
    }
}

/// Checks that each unit is connected; returns how many are not fresh.
async fn misjudged(channel: &Channel, crew: &Crew) -> anyhow::Result<u64> {
    let mut client = ApplicationServiceClient::new(channel.clone());
    let (mut units, mut misjudged) = (0, 0);
    for number in 0..crew.applications.min(crew.workers) {
        let mut request = ListUnitsRequest {
            application: crew.application(number),
            page_size: PAGE_SIZE,
            ..ListUnitsRequest::default()
        };
        loop {
            let page = client.list_units(request.clone()).await.context("list units")?.into_inner();
            units += page.units.len() as u64;
            if let Some(unit) = page.units.iter().find(|unit| !unit.connected) {
                bail!("{} has a session and is not shown as connected", unit.name);
            }
            let fresh = |unit: &&bellwether::proto::v1::Unit| unit.freshness() != Freshness::Fresh;
            misjudged += page.units.iter().filter(fresh).count() as u64;
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
    }
    ensure!(units == crew.workers, "{units} units are known, of {} workers", crew.workers);
    Ok(misjudged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_current_once_it_has_answered_where_it_is_now() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut there = Awaited::new(2, 1).unwrap();
        let steps = [
            Step::Answered { index: 0, at: at(1) },
            Step::Connected { index: 0, replica: 0, at: at(2) },
            Step::Answered { index: 0, at: at(3) },
            Step::Connected { index: 0, replica: 1, at: at(10) },
            Step::Answered { index: 0, at: at(20) },
            Step::Answered { index: 0, at: at(30) },
        ];
        steps.into_iter().for_each(|step| there.take(step, start));
        let millis = |delays: &Histogram<u64>| (delays.len(), (delays.max() + 500) / 1000);
        assert_eq!(millis(&there.connected), (1, 10));
        assert_eq!(millis(&there.current), (1, 20));
    }
}
