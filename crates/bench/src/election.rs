//! `election`: how long an application has no leader after its leader is killed, and after it
//! releases leadership; beside etcd's election with a lease of the same length.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bellwether::proto::v1;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use hdrhistogram::Histogram;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::campaign;
use crate::candidacy::{BEATS_PER_LEASE, Candidacy, LEASE_SECONDS, News};
use crate::delay::{self, DelayRow, DelaySide};
use crate::ingest::Store;
use crate::machine::Machine;
use crate::replicas::Peer;
use crate::report::Report;
use crate::rounds::{self, Contender};
use crate::scalar::{AnyRow, Done};
use crate::testbed::Testbed;
use crate::{Load, open_loop, runtime};

/// Flags of `election`.
#[derive(Debug, clap::Args)]
pub struct Election {
    /// Elections of each kind in each round
    #[arg(long, default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub elections: u64,
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

/// Candidates at any time, including the leader.
const CANDIDATES: usize = 3;
/// A side without news for this long counts as stuck.
const QUIET_MAX: Duration = Duration::from_secs(30);

/// The microseconds of each election, of both kinds.
struct Measured {
    killed: Histogram<u64>,
    released: Histogram<u64>,
}

/// Runs the command.
pub async fn run(args: Election) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let testbed = Testbed::start(args.store, args.peer, "", &site).await?;
    let (address, elections) = (testbed.server.grpc, args.elections);
    let mut contenders = vec![Contender::new(Testbed::name(), move |first| {
        Box::pin(runtime::apart(ours(address, elections, first)))
    })];
    if let Some(etcd) = &testbed.etcd {
        let address = etcd.address;
        contenders.push(Contender::new(format!("etcd {}", etcd.version), move |first| {
            Box::pin(runtime::apart(etcds(address, elections, first)))
        }));
    }
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let row = |work: &str, of: fn(&Measured) -> &Histogram<u64>| {
        let named = contenders.iter().map(|contender| &*contender.name).zip(&measured);
        let mut sides = named.map(|(name, rounds)| {
            DelaySide::spanning(name, &rounds.iter().map(of).collect::<Vec<_>>())
        });
        let ours = sides.next().context("our side was not measured")??;
        let peer = sides.next().transpose()?;
        anyhow::Ok(AnyRow::Delay(DelayRow::compare(work, ours, peer, None)))
    };
    let rows = vec![
        row("From the death of a leader until the next one knows", |round| &round.killed)?,
        row("From a leader's stepping back until the next one knows", |round| &round.released)?,
    ];
    let sent = Done {
        workers: CANDIDATES as u64,
        peer_workers: testbed.etcd.as_ref().map_or(0, |_| CANDIDATES as u64),
        connections: CANDIDATES as u32,
        rounds: args.load.rounds,
        how: format!(
            "candidates of one election, {}; leases of {LEASE_SECONDS} s, kept alive \
             {BEATS_PER_LEASE} times in it; {elections} elections of each kind a round",
            testbed.place(args.store),
        ),
    };
    Report { machine, sent, rows }.print(args.load.json)
}

async fn ours(address: SocketAddr, elections: u64, round: u64) -> anyhow::Result<Measured> {
    let application = format!("election-{round:x}");
    let configure = v1::ConfigureApplicationRequest {
        application: application.clone(),
        config: Some(v1::ApplicationConfig {
            lease_duration: Some(prost_types::Duration { seconds: LEASE_SECONDS, nanos: 0 }),
            ..v1::ApplicationConfig::default()
        }),
        ..v1::ConfigureApplicationRequest::default()
    };
    let channel = open_loop::connect(address, 1).await?.remove(0);
    ApplicationServiceClient::new(channel).configure_application(configure).await?;
    measure(elections, |candidacy| worker(address, application.clone(), candidacy)).await
}

async fn etcds(address: SocketAddr, elections: u64, round: u64) -> anyhow::Result<Measured> {
    let election = format!("/election/{round:x}");
    measure(elections, |candidacy| campaign::run(address, election.clone(), candidacy)).await
}

/// Runs one candidate of ours over its own connection, until its task is aborted.
async fn worker(
    address: SocketAddr,
    application: String,
    mut candidacy: Candidacy,
) -> anyhow::Result<()> {
    let channel = open_loop::connect(address, 1).await?.remove(0);
    let unit = format!("{application}/{}", candidacy.number);
    let hello = v1::Hello { application, unit, ..v1::Hello::default() };
    let request = |message| v1::ConnectRequest { message: Some(message) };
    let (say, said) = mpsc::channel(4);
    say.send(request(Said::Hello(Box::new(hello)))).await?;
    say.send(request(Said::ClaimLeadership(v1::ClaimLeadership {}))).await?;
    let mut client = WorkerServiceClient::new(channel);
    let mut told = client.connect(ReceiverStream::new(said)).await?.into_inner();
    let lease = Duration::from_secs(LEASE_SECONDS.unsigned_abs());
    let mut beats = tokio::time::interval(lease / BEATS_PER_LEASE);
    // The welcome may name a leader before the candidate is known to wait.
    let mut has_joined = false;
    loop {
        tokio::select! {
            answer = told.message() => {
                let answer = answer?.context("the server has ended the session")?;
                match answer.message {
                    Some(Told::Leadership(leads)) if leads.is_self => candidacy.tell(News::Leads),
                    Some(Told::Leadership(_)) if !std::mem::replace(&mut has_joined, true) => {
                        candidacy.tell(News::Waits);
                    }
                    Some(Told::Reject(reject)) => bail!("rejected: {reject:?}"),
                    _ => {}
                }
            }
            _ = beats.tick() => say.send(request(Said::Heartbeat(v1::Heartbeat {}))).await?,
            () = candidacy.released() => {
                say.send(request(Said::ReleaseLeadership(v1::ReleaseLeadership {}))).await?;
            }
        }
    }
}

// === the measurement, the same for both ===

/// The candidates, of which one leads.
struct Race<R> {
    run: R,
    tasks: JoinSet<anyhow::Result<()>>,
    running: Vec<(u64, tokio::task::AbortHandle, Arc<Notify>)>,
    news: mpsc::UnboundedReceiver<(u64, News, Instant)>,
    told: mpsc::UnboundedSender<(u64, News, Instant)>,
    next: u64,
}

impl<R, F> Race<R>
where
    R: Fn(Candidacy) -> F,
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    /// Adds a candidate; returns once it leads or waits.
    async fn join(&mut self) -> anyhow::Result<News> {
        let (number, release) = (self.next, Arc::new(Notify::new()));
        self.next += 1;
        let candidacy = Candidacy { number, news: self.told.clone(), release: release.clone() };
        let task = self.tasks.spawn((self.run)(candidacy));
        self.running.push((number, task, release));
        Ok(self.until(|who, _| who == number).await?.1)
    }

    async fn until(
        &mut self,
        is_it: impl Fn(u64, News) -> bool,
    ) -> anyhow::Result<(u64, News, Instant)> {
        let quiet = tokio::time::sleep(QUIET_MAX);
        tokio::pin!(quiet);
        loop {
            tokio::select! {
                Some(found) = self.news.recv() => if is_it(found.0, found.1) {
                    return Ok(found);
                },
                Some(ended) = self.tasks.join_next() => match ended {
                    Err(error) if error.is_cancelled() => {}
                    ended => ended.context("candidate")?.context("a candidate has ended")?,
                },
                () = &mut quiet => bail!("nothing happens for {} s", QUIET_MAX.as_secs()),
            }
        }
    }

    /// Ends the leader; returns its successor and how long the change took.
    async fn succeed(&mut self, leader: u64, clean: bool) -> anyhow::Result<(u64, Duration)> {
        let place = self.running.iter().position(|(number, ..)| *number == leader);
        let (_, task, release) = self.running.remove(place.context("the leader is gone")?);
        let start = Instant::now();
        match clean {
            true => release.notify_one(),
            false => task.abort(),
        }
        let (next, _, at) = self.until(|_, news| news == News::Leads).await?;
        task.abort();
        Ok((next, at - start))
    }
}

async fn measure<R, F>(elections: u64, run: R) -> anyhow::Result<Measured>
where
    R: Fn(Candidacy) -> F,
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let (told, news) = mpsc::unbounded_channel();
    let tasks = JoinSet::new();
    let mut race = Race { run, tasks, running: Vec::new(), news, told, next: 0 };
    race.join().await?;
    let mut leader = 0;
    for _ in 1..CANDIDATES {
        race.join().await?;
    }
    let beat = Duration::from_secs(LEASE_SECONDS.unsigned_abs()) / BEATS_PER_LEASE;
    let mut measured = Measured { killed: delay::histogram()?, released: delay::histogram()? };
    for election in 0..2 * elections {
        let clean = election % 2 == 0;
        // At a varying point between two heartbeats.
        tokio::time::sleep(beat.mul_f64((election % 7) as f64 / 7.0)).await;
        let (next, took) = race.succeed(leader, clean).await?;
        let kind = if clean { &mut measured.released } else { &mut measured.killed };
        delay::record(kind, took, 1);
        leader = next;
        race.join().await?;
    }
    Ok(measured)
}
