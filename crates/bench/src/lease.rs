//! etcd's leases: the way in which a worker would otherwise show that it is alive. A key is put
//! with a lease, and is deleted when the lease is not kept alive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::delay;
use crate::open_loop;
use crate::wire::{self, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseResponse};
use crate::wire::{PutRequest, PutResponse, WatchCreateRequest, WatchRequest};
use crate::wire::{WatchResponse, streaming};
use crate::worker::Crew;

/// Calls open at once while leases are granted.
const MAKING_MAX: usize = 512;
/// The prefix of every key; the number of the round follows.
const KEYS: &str = "/workers/";
/// Leases that are kept alive must not end while others are still granted.
const SET_UP_MAX: Duration = Duration::from_secs(120);
/// A watch without events for this long counts as stuck.
const QUIET_MAX: Duration = Duration::from_secs(30);

/// Grants leases with a key each that end at `end` or less than a second later, because etcd counts
/// in seconds.
pub async fn make(
    channels: &[Channel],
    round: u64,
    count: u64,
    end: Instant,
) -> anyhow::Result<Vec<i64>> {
    let leases = stream::iter(0..count).map(|number| {
        let channel = channels[number as usize % channels.len()].clone();
        async move {
            let left = end.saturating_duration_since(Instant::now());
            let ttl = left.as_secs_f64().ceil() as i64;
            let grant = LeaseGrantRequest { ttl };
            let lease: LeaseResponse =
                wire::unary(channel.clone(), wire::LEASE_GRANT, grant).await?;
            if lease.id == 0 || lease.ttl != ttl {
                let why = format!("not the lease of {ttl} s that was asked for: {lease:?}");
                return Err(Status::data_loss(why));
            }
            let key = format!("{KEYS}{round:020}/{number:08}").into_bytes();
            let put = PutRequest { key, value: b"serving".to_vec(), lease: lease.id };
            let _: PutResponse = wire::unary(channel, wire::PUT, put).await?;
            Ok(lease.id)
        }
    });
    let leases = leases.buffer_unordered(MAKING_MAX).try_collect().await;
    leases.context("grant leases and put keys with them")
}

/// Watches the keys of a round.
pub async fn watch(channel: Channel, round: u64) -> anyhow::Result<Streaming<WatchResponse>> {
    let (key, range_end) = (format!("{KEYS}{round:020}/"), format!("{KEYS}{round:020}0"));
    let create_request =
        Some(WatchCreateRequest { key: key.into_bytes(), range_end: range_end.into_bytes() });
    // The request stream stays open as long as the answers are read.
    let requests = stream::iter([WatchRequest { create_request }]).chain(stream::pending());
    let mut answers: Streaming<WatchResponse> = streaming(channel, wire::WATCH, requests).await?;
    match answers.message().await? {
        Some(answer) if answer.created && !answer.canceled => Ok(answers),
        other => bail!("a watch was not made: {other:?}"),
    }
}

/// Reads until this many keys are deleted; returns how long after `end` each deletion was.
pub async fn deletions(
    mut answers: Streaming<WatchResponse>,
    count: u64,
    end: Instant,
) -> anyhow::Result<Histogram<u64>> {
    let mut delays = delay::histogram()?;
    while delays.len() < count {
        let quiet_until = end.max(Instant::now()) + QUIET_MAX;
        let answer = tokio::time::timeout_at(quiet_until, answers.message()).await;
        let answer = answer.with_context(|| {
            let gone = delays.len();
            format!("only {gone} of {count} leases have ended, and nothing more happens")
        })?;
        let answer = answer?.context("etcd has ended the watch")?;
        let gone = answer.events.iter().filter(|event| event.kind == wire::EVENT_DELETE).count();
        let late = Instant::now().checked_duration_since(end);
        if 0 < gone {
            let late = late.context("a lease ended before its time; the load was too slow")?;
            delay::record(&mut delays, late, gone as u64);
        }
    }
    Ok(delays)
}

/// Leases that are kept alive, each by a stream of its own, as by a worker of its own.
pub struct Kept {
    streams: JoinSet<Result<(), Status>>,
    /// Keepalives that etcd has answered.
    pub answered: Arc<AtomicU64>,
}

/// Grants a lease for each worker of a crew and keeps it alive, once an interval.
pub async fn keep(
    address: SocketAddr,
    crew: Crew,
    interval: Duration,
    round: u64,
) -> anyhow::Result<Kept> {
    let channels = open_loop::connect(address, crew.connections).await?;
    let end = Instant::now() + SET_UP_MAX + 3 * interval;
    let leases = make(&channels, round, crew.workers, end).await?;
    let answered = Arc::new(AtomicU64::new(0));
    let mut streams = JoinSet::new();
    for (number, id) in leases.into_iter().enumerate() {
        let channel = channels[number % channels.len()].clone();
        let first = interval.mul_f64((number % 97) as f64 / 97.0);
        streams.spawn(keep_one(channel, id, (first, interval), answered.clone()));
    }
    Ok(Kept { streams, answered })
}

impl Kept {
    /// Fails if a stream has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.streams.try_join_next() {
            None => Ok(()),
            Some(ended) => {
                ended.context("keepalive")?.context("keep a lease alive")?;
                bail!("a lease was given up");
            }
        }
    }
}

async fn keep_one(
    channel: Channel,
    id: i64,
    (first, interval): (Duration, Duration),
    answered: Arc<AtomicU64>,
) -> Result<(), Status> {
    let (say, said) = mpsc::channel(1);
    // The channel is empty, so the first message fits.
    let _ = say.try_send(LeaseKeepAliveRequest { id });
    let said = ReceiverStream::new(said);
    let mut told: Streaming<LeaseResponse> =
        streaming(channel, wire::LEASE_KEEP_ALIVE, said).await?;
    let mut beats = tokio::time::interval_at(Instant::now() + first, interval);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        match told.message().await? {
            Some(answer) if answer.id == id && 0 < answer.ttl => {}
            other => return Err(Status::aborted(format!("the lease is gone: {other:?}"))),
        }
        answered.fetch_add(1, Ordering::Relaxed);
        beats.tick().await;
        let said = say.send(LeaseKeepAliveRequest { id }).await;
        said.map_err(|_| Status::aborted("the stream has ended"))?;
    }
}
