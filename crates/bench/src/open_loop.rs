//! Open-loop load with watchers: writes are sent at a fixed rate, independent of earlier ones, and
//! each delay counts from when the write was due. So a side that stalls cannot hide it by getting
//! fewer writes.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::load::Work;
use crate::pending::{Delays, Pending};
use crate::runtime;

/// Numbers of writes, as a watcher receives them.
pub type Seen = Pin<Box<dyn Stream<Item = Result<u64, Status>> + Send>>;

/// Writes that watchers on other connections receive.
pub trait WatchedWork: Work {
    /// Opens the watch of watcher number `watcher`. Once the future resolves, the watcher receives
    /// every write to its own keys; it may receive others too.
    fn watch(
        &self,
        channel: Channel,
        watcher: u64,
    ) -> impl Future<Output = Result<Seen, Status>> + Send;
}

/// The load of one measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The address for writes.
    pub writes: SocketAddr,
    /// The address for watchers.
    pub watcher: SocketAddr,
    /// Watchers. Key n belongs to watcher number n modulo `watchers`, where its writes are timed.
    pub watchers: u64,
    /// Connections that writes are spread over, and the most further ones for the watchers.
    pub connections: usize,
    /// Writes per second.
    pub rate: u32,
    /// Write number n goes to key n modulo `keys`.
    pub keys: u64,
    /// Time before the window, which is not counted.
    pub warm_up: Duration,
    /// Time in which due writes count.
    pub window: Duration,
}

impl Plan {
    /// Returns whether the write of a number is to one of this watcher's own keys.
    fn own(&self, watcher: u64) -> impl Fn(u64) -> bool + use<> {
        let (keys, watchers) = (self.keys, self.watchers);
        move |sequence| sequence % keys % watchers == watcher
    }
}

/// How long after the last write answers may arrive. A side that takes longer counts as stuck.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// Calls open at once while each key is created before a round.
const PREPARE_IN_FLIGHT: usize = 64;

/// The events of a round, in the order of their arrival.
enum News {
    Due { sequence: u64, due: Instant },
    AllDue,
    Acknowledged { sequence: u64, at: Instant },
    Failed { sequence: u64, status: Status },
    Seen { sequence: u64, at: Instant },
    Blind { reason: String },
}

/// Writes by this plan, with numbers from `first`, a multiple of the number of keys. Dropping the
/// future ends the load.
pub async fn run<W: WatchedWork>(work: Arc<W>, plan: Plan, first: u64) -> anyhow::Result<Delays> {
    runtime::apart(round(work, plan, first)).await
}

async fn round<W: WatchedWork>(work: Arc<W>, plan: Plan, first: u64) -> anyhow::Result<Delays> {
    let writes = connect(plan.writes, plan.connections).await?;
    prepare(&*work, &plan, &writes, first).await?;
    let (tell, mut news) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let watches = plan.connections.min(usize::try_from(plan.watchers)?);
    let watches = connect(plan.watcher, watches).await?;
    for watcher in 0..plan.watchers {
        let channel = watches[watcher as usize % watches.len()].clone();
        let seen = work.watch(channel, watcher).await.context("watch")?;
        let is_own = plan.own(watcher);
        tasks.spawn(look(seen, is_own, tell.clone()));
    }
    let start = Instant::now();
    pace(&plan, start, first + plan.keys, tell.clone())?;
    let (opens, closes) = (start + plan.warm_up, start + plan.warm_up + plan.window);
    let mut pending = Pending::new(plan.keys)?;
    let mut goes_on = true;
    while goes_on || !pending.is_empty() {
        let next = tokio::time::timeout_at(closes + ANSWER_DEADLINE, news.recv()).await;
        match next.ok().flatten() {
            Some(News::Due { sequence, due }) => {
                pending.send(sequence, due, Instant::now(), opens <= due && due < closes);
                let channel = writes[sequence as usize % writes.len()].clone();
                tasks.spawn(write(work.clone(), channel, sequence, tell.clone()));
            }
            Some(News::AllDue) => goes_on = false,
            Some(News::Acknowledged { sequence, at }) => pending.acknowledge(sequence, at),
            Some(News::Failed { sequence, status }) => pending.fail(sequence, &status),
            Some(News::Seen { sequence, at }) => pending.see(sequence, at),
            Some(News::Blind { reason }) => bail!("the watch has ended: {reason}"),
            None => bail!(
                "{} writes were not acknowledged, or not seen by their watcher, within {} s",
                pending.len(),
                ANSWER_DEADLINE.as_secs()
            ),
        }
    }
    Ok(pending.into_delays())
}

/// Opens connections to a server.
pub async fn connect(address: SocketAddr, connections: usize) -> anyhow::Result<Vec<Channel>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    let endpoint = endpoint.tcp_nodelay(true).connect_timeout(ANSWER_DEADLINE);
    let mut channels = Vec::new();
    for _ in 0..connections {
        channels.push(endpoint.connect().await.context("connect")?);
    }
    Ok(channels)
}

/// Writes to each key once, so that no measured write is the first of its key.
async fn prepare<W: WatchedWork>(
    work: &W,
    plan: &Plan,
    channels: &[Channel],
    first: u64,
) -> anyhow::Result<()> {
    let calls = (first..first + plan.keys).map(|sequence| {
        let channel = channels[sequence as usize % channels.len()].clone();
        work.call(channel, sequence)
    });
    let answers: Vec<Result<(), Status>> =
        stream::iter(calls).buffer_unordered(PREPARE_IN_FLIGHT).collect().await;
    let made: Result<(), Status> = answers.into_iter().collect();
    made.context("write to each key once")
}

/// Signals when each write is due. It has a thread of its own: tokio's timer is a millisecond too
/// coarse for delays of that size.
fn pace(
    plan: &Plan,
    start: Instant,
    first: u64,
    tell: mpsc::UnboundedSender<News>,
) -> anyhow::Result<()> {
    let (rate, length) = (plan.rate, plan.warm_up + plan.window);
    let count = (length.as_secs_f64() * f64::from(rate)) as u64;
    let pace = move || {
        for n in 0..count {
            let due = start + Duration::from_secs_f64(n as f64 / f64::from(rate));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if tell.send(News::Due { sequence: first + n, due }).is_err() {
                return;
            }
        }
        // The receiver is gone if the round has ended.
        let _ = tell.send(News::AllDue);
    };
    std::thread::Builder::new().name("pace".to_string()).spawn(pace)?;
    Ok(())
}

async fn write<W: WatchedWork>(
    work: Arc<W>,
    channel: Channel,
    sequence: u64,
    tell: mpsc::UnboundedSender<News>,
) {
    let answer = work.call(channel, sequence).await;
    let at = Instant::now();
    // The receiver is gone once the round has failed.
    let _ = tell.send(match answer {
        Ok(()) => News::Acknowledged { sequence, at },
        Err(status) => News::Failed { sequence, status },
    });
}

async fn look(mut seen: Seen, is_own: impl Fn(u64) -> bool, tell: mpsc::UnboundedSender<News>) {
    let reason = loop {
        match seen.next().await {
            Some(Ok(sequence)) if !is_own(sequence) => {}
            Some(Ok(sequence)) => {
                let _ = tell.send(News::Seen { sequence, at: Instant::now() });
            }
            Some(Err(status)) => break status.to_string(),
            None => break "it was closed".to_string(),
        }
    };
    let _ = tell.send(News::Blind { reason });
}
