//! A store with faults, for tests of the code above the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::domain::unit::presence::ReplicaId;

use super::conformance::driver::{Driver, mk_report};
use super::moment::Life;
use super::{
    Applied, Broadcast, Bucket, Change, CommitError, Epoch, MasterChange, Moment, NumberedEvent,
    Observer, Position, ReadError, Space, Store, Version,
};

/// A store that forwards each call to another store, and refuses, delays or loses it if the test
/// says so. It counts the calls.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Faults,
    observers: Mutex<Vec<Arc<dyn Observer>>>,
    log: Arc<Mutex<Log>>,
    calls: CallCounts,
    life: Mutex<Life>,
}

/// The faults that are switched on.
#[derive(Default)]
struct Faults {
    is_away: AtomicBool,
    hangs: watch::Sender<bool>,
    answers_to_lose: AtomicUsize,
    panics: AtomicUsize,
    rivals: AtomicUsize,
    forgets_replicas: AtomicBool,
    data_losses: AtomicU32,
    /// The time up to which deadlines may be judged, while it stands still.
    judged: Mutex<Option<Timestamp>>,
}

/// The counts of calls.
#[derive(Default)]
struct CallCounts {
    loads: AtomicUsize,
    commits: AtomicUsize,
    conflicts: AtomicUsize,
}

impl FaultyStore {
    /// Returns a store over another one, without faults at first.
    pub fn over(inner: impl Store) -> Arc<FaultyStore> {
        Arc::new(FaultyStore {
            inner: Arc::new(inner),
            faults: Faults::default(),
            observers: Mutex::default(),
            log: Arc::default(),
            calls: CallCounts::default(),
            life: Mutex::default(),
        })
    }

    /// Refuses each call as unavailable while `away` is set. That time is an outage.
    pub fn set_away(&self, away: bool) {
        let was_away = self.faults.is_away.swap(away, Ordering::SeqCst);
        let mut life = self.life.lock().unwrap();
        match (was_away, away) {
            (false, true) => life.alive = self.inner.now(),
            (true, false) => life.start(self.inner.now()),
            _ => {}
        }
    }

    /// Lets deadlines be judged no further than now while `stands`, as while this process does not
    /// know whether an outage has begun.
    pub fn hold_judgement(&self, stands: bool) {
        *self.faults.judged.lock().unwrap() = stands.then(|| self.inner.now());
    }

    /// Delays commits and confirmations while `hangs` is set.
    pub fn set_hanging(&self, hangs: bool) {
        self.faults.hangs.send_replace(hangs);
    }

    /// Loses the answers to the next `count` commits: they are applied, and their callers do not
    /// learn it.
    pub fn lose_answers(&self, count: usize) {
        self.faults.answers_to_lose.store(count, Ordering::SeqCst);
    }

    /// Panics in the next `count` commits, after they are applied.
    pub fn panic_in_commits(&self, count: usize) {
        self.faults.panics.store(count, Ordering::SeqCst);
    }

    /// Lets each of the next `count` commits lose a race: another process commits a report before
    /// it.
    pub fn set_rivals(&self, count: usize) {
        self.faults.rivals.store(count, Ordering::SeqCst);
    }

    /// Omits the beats of other processes while `forgets` is set.
    pub fn forget_replicas(&self, forgets: bool) {
        self.faults.forgets_replicas.store(forgets, Ordering::SeqCst);
    }

    /// Keeps the changes of the log back while `held` is set, and then delivers them in order.
    pub fn hold_log(&self, held: bool) {
        let mut log = self.log.lock().unwrap();
        log.is_held = held;
        if !held {
            for (observer, change) in log.waiting.drain(..) {
                observer.on_change(&change);
            }
        }
    }

    /// Counts a data loss and notifies the observers. The data stay.
    pub fn lose_data(&self) {
        self.faults.data_losses.fetch_add(1, Ordering::SeqCst);
        self.repeat_data_loss();
    }

    /// Notifies the observers of the last data loss once more.
    pub fn repeat_data_loss(&self) {
        for observer in &*self.observers.lock().unwrap() {
            for bucket in (0..self.buckets()).map(Bucket) {
                observer.on_master(bucket, &MasterChange::LostWrites(self.epoch()));
            }
        }
    }

    /// Returns the number of loads.
    pub fn loads(&self) -> usize {
        self.calls.loads.load(Ordering::SeqCst)
    }

    /// Returns the number of commits that reached the other store.
    pub fn commits(&self) -> usize {
        self.calls.commits.load(Ordering::SeqCst)
    }

    /// Returns the number of commits that failed with a conflict.
    pub fn conflicts(&self) -> usize {
        self.calls.conflicts.load(Ordering::SeqCst)
    }

    fn is_there(&self) -> Result<(), ReadError> {
        match self.faults.is_away.load(Ordering::SeqCst) {
            true => Err(ReadError::Unavailable { reason: "away".to_string() }),
            false => Ok(()),
        }
    }

    /// Waits while commits hang, then refuses one if the store is away.
    async fn admit(&self) -> Result<(), CommitError> {
        let _ = self.faults.hangs.subscribe().wait_for(|hangs| !hangs).await;
        self.is_there().map_err(|_| unavailable(Applied::No))
    }
}

/// The changes that are kept back, each with its observer.
#[derive(Default)]
struct Log {
    is_held: bool,
    waiting: Vec<(Arc<dyn Observer>, Change)>,
}

/// Forwards what the other store reports, unless the log is held.
struct Follower {
    observer: Arc<dyn Observer>,
    log: Arc<Mutex<Log>>,
}

impl Observer for Follower {
    fn on_change(&self, change: &Change) {
        let mut log = self.log.lock().unwrap();
        match log.is_held {
            true => log.waiting.push((self.observer.clone(), change.clone())),
            false => self.observer.on_change(change),
        }
    }

    fn on_prune(&self, bucket: Bucket, up_to: Position) {
        self.observer.on_prune(bucket, up_to);
    }

    fn on_master(&self, bucket: Bucket, change: &MasterChange) {
        self.observer.on_master(bucket, change);
    }

    fn on_broadcast(&self, broadcast: &Broadcast) {
        self.observer.on_broadcast(broadcast);
    }
}

fn unavailable(applied: Applied) -> CommitError {
    let (reason, retry_after) = ("away".to_string(), Duration::from_secs(1));
    CommitError::Unavailable { reason, applied, retry_after }
}

/// Takes one from a number of faults to come. Returns how many are left, if there was one.
fn take_one(faults: &AtomicUsize) -> Option<usize> {
    let take = |count: usize| count.checked_sub(1);
    let before = faults.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
    before.ok().map(|count| count - 1)
}

#[async_trait::async_trait]
impl Store for FaultyStore {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn moment(&self) -> Moment {
        let (now, life) = (self.inner.now(), self.life.lock().unwrap());
        let held = *self.faults.judged.lock().unwrap();
        let judged = if self.is_there().is_ok() { held.unwrap_or(now) } else { life.alive };
        Moment { now, judged, outages: life.outages.clone() }
    }

    fn epoch(&self) -> Epoch {
        let epoch = self.inner.epoch();
        let losses = epoch.losses + self.faults.data_losses.load(Ordering::SeqCst);
        Epoch { losses, ..epoch }
    }

    fn epoch_floor(&self, app: &AppName) -> u64 {
        self.inner.epoch_floor(app)
    }

    fn buckets(&self) -> u16 {
        self.inner.buckets()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    async fn load(&self, app: &AppName) -> Result<Records, ReadError> {
        self.calls.loads.fetch_add(1, Ordering::SeqCst);
        self.is_there()?;
        self.inner.load(app).await
    }

    async fn release(&self, app: &AppName) {
        self.inner.release(app).await;
    }

    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        self.admit().await?;
        if let Some(left) = take_one(&self.faults.rivals) {
            let rival = Driver::load(&self.inner, transition.app.clone()).await;
            rival.unwrap().run(mk_report("rival/0", &format!("{left} left"))).await;
        }
        self.calls.commits.fetch_add(1, Ordering::SeqCst);
        let committed = self.inner.commit(transition).await;
        if matches!(committed, Err(CommitError::Conflict { .. })) {
            self.calls.conflicts.fetch_add(1, Ordering::SeqCst);
        }
        committed?;
        assert!(take_one(&self.faults.panics).is_none(), "a commit panics, as the test wants");
        match take_one(&self.faults.answers_to_lose) {
            Some(_) => Err(unavailable(Applied::Maybe)),
            None => Ok(()),
        }
    }

    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        self.admit().await?;
        self.inner.confirm(app, version).await
    }

    fn follow(&self, observer: Arc<dyn Observer>) {
        self.observers.lock().unwrap().push(observer.clone());
        self.inner.follow(Arc::new(Follower { observer, log: self.log.clone() }));
    }

    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        self.is_there()?;
        self.inner.events(app, before, count_max).await
    }

    fn replica(&self) -> ReplicaId {
        self.inner.replica()
    }

    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        self.is_there()?;
        let mut living = self.inner.beat().await?;
        if self.faults.forgets_replicas.load(Ordering::SeqCst) {
            living.retain(|replica, _| *replica == self.replica());
        }
        Ok(living)
    }

    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError> {
        self.is_there()?;
        self.inner.broadcast(notice).await
    }

    async fn space(&self) -> Option<Space> {
        self.inner.space().await
    }

    fn health(&self) -> Result<(), String> {
        self.is_there().map_err(|error| error.to_string())?;
        self.inner.health()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
