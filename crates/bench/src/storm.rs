//! `storm`: one of two replicas over Redis, or of two relays, is killed with ten thousand watchers
//! on it. Measures how long all take to resume at the other from their tokens, and the memory of
//! that one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use bellwether::proto::v1;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::multiplex_watches_response::Response;
use bellwether::proto::v1::watch_applications_response::Event;
use futures_util::stream;
use prost::Message;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::Load;
use crate::fanout::{PER_STREAM, WATCH, create, whole_streams};
use crate::h2_readers::{Call, Hear, Readers, Watched, frame};
use crate::machine::Machine;
use crate::memory::{channels, report_all, resident};
use crate::redis::{self, Fsync, Redis};
use crate::relay;
use crate::report::Report;
use crate::rounds::{self, Contender};
use crate::runtime;
use crate::scalar::{ScalarRow, ScalarSide, Target};
use crate::server::{Place, Server};
use crate::site::Site;
use crate::testbed::Testbed;

/// Flags of `storm`.
#[derive(Debug, clap::Args)]
pub struct Storm {
    /// Watchers, all of them on the process that is killed; a multiple of 100
    #[arg(long, default_value_t = 10_000, value_parser = whole_streams)]
    pub watchers: usize,
    /// Kill one of two relays of a server in place of one of two replicas
    #[arg(long)]
    pub relays: bool,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// Applications that every watcher follows; half of them change before the watchers reconnect.
const APPLICATIONS: u64 = 64;
/// Seconds from the kill until all are current again.
const SECONDS_TARGET: f64 = 1.0;
/// The most memory of the other replica, relative to that of the killed one.
const MEMORY_TARGET: f64 = 1.5;
/// How long all watchers may take to open, or to resume.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs the command.
pub async fn run(args: Storm) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let redis = if args.relays { None } else { Some(redis::find()?) };
    let one = if args.relays { "relay" } else { "replica" };
    let mut rows = Vec::new();
    for (shape, how) in [(Shape::Single, "a stream each"), (Shape::Multiplexed, "100 a stream")] {
        let plan = Plan {
            shape,
            watchers: args.watchers,
            connections: args.load.connections as usize,
            redis: redis.clone(),
            site: site.clone(),
        };
        let contenders = [Contender::new(Testbed::name(), move |_| Box::pin(round(plan.clone())))];
        let measured = rounds::alternate(&contenders, args.load.rounds).await?.remove(0);
        let row = |work: String, unit, value: fn(&Recovery) -> f64, target| {
            let values = measured.iter().map(value).collect();
            let ours = ScalarSide::greatest(&Testbed::name(), values);
            ScalarRow::compare(work, unit, ours, None, Some(Target::AtMost(target)))
        };
        rows.push(row(
            format!("From the kill until all watchers are current at the other {one}, {how}"),
            "seconds",
            |recovery| recovery.seconds,
            SECONDS_TARGET,
        ));
        rows.push(row(
            format!("Memory of that {one}, in those of the one that was killed, {how}"),
            "x",
            |recovery| recovery.memory,
            MEMORY_TARGET,
        ));
    }
    let sent = Watched {
        watchers: args.watchers,
        connections: args.load.connections,
        rounds: args.load.rounds,
        how: format!(
            "{}; all follow {APPLICATIONS} applications;\n\
             \x20        one is killed with -9, half of the applications change, all come at once",
            if args.relays { "two relays" } else { "two replicas over Redis with AOF everysec" },
        ),
    };
    Report { machine, sent, rows }.print(args.load.json)
}

/// The results of one round.
struct Recovery {
    seconds: f64,
    memory: f64,
}

/// How watchers share streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Single,
    Multiplexed,
}

#[derive(Clone)]
struct Plan {
    shape: Shape,
    watchers: usize,
    connections: usize,
    /// The program of Redis; `None` if relays are measured.
    redis: Option<PathBuf>,
    site: Site,
}

/// The processes of one round.
struct Pair {
    killed: Server,
    other: Server,
    /// Where is reported, before the kill and after it.
    writes: [SocketAddr; 2],
    /// Behind them; they end with it.
    _redis: Option<Redis>,
    _server: Option<Server>,
}

impl Pair {
    async fn start(plan: &Plan) -> anyhow::Result<Pair> {
        let site = &plan.site;
        let Some(binary) = &plan.redis else {
            let server = Server::start(&Place::Memory, site).await?;
            let killed = relay::started(&server, site).await?;
            let other = relay::started(&server, site).await?;
            let writes = [server.grpc; 2];
            return Ok(Pair { killed, other, writes, _redis: None, _server: Some(server) });
        };
        let redis = Redis::start(binary, Fsync::Everysec, &site.directory).await?;
        let place = Place::Redis(redis.url());
        let killed = Server::start(&place, site).await?;
        let other = Server::start(&place, site).await?;
        let writes = [killed.grpc, other.grpc];
        Ok(Pair { killed, other, writes, _redis: Some(redis), _server: None })
    }
}

async fn round(plan: Plan) -> anyhow::Result<Recovery> {
    let Pair { killed, other, writes, _redis, _server } = Pair::start(&plan).await?;
    let addresses = [killed.grpc, other.grpc];
    let [first, second] = [killed.id(), other.id()];
    let tokens = Arc::new(Tokens::new(plan.watchers));
    let watching = plan.clone();
    let (here, there) = (tokens.clone(), tokens.clone());
    // The first readers end with their runtime, as those of a killed replica do.
    let before = runtime::apart(async move {
        report_all(&channels(writes[0], 1)?, 0..APPLICATIONS, 0).await?;
        let _readers = watching.watch(addresses[0], here, false).await?;
        resident(first).await
    })
    .await?;
    drop(killed);
    let start = Instant::now();
    let after = runtime::apart(async move {
        report_all(&channels(writes[1], 1)?, 0..APPLICATIONS / 2, 1).await?;
        let _readers = plan.watch(addresses[1], there, true).await?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((seconds, resident(second).await?))
    });
    let (seconds, after) = after.await?;
    Ok(Recovery { seconds, memory: after / before })
}

/// The tasks that keep streams open.
enum Watching {
    Single { _readers: Readers },
    Multiplexed { _streams: JoinSet<anyhow::Result<()>> },
}

impl Plan {
    /// Opens all watches, from the tokens if they `resume`, and waits until all are current.
    async fn watch(
        &self,
        address: SocketAddr,
        tokens: Arc<Tokens>,
        resume: bool,
    ) -> anyhow::Result<Watching> {
        let begun = tokens.take(resume);
        let watchers = self.watchers as u64;
        if self.shape == Shape::Single {
            let call = |stream: usize| {
                let requests = frame(&watch(begun.get(stream).cloned().unwrap_or_default()));
                Call { path: WATCH, requests, is_all: true }
            };
            let shape = (self.watchers, self.connections);
            let mut readers = Readers::open(address, shape, call, &tokens);
            let is_current = |_: &Readers| watchers <= tokens.current.load(Ordering::Relaxed);
            readers.until(is_current, DEADLINE).await.context("not every watcher is current")?;
            return Ok(Watching::Single { _readers: readers });
        }
        let channels = channels(address, self.connections)?;
        let mut streams = JoinSet::new();
        for (number, begun) in begun.chunks(PER_STREAM).enumerate() {
            let channel = channels[number % channels.len()].clone();
            streams.spawn(many(channel, number * PER_STREAM, begun.to_vec(), tokens.clone()));
        }
        let until = Instant::now() + DEADLINE;
        while tokens.current.load(Ordering::Relaxed) < watchers {
            ensure!(Instant::now() < until, "not every watcher is current");
            if let Some(ended) = streams.try_join_next() {
                ended.context("reader")??;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(Watching::Multiplexed { _streams: streams })
    }
}

/// The resume token of each watcher, and how many are current.
struct Tokens {
    of: Vec<Mutex<String>>,
    current: AtomicU64,
}

impl Tokens {
    fn new(watchers: usize) -> Tokens {
        let of = (0..watchers).map(|_| Mutex::default()).collect();
        Tokens { of, current: AtomicU64::new(0) }
    }

    /// Returns the tokens to start from, and resets the number of current watchers to 0.
    fn take(&self, resume: bool) -> Vec<String> {
        self.current.store(0, Ordering::Relaxed);
        let token = |of: &Mutex<String>| {
            let mut token = of.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = std::mem::take(&mut *token);
            if resume { taken } else { String::new() }
        };
        self.of.iter().map(token).collect()
    }

    /// Takes an event of a watcher; with its first token the watcher is current.
    fn heard(&self, watcher: usize, answer: &v1::WatchApplicationsResponse) {
        let is_current =
            matches!(answer.event, Some(Event::SnapshotComplete(_) | Event::Bookmark(_)));
        let Some(token) = self.of.get(watcher).filter(|_| is_current) else { return };
        let mut token = token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.is_empty() {
            self.current.fetch_add(1, Ordering::Relaxed);
        }
        token.clone_from(&answer.resume_token);
    }
}

impl Hear for Tokens {
    fn hear(&self, stream: usize, message: &[u8]) -> u64 {
        // Applications are field 1: decoding them would be most of the work.
        if message[0] != 0x0a
            && let Ok(answer) = v1::WatchApplicationsResponse::decode(message)
        {
            self.heard(stream, &answer);
        }
        1
    }
}

/// Opens one stream of many watches, the first of which is number `first` of all.
async fn many(
    channel: Channel,
    first: usize,
    begun: Vec<String>,
    tokens: Arc<Tokens>,
) -> anyhow::Result<()> {
    let creates = begun.into_iter().enumerate();
    let creates = creates.map(|(index, token)| create(index as u64, watch(token)));
    let requests = stream::iter(creates.collect::<Vec<_>>());
    let mut client = ApplicationServiceClient::new(channel);
    let mut answers = client.multiplex_watches(requests).await?.into_inner();
    while let Some(answer) = answers.message().await? {
        match answer.response.context("an answer without content")? {
            Response::Event(event) => {
                let watchers = answer.watch_ids.iter().map(|id| first + *id as usize);
                watchers.for_each(|watcher| tokens.heard(watcher, &event));
            }
            Response::Ended(status) => anyhow::bail!("a watch has ended: {}", status.message),
        }
    }
    anyhow::bail!("a stream of watches has ended")
}

/// Returns a watch of all applications.
fn watch(resume_token: String) -> v1::WatchApplicationsRequest {
    v1::WatchApplicationsRequest { resume_token, ..v1::WatchApplicationsRequest::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_current_with_its_first_token() {
        let tokens = Tokens::new(2);
        let answer = |event, token: &str| v1::WatchApplicationsResponse {
            event: Some(event),
            resume_token: token.to_string(),
            ..v1::WatchApplicationsResponse::default()
        };
        tokens.heard(1, &answer(Event::SnapshotComplete(Default::default()), "a"));
        tokens.heard(1, &answer(Event::Bookmark(Default::default()), "b"));
        assert_eq!(tokens.current.load(Ordering::Relaxed), 1);
        assert_eq!(tokens.take(true), ["", "b"]);
        assert_eq!(
            (tokens.current.load(Ordering::Relaxed), tokens.take(true)),
            (0, vec![String::new(); 2])
        );
    }
}
