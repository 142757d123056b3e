//! Redis or Valkey as the store, shared by several replicas of the server.
//!
//! ```text
//!  commit --encode--> queue --> Lane: pipeline of commit.lua --> Redis --> answer
//!    '--- waits for the log ---.                                  | log
//!  follow <--- View, observers <--- Reader: XREAD on its own <----'
//!  load, events ------------------> the current data in Redis
//! ```
//!
//! | Floor | What | Its state |
//! |---|---|---|
//! | [`link`] | the masters, as [`link::Servers`] | connections |
//! | `script` | the scripts and their arguments | none |
//! | `record` | `Buckets`: keys, records, requests | none |
//! | `time` | `Time`: the time of the store, outages | the last answer |
//! | `log` | `Log`: what this process has read and relies on | heads, observers, suspicions |
//! | `commit` | `Commits`: lanes, durability, folds | what is under way |
//!
//! Applications are spread over buckets, and each bucket is a hash tag. `record/key.rs` defines the
//! keys. Only `commit.lua` writes applications. Each process follows the log of each bucket, so it
//! knows all heads. At each new connection the reader checks whether Redis still has what this
//! process has seen. If a failover or a restart has lost writes, the epoch changes, and
//! `log/repair.rs` corrects the bucket. `docs/design/redis.md` has the protocol.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::domain::unit::presence::ReplicaId;

use super::{
    Broadcast, CommitError, Epoch, Moment, NumberedEvent, Observer, ReadError, Retention, Space,
    Store, Version, random_store_id,
};

use commit::Commits;
use link::{Kind, Links, Servers, Target};
use log::Log;
use record::{Buckets, space};

pub(crate) mod commit;
mod error;
pub mod link;
pub(crate) mod log;
pub(crate) mod record;
pub(crate) mod script;
mod time;

#[cfg(any(test, feature = "testing"))]
pub mod inspect;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use commit::durability::{self, Durability};
pub use error::OpenError;
pub use record::layout::{BUCKETS_MAX, Layout, Prefix};

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
    buckets: Arc<Buckets>,
    log: Arc<Log>,
    commits: Arc<Commits>,
    /// The tasks that only read: the time first, then the log of each group of buckets.
    readers: Vec<JoinHandle<()>>,
}

impl RedisStore {
    /// Connects, creates the store if Redis has none, and reads all heads. A number of buckets, if
    /// one is given, must be the one that the store was created with.
    pub async fn open(target: Target, options: Options) -> Result<RedisStore, OpenError> {
        let links = Links::connect(target, options.link.clone()).await?;
        RedisStore::open_on(links, options).await
    }

    /// Opens the store on these servers, like [`open`](RedisStore::open).
    pub async fn open_on(
        servers: Arc<dyn Servers>,
        options: Options,
    ) -> Result<RedisStore, OpenError> {
        let Options { layout, durability, retention, .. } = options;
        let (buckets, epoch) = Buckets::open(servers, &layout, retention).await?;
        let buckets = Arc::new(buckets);
        let replica = ReplicaId(random_store_id());
        let log = Arc::new(Log::open(buckets.clone(), epoch, replica).await?);
        let commits = Arc::new(Commits::new(buckets.clone(), log.clone(), durability));
        let timed = log.clone();
        let time = async move { timed.time.follow(|| timed.health().is_ok()).await };
        let readers = vec![tokio::spawn(time)];
        let mut store = RedisStore { buckets, log, commits, readers };
        for group in store.buckets.groups() {
            let reader = store.log.catch_up(group.clone()).await?;
            store.readers.push(tokio::spawn(reader.run()));
            store.commits.start(&group);
        }
        store.log.join().await?;
        if store.buckets.servers.kind() != Kind::Standalone {
            store.commits.warn_of_two_masters().await;
        }
        Ok(store)
    }
}

#[cfg(any(test, feature = "testing"))]
impl RedisStore {
    /// Returns the commit under way with this mark (`writer:number`), if it is one of the
    /// application.
    pub fn under_way(&self, mark: &str, app: &AppName) -> Option<Arc<Transition>> {
        self.log.own.get(mark, app)
    }
}

#[async_trait::async_trait]
impl Store for RedisStore {
    fn now(&self) -> Timestamp {
        self.log.time.now()
    }

    fn moment(&self) -> Moment {
        self.log.time.moment()
    }

    fn epoch(&self) -> Epoch {
        self.log.view.epoch()
    }

    fn epoch_floor(&self, app: &AppName) -> u64 {
        self.log.view.epoch_floor(self.buckets.keys.bucket_of(app))
    }

    fn buckets(&self) -> u16 {
        self.buckets.keys.buckets
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn load(&self, app: &AppName) -> Result<Records, ReadError> {
        let found = self.log.load(app).await?;
        self.commits.folds.note(app, found.has_blocks);
        Ok(found.records)
    }

    async fn release(&self, app: &AppName) {
        // Also while this process is alone: one that joins later would write transitions for a
        // process that follows nothing.
        self.log.set_mark(app, false).await;
    }

    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        self.commits.commit(transition).await
    }

    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        self.commits.confirm(app, version).await
    }

    fn follow(&self, observer: Arc<dyn Observer>) {
        self.log.view.follow(observer);
    }

    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        self.buckets.events(app, before, count_max, self.now()).await
    }

    fn replica(&self) -> ReplicaId {
        self.log.replica()
    }

    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        self.log.beat().await
    }

    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError> {
        Ok(self.log.broadcast(&notice).await?)
    }

    async fn space(&self) -> Option<Space> {
        space::space(&self.buckets).await
    }

    fn health(&self) -> Result<(), String> {
        self.log.health()
    }

    async fn close(&self) {
        self.log.time.end(self.health().is_ok()).await;
        self.log.close();
        self.commits.close().await;
        self.readers.iter().for_each(JoinHandle::abort);
        self.buckets.servers.close();
    }
}

/// Stops the tasks of a store that was not closed, wherever they are.
impl Drop for RedisStore {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
        self.commits.abort();
        self.buckets.servers.close();
    }
}
