//! The hub: the newest state of every application, fed by the store, and the groups of watchers.
//!
//! `open` adds watches, `wait` waits for revisions, `backlog` and `seen` read what has arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use tokio::time::Instant;

use super::cursors::Cursors;
use super::entry::{Entry, StoreClock};
use super::group::Group;
use super::groups::Groups;
use super::limits::Limits;
use super::masters::{Continuity, Masters};
use super::notifier::{Listener, Listeners};
use super::origins::UpstreamLandmarks;
use super::resume::{Here, Verdict, judge};
use super::serving::Namespaces;
use super::token::Token;
use super::waits::Waits;
use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::store::{Broadcast, Bucket, Change, Epoch, MasterChange, Observer, Position, Takeover};
use crate::telemetry::FleetCounts;

/// Entries that a list reads before it releases the hub's lock for a moment.
pub(super) const LIST_BATCH: usize = 1024;

/// The newest state of every application, and the groups of watchers.
#[derive(Debug)]
pub struct Hub {
    pub(super) limits: Limits,
    /// Whether other replicas use the store.
    is_shared: bool,
    pub(super) clock: StoreClock,
    /// In a relay: the proved states of its upstreams.
    pub(super) origins: Option<RwLock<UpstreamLandmarks>>,
    /// In a relay: twice the number of batches taken over, and one more during a batch.
    pub(super) batches: AtomicU64,
    /// The cursors up to which all changes have reached the groups. Each woken watcher reads them,
    /// so they have a lock of their own: lists hold the lock of `state`.
    reached: RwLock<Reached>,
    /// Notified by each change, for watchers that wait until this replica reaches their token.
    arrived: Arc<Listeners>,
    pub(super) state: Mutex<State>,
}

/// The position up to which all changes have reached the groups.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) epoch: Epoch,
    pub(super) cursors: Arc<Cursors>,
    masters: Masters,
    /// The position up to which tombstones were pruned. Set while `state` is locked.
    pub(super) forgotten: Cursors,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Applications and tombstones by name.
    pub(super) entries: BTreeMap<AppName, Arc<Entry>>,
    /// The same in the order of the store.
    pub(super) order: BTreeMap<(Bucket, Position), Arc<Entry>>,
    pub(super) tombstones: BTreeMap<(Bucket, Position), AppName>,
    /// The last change received in each bucket.
    pub(super) last: Cursors,
    fleet: FleetCounts,
    pub(super) namespaces: Namespaces,
    pub(super) groups: Groups,
    /// The value of [`Hub::groups_visited`].
    pub(super) groups_visited: u64,
    pub(super) waits: Waits,
}

impl Hub {
    /// Creates an empty hub for a store with this number of buckets, to be passed to
    /// [`Store::follow`](crate::store::Store::follow); `is_shared` if other replicas use the store,
    /// as [`Store::is_shared`](crate::store::Store::is_shared) says.
    pub fn new(epoch: Epoch, buckets: u16, is_shared: bool, limits: Limits) -> Hub {
        let cursors = Cursors::new(buckets);
        let last = cursors.clone();
        let (forgotten, masters) = (cursors.clone(), Masters::default());
        let reached = Reached { epoch, cursors: Arc::new(cursors), masters, forgotten };
        Hub {
            limits,
            is_shared,
            clock: StoreClock::default(),
            origins: None,
            batches: AtomicU64::new(0),
            reached: RwLock::new(reached),
            arrived: Arc::default(),
            state: Mutex::new(State { last, ..State::default() }),
        }
    }

    /// Sets the time of the store. It gives `stable_for` the age of levels that are older than this
    /// process. Without it, their age counts from the first change of the application in this hub.
    #[must_use]
    pub fn with_time(mut self, now: Timestamp) -> Hub {
        self.clock = StoreClock::reads(now, Instant::now());
        self
    }

    /// Returns the newest state of an application.
    pub fn get(&self, app: &AppName) -> Option<Arc<Entry>> {
        self.locked().entries.get(app).filter(|e| !e.is_deleted()).cloned()
    }

    /// Returns the tombstone of an application whose deletion is not pruned yet.
    pub fn tombstone(&self, app: &AppName) -> Option<Arc<Entry>> {
        self.locked().entries.get(app).filter(|e| e.is_deleted()).cloned()
    }

    /// Returns up to `count_max` applications after `after`, by namespace and name: of one
    /// namespace if given, and at one of these levels if there are any.
    pub fn list(
        &self,
        namespace: Option<&str>,
        after: Option<&AppName>,
        levels: &BTreeSet<Level>,
        count_max: usize,
    ) -> Vec<Arc<Entry>> {
        let wanted = |e: &Entry| levels.is_empty() || levels.contains(&e.level());
        self.list_where(namespace, after, &wanted, count_max)
    }

    /// Returns the same of the applications that `wanted` accepts.
    pub fn list_where(
        &self,
        namespace: Option<&str>,
        after: Option<&AppName>,
        wanted: &dyn Fn(&Entry) -> bool,
        count_max: usize,
    ) -> Vec<Arc<Entry>> {
        let mut found = Vec::new();
        let mut last = after.cloned();
        loop {
            let state = self.locked();
            let mut seen = None;
            for entry in state.range(namespace, last.as_ref()).take(LIST_BATCH) {
                if found.len() == count_max {
                    return found;
                }
                if !entry.is_deleted() && wanted(entry) {
                    found.push(entry.clone());
                }
                seen = Some(entry);
            }
            match seen {
                Some(entry) => last = Some(entry.app.clone()),
                None => return found,
            }
        }
    }

    /// Ends all present and future waits for revisions, because the server stops.
    pub fn end_waits(&self) {
        self.locked().waits.end();
    }

    /// Returns the totals over all applications.
    pub fn fleet(&self) -> FleetCounts {
        self.locked().fleet
    }

    /// Returns the number of applications.
    pub fn application_count(&self) -> usize {
        let state = self.locked();
        state.entries.len() - state.tombstones.len()
    }

    /// Returns how many times a change was compared with a filter since the start: the cost that
    /// watchers add to commits.
    pub fn groups_visited(&self) -> u64 {
        self.locked().groups_visited
    }

    /// Returns the position up to which the hub has all changes.
    pub fn cursors(&self) -> Arc<Cursors> {
        self.reached().cursors.clone()
    }

    /// Returns the epoch of the positions. It changes when the store may have lost writes.
    pub fn epoch(&self) -> Epoch {
        self.reached().epoch
    }

    /// Judges a token by what this replica knows now.
    pub(super) fn judge(&self, token: &Token) -> Verdict {
        if let Some(verdict) = self.read_origins(|origins| origins.judge(token)) {
            return verdict;
        }
        let Reached { epoch, cursors, masters, forgotten } = &*self.reached();
        let (epoch, is_shared) = (*epoch, self.is_shared);
        judge(token, Here { epoch, cursors, masters, forgotten, is_shared })
    }

    /// Returns a listener for each change from now on.
    pub(super) fn listen(&self) -> Listener {
        Listener::new(&self.arrived)
    }

    /// Wakes every watcher, for a reason outside of the hub.
    pub fn wake(&self) {
        self.locked().groups.iter().for_each(|group| group.notifier.notify());
        self.arrived.wake();
    }

    pub(super) fn leave(&self, group: &Arc<Group>) {
        // The caller holds the group itself, so that an index is freed after the lock.
        if let Ok(mut state) = self.state.lock() {
            state.groups.leave(group);
        }
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it is held")
    }

    pub(super) fn reached(&self) -> RwLockReadGuard<'_, Reached> {
        self.reached.read().expect("nothing panics while it is held")
    }

    pub(super) fn reached_mut(&self) -> RwLockWriteGuard<'_, Reached> {
        self.reached.write().expect("nothing panics while it is held")
    }

    /// Records that all changes of a bucket up to this position have reached the groups.
    pub(super) fn arrive(&self, bucket: Bucket, position: Position) {
        let mut reached = self.reached_mut();
        // Copied only if a watcher holds the present ones: eight bytes for each bucket.
        Arc::make_mut(&mut reached.cursors).advance(bucket, position);
        drop(reached);
        self.arrived.wake();
    }
}

impl Observer for Hub {
    fn on_change(&self, change: &Change) {
        let now = Instant::now();
        let mut state = self.locked();
        if change.position <= state.last.of(change.bucket) {
            return; // known: a store may repeat changes after an interruption
        }
        state.last.set(change.bucket, change.position);
        let entry = state.put(change, None, self.clock, now);
        let concerned = state.groups.concerned(&entry.app);
        let visited = concerned.map(|group| group.changed(&entry, now)).count();
        state.groups_visited += visited as u64;
        self.arrive(change.bucket, change.position);
        state.waits.wake(&entry.app, change.head.revision);
    }

    fn on_prune(&self, bucket: Bucket, up_to: Position) {
        let mut state = self.locked();
        self.reached_mut().forgotten.advance(bucket, up_to);
        let range = (bucket, Position::default())..=(bucket, up_to);
        let pruned: Vec<_> = state.tombstones.extract_if(range, |_, _| true).collect();
        for (at, app) in pruned {
            state.order.remove(&at);
            state.entries.remove(&app);
            let concerned = state.groups.concerned(&app);
            concerned.for_each(|group| group.forget(&app));
        }
        // No change up to here is outstanding, even if this hub never received the last of them.
        self.arrive(bucket, up_to);
    }

    fn on_master(&self, bucket: Bucket, change: &MasterChange) {
        match change {
            MasterChange::Met(takeovers) => self.note_masters(bucket, takeovers),
            MasterChange::LostWrites(epoch) => self.note_loss(*epoch),
            MasterChange::Compared(floor) => {
                Arc::make_mut(&mut self.reached_mut().cursors).set_floor(bucket, *floor);
            }
        }
        self.arrived.wake();
    }

    fn on_broadcast(&self, _: &Broadcast) {}
}

impl Hub {
    fn note_loss(&self, epoch: Epoch) {
        // Under the lock, to keep the order: the changes that the loss caused were passed on
        // before.
        let _state = self.locked();
        let mut reached = self.reached_mut();
        reached.epoch = reached.epoch.max(epoch);
    }

    fn note_masters(&self, bucket: Bucket, takeovers: &[Takeover]) {
        let Reached { cursors, masters, .. } = &mut *self.reached_mut();
        masters.set(bucket, takeovers);
        // The new master has everything that the hub has, so what follows is read from it. If not,
        // it may lack changes until it is compared.
        if let Some(newest) = takeovers.last()
            && masters.judge_bucket(bucket, cursors) == Continuity::Continued
        {
            Arc::make_mut(cursors).set_floor(bucket, newest.epoch_floor);
        }
    }
}

impl State {
    /// Takes the newest state of an application over, and returns it.
    pub(super) fn put(
        &mut self,
        change: &Change,
        image: Option<Bytes>,
        clock: StoreClock,
        now: Instant,
    ) -> Arc<Entry> {
        let mut known = self.entries.get_mut(&change.app);
        let before = known.as_ref().map(|entry| &***entry);
        let entry = Arc::new(Entry::after(before, change, clock, now).with_image(image));
        if let Some(known) = &mut known {
            let before = std::mem::replace(*known, entry.clone());
            let at = (before.bucket, before.position);
            self.fleet.remove(&before.head());
            let namespace = entry.app.namespace();
            self.namespaces.change(namespace, Some(before.kept()), entry.kept());
            self.order.remove(&at);
            self.tombstones.remove(&at);
        } else {
            self.namespaces.change(entry.app.namespace(), None, entry.kept());
            self.entries.insert(change.app.clone(), entry.clone());
        }
        self.fleet.add(&change.head);
        let at = (entry.bucket, entry.position);
        self.order.insert(at, entry.clone());
        if entry.is_deleted() {
            self.tombstones.insert(at, entry.app.clone());
        }
        entry
    }

    /// Returns entries and tombstones of one namespace or of all, by name after `after`.
    pub(super) fn range<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<&AppName>,
    ) -> impl Iterator<Item = &'a Arc<Entry>> {
        // The least possible name: names begin with a letter or a digit. An invalid namespace has
        // no applications.
        let first = namespace.map(|n| AppName::new(n, "0"));
        let is_invalid = matches!(first, Some(Err(_)));
        let first = first.and_then(Result::ok).filter(|first| after.is_none_or(|a| a < first));
        let from = match (&first, after) {
            (Some(first), _) => Included(first),
            (None, Some(after)) => Excluded(after),
            (None, None) => Unbounded,
        };
        let entries = self.entries.range::<AppName, _>((from, Unbounded)).map(|(_, entry)| entry);
        let is_other = move |e: &Entry| namespace.is_some_and(|n| e.app.namespace() != n);
        entries.take_while(move |e| !is_invalid && !is_other(e))
    }
}
