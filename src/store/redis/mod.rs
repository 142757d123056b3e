//! Redis or Valkey as the store, shared by several replicas of the server.
//!
//! ```text
//!  commit --encode--> queue --> Lane: pipeline of commit.lua --> Redis --> answer
//!    '--- waits for the log ---.                                  | log
//!  follow <--- View, observers <--- Reader: XREAD on its own <----'
//!  load, events ------------------> the current data in Redis
//! ```
//!
//! Applications are spread over buckets, and each bucket is a hash tag. `key` defines the keys.
//! Only `commit.lua` writes applications. Each process follows the log of each bucket, so it knows
//! all heads. At each new connection the reader checks whether Redis still has what this process
//! has seen. If a failover or a restart has lost writes, the epoch changes, and `repair` corrects
//! the bucket.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::domain::unit::presence::ReplicaId;
use crate::sync::lock;

use super::span::CommitSpan;
use super::{
    Applied, Broadcast, Bucket, CommitError, ConflictCause, Epoch, Moment, NumberedEvent, Observer,
    OpenError, ReadError, Retention, Space, Store, Version, random_store_id,
};

use batch::{Batch, Mark};
use fold::Folds;
use info::InfoFields;
use key::{Key, KeySpace, tag};
use link::{Kind, LinkError, Links, Target};
use membership::Membership;
use reader::Reader;
use time::{Ask, StoreClock};
use unread::Confirmed;
use view::{Own, View};
use writer::{Committed, Job};

mod arguments;
mod attempts;
mod batch;
mod block;
mod confirm;
pub mod doctor;
pub mod durability;
mod entry;
mod fold;
mod info;
mod key;
mod layout;
pub mod link;
mod membership;
mod meta;
mod read;
mod read_back;
mod reader;
mod repair;
mod reply;
mod script;
mod space;
mod time;
mod unread;
mod view;
mod writer;

#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use durability::Durability;
pub use layout::{BUCKETS_MAX, Layout, Prefix};

/// The maximum number of commits that wait in the queue of a lane.
const QUEUE_MAX: usize = 1024;
/// The time that a refused commit waits for the commit that it lost to. A reader that follows the
/// log has it within a millisecond; a longer wait does not help if it does not follow.
const MISSED_MAX: Duration = Duration::from_millis(100);
/// The time in which the reader must compare a new master with what was seen before. After this
/// time `load` of an application on it fails.
const COMPARED_MAX: Duration = Duration::from_secs(1);
/// The time to wait before the next attempt while Redis is unreachable: a failover takes a few
/// seconds.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The settings of a Redis store.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where the store is, and its number of buckets.
    pub layout: Layout,
    /// The durability that a commit must reach before it is acknowledged.
    pub durability: Durability,
    /// How much history is kept.
    pub retention: Retention,
    /// The time-outs of the connections.
    pub link: link::Options,
}

/// A store in Redis or Valkey.
pub struct RedisStore {
    shared: Arc<Shared>,
    /// The queues of each group of buckets; empty after the store is closed.
    lanes: Mutex<Vec<Queues>>,
    writers: Mutex<Vec<JoinHandle<()>>>,
    /// The tasks that only read.
    readers: Vec<JoinHandle<()>>,
}

/// The queues of a group of buckets.
#[derive(Clone)]
struct Queues {
    commits: mpsc::Sender<Job>,
    confirmations: mpsc::Sender<confirm::Job>,
}

/// The data that the tasks and the callers share.
struct Shared {
    links: Arc<Links>,
    keys: KeySpace,
    retention: Retention,
    durability: Durability,
    /// The id of this store instance among all writers.
    writer: Arc<str>,
    replica: ReplicaId,
    own: Arc<Own>,
    view: View,
    clock: StoreClock,
    membership: Mutex<Membership>,
    closed: AtomicBool,
    /// Why a log is not followed, by the first bucket of its group.
    troubles: Mutex<BTreeMap<Bucket, String>>,
    folds: Folds,
    /// Sends when the serving master may differ from the one that the readers compared.
    suspicions: watch::Sender<()>,
}

impl RedisStore {
    /// Connects, creates the store if Redis has none, and reads all heads. A number of buckets, if
    /// one is given, must be the one that the store was created with.
    pub async fn open(target: Target, options: Options) -> Result<RedisStore, OpenError> {
        let Options { layout, durability, retention, link } = options;
        let kind = target.kind();
        let links = Links::connect(target, link).await?;
        let (keys, epoch) = meta::open(&links, &layout, kind).await?;
        tracing::info!(prefix = %layout.prefix, buckets = keys.buckets, "found the store in Redis");
        let replica = ReplicaId(random_store_id());
        let writer: Arc<str> = format!("{:016x}", replica.0).into();
        let alive = membership::last_beat(&links, &keys).await?;
        let ask = Ask { known: Timestamp::default(), own: &writer, acts: true, alive };
        let clock = StoreClock::new(ask.send(&links, &keys).await?);
        let shared = Arc::new(Shared {
            view: View::new(keys.buckets, epoch),
            links,
            keys,
            retention,
            durability,
            writer,
            replica,
            own: Arc::default(),
            clock,
            membership: Mutex::default(),
            closed: AtomicBool::default(),
            troubles: Mutex::default(),
            folds: Folds::default(),
            suspicions: watch::Sender::default(),
        });
        let mut store = RedisStore {
            lanes: Mutex::default(),
            writers: Mutex::default(),
            readers: vec![tokio::spawn(time::follow(shared.clone()))],
            shared,
        };
        for buckets in store.shared.groups(kind) {
            store.start(buckets).await?;
        }
        store.join().await?;
        store.shared.warn_of_two_masters(kind != Kind::Standalone).await;
        Ok(store)
    }

    /// Reads the heads of some buckets, then starts the tasks that read and write them.
    async fn start(&mut self, buckets: Vec<Bucket>) -> Result<(), OpenError> {
        let tag = tag(buckets[0]);
        let mut reader = Reader::new(self.shared.clone(), buckets);
        reader.catch_up().await?;
        self.readers.push(tokio::spawn(reader.run()));
        let (commits, jobs) = mpsc::channel(QUEUE_MAX);
        let commit = writer::run(self.shared.clone(), tag.clone(), jobs);
        let (confirmations, jobs) = mpsc::channel(QUEUE_MAX);
        let confirm = confirm::run(self.shared.clone(), tag, jobs);
        lock(&self.writers).extend([tokio::spawn(commit), tokio::spawn(confirm)]);
        lock(&self.lanes).push(Queues { commits, confirmations });
        Ok(())
    }

    /// Notifies all other processes that this process reads their logs, before it serves a request.
    async fn join(&self) -> Result<(), OpenError> {
        let Shared { keys, replica, .. } = &*self.shared;
        let beat = membership::beat(keys, *replica, self.now());
        let beat = self.shared.call(&keys.name(Key::Replicas), &beat).await?;
        let join = membership::join(keys, Bucket(0), *replica);
        let join = self.shared.links.run_one(&tag(Bucket(0)), &join).await?;
        Ok(reply::check(&[beat, join])?)
    }

    fn lane(&self, bucket: Bucket) -> Result<Queues, CommitError> {
        let lanes = lock(&self.lanes);
        // There is one lane for all buckets, or one for each.
        let lane = lanes.get(usize::from(bucket.0)).or_else(|| lanes.first()).cloned();
        lane.ok_or_else(|| self.shared.closed(Applied::No))
    }
}

#[async_trait::async_trait]
impl Store for RedisStore {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn moment(&self) -> Moment {
        self.shared.clock.moment()
    }

    fn epoch(&self) -> Epoch {
        self.shared.view.epoch()
    }

    fn epoch_floor(&self, app: &AppName) -> u64 {
        self.shared.view.epoch_floor(self.shared.keys.bucket_of(app))
    }

    fn buckets(&self) -> u16 {
        self.shared.keys.buckets
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn load(&self, app: &AppName) -> Result<Records, ReadError> {
        let shared = &self.shared;
        let bucket = shared.keys.bucket_of(app);
        let ask = read::ask_app(&shared.keys, bucket, app);
        let started = Instant::now();
        // Before the read: a commit after the mark has its transition in the log.
        shared.follow(bucket, app).await;
        loop {
            let mut noted = shared.view.follow_note(bucket);
            let seen = shared.view.revision(bucket, app);
            let found = read::read_app(app, &shared.links.run(&tag(bucket), &ask).await?)?;
            shared.folds.note(app, found.has_blocks);
            // A transition based on this state would hide the data loss.
            let is_known = found.losses <= shared.view.cursor(bucket).2;
            if is_known && seen <= found.records.head.revision && found.noted == *noted.borrow() {
                return Ok(found.records);
            }
            if found.noted != *noted.borrow() {
                shared.suspicions.send_replace(());
                let left = COMPARED_MAX.saturating_sub(started.elapsed());
                if let Ok(Ok(())) = tokio::time::timeout(left, noted.changed()).await {
                    continue;
                }
            }
            let reason = "Redis may have lost writes; the comparison is not complete".to_string();
            return Err(ReadError::Unavailable { reason });
        }
    }

    async fn release(&self, app: &AppName) {
        // Also while this process is alone: one that joins later would write transitions for a
        // process that follows nothing.
        self.shared.set_mark(self.shared.keys.bucket_of(app), app, false).await;
    }

    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        let shared = &self.shared;
        let bucket = shared.keys.bucket_of(&transition.app);
        let lane = self.lane(bucket)?;
        let history = shared.view.history(bucket);
        let has_blocks = shared.folds.has_blocks(&transition.app);
        let others = lock(&shared.membership).others.clone();
        let batch = Batch::encode(&transition, bucket, history, has_blocks, others);
        let (answer, answered) = oneshot::channel();
        let span = CommitSpan::current();
        let job = Job { batch, transition: transition.clone(), span, answer };
        lane.commits.send(job).await.map_err(|_| shared.closed(Applied::No))?;
        drop(lane);
        // The transition is kept until the observers have received it, so that the reader need not
        // decode it.
        let (outcome, _kept) = answered.await.map_err(|_| shared.closed(Applied::Maybe))?;
        if let Err(CommitError::Conflict { current, .. }) = outcome {
            shared.await_missed(bucket, &transition.app, current).await;
        }
        let Committed { id, blocks } = outcome?;
        shared.fold_if_due(&transition, blocks);
        match id {
            None => {
                if transition.is_durable() {
                    shared.view.refresh(&transition, bucket);
                }
                self.rely_on_base(&transition, bucket).await
            }
            Some(id) => shared.read_back(bucket, transition.epoch_floor, id).await,
        }
    }

    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        let shared = &self.shared;
        let bucket = shared.keys.bucket_of(app);
        let lane = self.lane(bucket)?;
        let (answer, answered) = oneshot::channel();
        let job = confirm::Job { app: app.clone(), bucket, version, answer };
        lane.confirmations.send(job).await.map_err(|_| shared.closed(Applied::No))?;
        drop(lane);
        let confirmed = answered.await.map_err(|_| shared.closed(Applied::No))?;
        if let Err(CommitError::Conflict { current, .. }) = confirmed {
            shared.await_missed(bucket, app, current).await;
        }
        let Some(entry) = confirmed? else { return Ok(()) };
        let Version { revision, epoch_floor, .. } = version;
        match shared.view.rely_on(bucket, app, Confirmed { revision, epoch_floor, entry }) {
            true => Ok(()),
            // As the next master would say.
            false => Err(CommitError::Conflict { current: revision, cause: ConflictCause::Master }),
        }
    }

    fn follow(&self, observer: Arc<dyn Observer>) {
        self.shared.view.follow(observer);
    }

    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        let Shared { keys, retention, .. } = &*self.shared;
        let bucket = keys.bucket_of(app);
        let most = retention.events_max.max(retention.own_events_max);
        let count = u64::try_from(count_max).unwrap_or(u64::MAX).min(most);
        if count == 0 || before == Some(0) {
            return Ok(Vec::new());
        }
        let ask = read::ask_events(keys, bucket, app, before, count);
        let values = self.shared.links.run(&tag(bucket), &ask).await?;
        read::read_events(app, &values, retention, count_max, self.now())
    }

    fn replica(&self) -> ReplicaId {
        self.shared.replica
    }

    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        let Shared { keys, replica, membership, .. } = &*self.shared;
        let joined = lock(membership).joined;
        let call = membership::beat(keys, *replica, self.now());
        let answer = self.shared.call(&keys.name(Key::Replicas), &call).await?;
        let living = membership::read_beat(&answer)?;
        lock(membership).hear(&living, *replica, joined);
        Ok(living)
    }

    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError> {
        let bucket = self.shared.keys.bucket_of(&notice.app);
        let add = membership::broadcast(&self.shared.keys, bucket, &notice);
        self.shared.links.run_one(&tag(bucket), &add).await?;
        Ok(())
    }

    async fn space(&self) -> Option<Space> {
        space::space(&self.shared).await
    }

    fn health(&self) -> Result<(), String> {
        self.shared.health()
    }

    async fn close(&self) {
        self.shared.end_time().await;
        self.shared.closed.store(true, Ordering::Relaxed);
        lock(&self.lanes).clear();
        let writers = std::mem::take(&mut *lock(&self.writers));
        for writer in writers {
            // A task that panicked has nothing left to finish.
            let _ = writer.await;
        }
        self.readers.iter().for_each(JoinHandle::abort);
        self.shared.links.close();
    }
}

/// Stops the tasks of a store that was not closed, wherever they are.
impl Drop for RedisStore {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
        lock(&self.writers).iter().for_each(JoinHandle::abort);
        self.shared.links.close();
    }
}

impl Shared {
    /// Groups the buckets that share a connection: all of them, or each alone in a Cluster, where
    /// one request must stay within one slot.
    fn groups(&self, kind: Kind) -> Vec<Vec<Bucket>> {
        let all = (0..self.keys.buckets).map(Bucket);
        match kind {
            Kind::Cluster => all.map(|bucket| vec![bucket]).collect(),
            Kind::Standalone | Kind::Sentinel => vec![all.collect()],
        }
    }

    /// Returns a section of the answer to `INFO` of the master that holds a key.
    async fn info(&self, key: &str, section: &str) -> Result<InfoFields, LinkError> {
        let answer = self.links.run_one(key, redis::cmd("INFO").arg(section)).await?;
        Ok(InfoFields::of_lines(reply::info(&answer)))
    }

    /// Calls a script on the master that holds a key.
    async fn call(&self, key: &str, call: &Cmd) -> Result<Value, LinkError> {
        script::run(&self.links, key, call).await
    }

    /// Waits for a commit that this process has not seen yet. The log delivers it, so the caller
    /// need not load the application.
    async fn await_missed(&self, bucket: Bucket, app: &AppName, current: Revision) {
        let _ = tokio::time::timeout(MISSED_MAX, self.view.until_at(bucket, app, current)).await;
    }

    fn next_mark(&self) -> Mark {
        Mark { writer: self.writer.clone(), sequence: self.own.next_sequence() }
    }

    fn health(&self) -> Result<(), String> {
        if self.closed.load(Ordering::Relaxed) {
            return Err("store is closed".to_string());
        }
        self.links.health()?;
        lock(&self.troubles).values().next().map_or(Ok(()), |trouble| Err(trouble.clone()))
    }

    fn unavailable(&self, reason: String, applied: Applied) -> CommitError {
        CommitError::Unavailable { reason, applied, retry_after: RETRY_AFTER }
    }

    fn closed(&self, applied: Applied) -> CommitError {
        self.unavailable("store is closed".to_string(), applied)
    }
}

impl From<LinkError> for ReadError {
    fn from(error: LinkError) -> ReadError {
        ReadError::Unavailable { reason: error.reason().to_string() }
    }
}

impl From<LinkError> for OpenError {
    fn from(error: LinkError) -> OpenError {
        OpenError::Unavailable { reason: error.reason().to_string() }
    }
}
