//! The memory store with the faults that sessions must survive. Several instances act as replicas.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::domain::unit::presence::ReplicaId;
use crate::store::{
    Applied, Broadcast, CommitError, Epoch, MemoryStore, NumberedEvent, Observer, ReadError,
    Retention, Store, Version,
};
use crate::sync::lock;

/// A memory store with faults.
pub(super) struct TestStore {
    inner: Arc<MemoryStore>,
    replica: ReplicaId,
    /// The last beat of each replica, for all that share the store.
    pub(super) beats: Arc<Mutex<BTreeMap<ReplicaId, Timestamp>>>,
    /// No call is answered.
    pub(super) away: AtomicBool,
    /// Commits are made, and answered as if they were not.
    pub(super) ambiguous: AtomicBool,
    /// Commits wait while this is set.
    pub(super) hangs: watch::Sender<bool>,
    pub(super) commits: AtomicUsize,
}

impl TestStore {
    /// Returns a store that is not shared.
    pub(super) fn new() -> Arc<TestStore> {
        TestStore::over(Arc::new(MemoryStore::new(Retention::default())), 1, Arc::default())
    }

    /// Returns one store, as seen by two replicas.
    pub(super) fn two() -> [Arc<TestStore>; 2] {
        let inner = Arc::new(MemoryStore::new(Retention::default()).shared());
        let beats = Arc::default();
        [1, 2].map(|replica| TestStore::over(inner.clone(), replica, Arc::clone(&beats)))
    }

    fn over(
        inner: Arc<MemoryStore>,
        replica: u64,
        beats: Arc<Mutex<BTreeMap<ReplicaId, Timestamp>>>,
    ) -> Arc<TestStore> {
        Arc::new(TestStore {
            inner,
            replica: ReplicaId(replica),
            beats,
            away: AtomicBool::new(false),
            ambiguous: AtomicBool::new(false),
            hangs: watch::Sender::new(false),
            commits: AtomicUsize::new(0),
        })
    }

    pub(super) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    pub(super) fn count(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    fn is_there(&self) -> Result<(), ReadError> {
        match self.away.load(Ordering::SeqCst) {
            true => Err(ReadError::Unavailable { reason: "away".into() }),
            false => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl Store for TestStore {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }
    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }
    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }
    async fn load(&self, app: &AppName) -> Result<Records, ReadError> {
        self.is_there()?;
        self.inner.load(app).await
    }
    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        let mut hangs = self.hangs.subscribe();
        let _ = hangs.wait_for(|hangs| !hangs).await;
        let retry_after = Duration::from_secs(1);
        let unavailable =
            |applied| CommitError::Unavailable { reason: "away".into(), applied, retry_after };
        self.is_there().map_err(|_| unavailable(Applied::No))?;
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.inner.commit(transition).await?;
        match self.ambiguous.load(Ordering::SeqCst) {
            true => Err(unavailable(Applied::Maybe)),
            false => Ok(()),
        }
    }
    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        let mut hangs = self.hangs.subscribe();
        let _ = hangs.wait_for(|hangs| !hangs).await;
        let retry_after = Duration::from_secs(1);
        let (reason, applied) = ("away".to_string(), Applied::No);
        let unavailable = |_| CommitError::Unavailable { reason, applied, retry_after };
        self.is_there().map_err(unavailable)?;
        self.inner.confirm(app, version).await
    }
    fn follow(&self, observer: Arc<dyn Observer>) {
        self.inner.follow(observer);
    }
    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        self.inner.events(app, before, count_max).await
    }
    fn replica(&self) -> ReplicaId {
        self.replica
    }
    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        self.is_there()?;
        let mut beats = lock(&self.beats);
        beats.insert(self.replica, self.now());
        Ok(beats.clone())
    }
    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError> {
        self.is_there()?;
        self.inner.broadcast(notice).await
    }
    fn health(&self) -> Result<(), String> {
        self.is_there().map_err(|error| error.to_string())
    }
    async fn close(&self) {}
}
