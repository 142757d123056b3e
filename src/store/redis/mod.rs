//! Redis or Valkey as the store: many replicas of ours, one truth.
//!
//! ```text
//!  commit --encode--> queue --> Lane: pipeline of commit.lua --> Redis --> answer
//!    '--- waits until told ---.                                   | log
//!  follow <--- View, followers <--- Reader: XREAD on its own <----'
//!  load, events ------------------> what Redis has now
//! ```
//!
//! Applications are spread over buckets that are hash tags; `key` has the key space, `commit.lua`
//! the one way anything is written. Each process follows the log of each bucket and so knows all
//! heads. At each new connection the reader finds out whether Redis still has what was seen; if a
//! failover or a restart lost writes, the epoch moves on, and `repair` puts right what is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::session::ReplicaId;
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;

use super::{
    Bucket, CommitError, Epoch, Follower, Notice, NumberedEvent, OpenError, ReadError, Retention,
    Store, Version, random_store_id,
};

use batch::{Batch, Mark};
use key::{Key, KeySpace, Tag};
use link::{LinkError, Links, Target};
use neighbours::Neighbours;
use reader::Reader;
use time::StoreClock;
use view::{Own, View};
use writer::{Job, Lane};

mod batch;
mod confirm;
pub mod doctor;
pub mod durability;
mod key;
pub mod link;
mod meta;
mod neighbours;
mod read;
mod reader;
mod repair;
mod reply;
mod script;
mod time;
mod view;
mod writer;

#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use durability::Durability;

/// Commits that wait for their lane.
const QUEUE_MAX: usize = 1024;
/// How long a commit that was made waits until this process's followers were told of it.
const TOLD_MAX: Duration = Duration::from_secs(5);
/// How long a commit that was refused waits for what was committed instead. A reader that follows
/// has it within a millisecond; one that does not is no reason to wait for long.
const MISSED_MAX: Duration = Duration::from_millis(100);
/// A master that took over is compared with what was seen before it within this time, or an
/// application of it cannot be read.
const COMPARED_MAX: Duration = Duration::from_secs(1);
/// When to try again while Redis is away: it takes a failover a few seconds.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What can be chosen.
#[derive(Debug, Clone)]
pub struct Options {
    /// Orders of changes, fixed at the first start: the more, the more masters of a Cluster can
    /// share the work.
    pub buckets: u16,
    /// When a commit counts as made.
    pub durability: Durability,
    /// How much history is kept.
    pub retention: Retention,
    /// What every key begins with.
    pub prefix: String,
    /// How patient connections are.
    pub link: link::Options,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            buckets: 64,
            durability: Durability::default(),
            retention: Retention::default(),
            prefix: "bw".to_string(),
            link: link::Options::default(),
        }
    }
}

/// See the module.
pub struct RedisStore {
    shared: Arc<Shared>,
    /// One per group of buckets; none once it is closed.
    lanes: Mutex<Vec<Queues>>,
    writers: Mutex<Vec<JoinHandle<()>>>,
    /// Tasks that only read.
    readers: Vec<JoinHandle<()>>,
}

/// Where the work on a group of buckets waits.
#[derive(Clone)]
struct Queues {
    commits: mpsc::Sender<Job>,
    confirmations: mpsc::Sender<confirm::Job>,
}

/// What the tasks share with those who ask.
struct Shared {
    links: Arc<Links>,
    keys: KeySpace,
    retention: Retention,
    durability: Durability,
    /// Names this opened store among all that write.
    writer: Arc<str>,
    replica: ReplicaId,
    own: Arc<Own>,
    view: View,
    clock: StoreClock,
    neighbours: Mutex<Neighbours>,
    closed: AtomicBool,
    /// Why logs are not followed, by the first bucket of those that go together.
    troubles: Mutex<BTreeMap<Bucket, String>>,
    /// Sends when another master may serve than the one that the readers compared.
    suspicions: watch::Sender<()>,
}

impl RedisStore {
    /// Connects, makes the store if there is none, and reads all heads. The number of buckets must
    /// be the one the store was made with.
    pub async fn open(target: Target, options: Options) -> Result<RedisStore, OpenError> {
        let Options { buckets, durability, retention, prefix, link } = options;
        let keys = KeySpace::new(&prefix, buckets.max(1));
        let fails_over = target.master_name().is_some() || target.is_cluster();
        let links = Links::connect(target, link).await?;
        let epoch = make_store(&links, &keys).await?;
        let clock = StoreClock::new(time::ask(&links, &keys, Timestamp::default()).await?.0);
        let replica = ReplicaId(random_store_id());
        let shared = Arc::new(Shared {
            view: View::new(keys.buckets, epoch),
            links,
            keys,
            retention,
            durability,
            writer: format!("{:016x}", replica.0).into(),
            replica,
            own: Arc::default(),
            clock,
            neighbours: Mutex::default(),
            closed: AtomicBool::default(),
            troubles: Mutex::default(),
            suspicions: watch::Sender::default(),
        });
        let mut store = RedisStore {
            lanes: Mutex::default(),
            writers: Mutex::default(),
            readers: vec![tokio::spawn(time::follow(shared.clone()))],
            shared,
        };
        for buckets in store.shared.groups().await? {
            store.start(buckets).await?;
        }
        store.join().await?;
        store.shared.warn_of_two_masters(fails_over).await;
        Ok(store)
    }

    /// Starts what reads and what writes some buckets, once what is there is known.
    async fn start(&mut self, buckets: Vec<Bucket>) -> Result<(), OpenError> {
        let tag = Tag(buckets[0]).to_string();
        let mut reader = Reader::new(self.shared.clone(), buckets);
        reader.catch_up().await?;
        self.readers.push(tokio::spawn(reader.run()));
        let (commits, jobs) = mpsc::channel(QUEUE_MAX);
        let lane = Lane::new(self.shared.clone(), tag.clone(), jobs);
        let (confirmations, jobs) = mpsc::channel(QUEUE_MAX);
        let confirm = confirm::run(self.shared.clone(), tag, jobs);
        lock(&self.writers).extend([tokio::spawn(lane.run()), tokio::spawn(confirm)]);
        lock(&self.lanes).push(Queues { commits, confirmations });
        Ok(())
    }

    /// Lets all others know that somebody reads what they write, before anybody can ask us.
    async fn join(&self) -> Result<(), OpenError> {
        let Shared { keys, replica, .. } = &*self.shared;
        let mut answers = self
            .shared
            .call(&keys.name(Key::Replicas), &neighbours::beat(keys, *replica, self.now()))
            .await?;
        let mut pipeline = redis::pipe();
        pipeline.add_command(neighbours::join(keys, Bucket(0), *replica));
        answers.extend(self.shared.ask(&keys.name(Key::Log(Bucket(0))), &pipeline).await?);
        match reply::error(&answers) {
            Some(error) => Err(OpenError::Unavailable { reason: error.to_string() }),
            None => Ok(()),
        }
    }

    /// How far off [`now`](Store::now) may be, either way.
    pub fn clock_error(&self) -> Duration {
        self.shared.clock.error()
    }

    fn lane(&self, bucket: Bucket) -> Option<Queues> {
        let lanes = lock(&self.lanes);
        // One for all, or one for each.
        lanes.get(usize::from(bucket.0)).or_else(|| lanes.first()).cloned()
    }

    async fn read(&self, bucket: Bucket, pipeline: &Pipeline) -> Result<Vec<Value>, ReadError> {
        let values = self.shared.links.run(&Tag(bucket).to_string(), pipeline).await;
        values.map_err(as_read_error)
    }
}

fn as_read_error(error: LinkError) -> ReadError {
    ReadError::Unavailable { reason: error.reason().to_string() }
}

#[async_trait::async_trait]
impl Store for RedisStore {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn epoch(&self) -> Epoch {
        self.shared.view.epoch()
    }

    fn counts_above(&self, app: &AppName) -> u64 {
        self.shared.view.counts_above(self.shared.keys.bucket_of(app))
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
        loop {
            let mut noted = shared.view.follow_counts_above(bucket);
            let seen = shared.view.revision(bucket, app);
            let found = read::read_app(app, &self.read(bucket, &ask).await?)?;
            // Decided on now, it would be as if nothing had been lost.
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
            let reason = "redis has lost writes, and that is not dealt with yet".to_string();
            return Err(ReadError::Unavailable { reason });
        }
    }

    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        let shared = &self.shared;
        let bucket = shared.keys.bucket_of(&transition.app);
        let gone = || shared.unavailable("store is closed".to_string());
        let lane = self.lane(bucket).ok_or_else(gone)?;
        let batch = match lock(&shared.neighbours).is_alone() {
            true => Batch::encode_untold(&transition, bucket),
            false => Batch::encode(&transition, bucket),
        };
        let (answer, answered) = oneshot::channel();
        let job = Job { batch, transition: transition.clone(), answer };
        lane.commits.send(job).await.map_err(|_| gone())?;
        drop(lane);
        // Kept until it was told, so that the reader finds it.
        let (outcome, _kept) = answered.await.map_err(|_| gone())?;
        if let Err(CommitError::Conflict { current }) = outcome {
            shared.await_missed(bucket, &transition.app, current).await;
        }
        match outcome? {
            None if transition.is_durable() => shared.view.refresh(&transition, bucket),
            None => {}
            Some(id) => {
                let told = tokio::time::timeout(TOLD_MAX, shared.view.until_told(bucket, id));
                told.await.map_err(|_| {
                    shared.unavailable("it is committed, but not read back yet".to_string())
                })?;
            }
        }
        Ok(())
    }

    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        let shared = &self.shared;
        let bucket = shared.keys.bucket_of(app);
        let gone = || shared.unavailable("store is closed".to_string());
        let lane = self.lane(bucket).ok_or_else(gone)?;
        let (answer, answered) = oneshot::channel();
        let job = confirm::Job { app: app.clone(), bucket, version, answer };
        lane.confirmations.send(job).await.map_err(|_| gone())?;
        drop(lane);
        let confirmed = answered.await.map_err(|_| gone())?;
        if let Err(CommitError::Conflict { current }) = confirmed {
            shared.await_missed(bucket, app, current).await;
        }
        confirmed
    }

    fn follow(&self, follower: Arc<dyn Follower>) {
        self.shared.view.follow(follower);
    }

    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        let Shared { keys, retention, .. } = &*self.shared;
        let bucket = keys.bucket_of(app);
        let count = u64::try_from(count_max).unwrap_or(u64::MAX).min(retention.events_max);
        if count == 0 || before == Some(0) {
            return Ok(Vec::new());
        }
        let ask = read::ask_events(keys, bucket, app, before, count);
        let values = self.read(bucket, &ask).await?;
        read::read_events(app, &values, retention, self.now())
    }

    fn replica(&self) -> ReplicaId {
        self.shared.replica
    }

    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        let Shared { keys, replica, neighbours, .. } = &*self.shared;
        let joined = lock(neighbours).joined();
        let call = neighbours::beat(keys, *replica, self.now());
        let values = self.shared.call(&keys.name(Key::Replicas), &call).await;
        let values = values.map_err(as_read_error)?;
        let living = neighbours::read_beat(values.last().unwrap_or(&Value::Nil))?;
        lock(neighbours).hear(&living, *replica, joined);
        Ok(living)
    }

    async fn announce(&self, notice: Notice) -> Result<(), ReadError> {
        let bucket = self.shared.keys.bucket_of(&notice.app);
        let mut pipeline = redis::pipe();
        pipeline.add_command(neighbours::announce(&self.shared.keys, bucket, &notice));
        self.read(bucket, &pipeline).await?;
        Ok(())
    }

    fn health(&self) -> Result<(), String> {
        self.shared.health()
    }

    async fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        lock(&self.lanes).clear();
        let writers = std::mem::take(&mut *lock(&self.writers));
        for writer in writers {
            // One that panicked has nothing left to finish.
            let _ = writer.await;
        }
        self.readers.iter().for_each(JoinHandle::abort);
        self.shared.links.close();
    }
}

/// One that was not closed stops where it is.
impl Drop for RedisStore {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
        lock(&self.writers).iter().for_each(JoinHandle::abort);
        self.shared.links.close();
    }
}

impl Shared {
    /// Which buckets go together: all of them, but in a Cluster each alone, because one question
    /// must stay within one slot there.
    async fn groups(&self) -> Result<Vec<Vec<Bucket>>, OpenError> {
        let all: Vec<Bucket> = (0..self.keys.buckets).map(Bucket).collect();
        let mut pipeline = redis::pipe();
        pipeline.cmd("INFO").arg("cluster");
        let values = self.links.run(&Tag(Bucket(0)).to_string(), &pipeline).await?;
        let info = values.first().map(reply::info).unwrap_or_default();
        Ok(match info.contains("cluster_enabled:1") {
            true => all.into_iter().map(|bucket| vec![bucket]).collect(),
            false => vec![all],
        })
    }

    /// Asks whoever has a key.
    async fn ask(&self, key: &str, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        self.links.run(key, pipeline).await
    }

    /// Calls a script on the master that has a key.
    async fn call(&self, key: &str, call: &Cmd) -> Result<Vec<Value>, LinkError> {
        script::run(&self.links, key, call).await
    }

    /// A state was read from another master than the one that serves. Makes the reader compare,
    /// unless it has: `noted` is what the counts of the bucket go on above by the note of this
    /// master, if there is one.
    fn compare_master(&self, bucket: Bucket, noted: Option<&Value>) {
        if noted.and_then(reply::number) != self.view.known_counts_above(bucket) {
            self.suspicions.send_replace(());
        }
    }

    /// Waits for a missed commit, which the log delivers: the caller need not read the application.
    async fn await_missed(&self, bucket: Bucket, app: &AppName, current: Revision) {
        let told = self.view.until_at(bucket, app, current);
        let _ = tokio::time::timeout(MISSED_MAX, told).await;
    }

    fn next_mark(&self) -> Mark {
        Mark { writer: self.writer.clone(), sequence: self.own.next_sequence() }
    }

    fn set_trouble(&self, first: Bucket, trouble: Option<String>) {
        let mut troubles = lock(&self.troubles);
        match trouble {
            Some(trouble) => drop(troubles.insert(first, trouble)),
            None => drop(troubles.remove(&first)),
        }
    }

    fn health(&self) -> Result<(), String> {
        if self.closed.load(Ordering::Relaxed) {
            return Err("store is closed".to_string());
        }
        self.links.health()?;
        lock(&self.troubles).values().next().cloned().map_or(Ok(()), Err)
    }

    fn unavailable(&self, reason: String) -> CommitError {
        CommitError::Unavailable { reason, retry_after: RETRY_AFTER }
    }
}

impl From<LinkError> for OpenError {
    fn from(error: LinkError) -> OpenError {
        OpenError::Unavailable { reason: error.reason().to_string() }
    }
}

/// Reads what holds for the store as a whole, and makes it if there is nothing.
async fn make_store(links: &Links, keys: &KeySpace) -> Result<Epoch, OpenError> {
    let key = keys.name(Key::Meta);
    let values = links.run(&key, &meta::ask(keys)).await?;
    if let Some(meta) = meta::read(&values, keys)? {
        return Ok(meta.epoch);
    }
    let values = links.run(&key, &meta::make(keys, random_store_id())).await?;
    match meta::read(&values, keys)? {
        Some(meta) => Ok(meta.epoch),
        None => Err(OpenError::Unavailable { reason: format!("{key} is not kept") }),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
