//! Watching: the newest state of every application, for lists, counts and watchers.
//!
//! ```text
//!  Store --Change--> Hub --if in scope--> Group --reads from--> Watcher
//!                    by name              one per filter,       an offset
//!                                         with its index
//! ```
//!
//! Only the store feeds the hub, so commits of other replicas take the same path as local ones.
//! The index of a group holds each application once, at the offset of its last change. Snapshots,
//! changes, conflation and slow watchers use one mechanism: a watcher reads on from its offset.
//!
//! A store orders its changes by bucket, and replicas see the buckets interleaved differently. So
//! an offset is valid in one group only; a resume token has a cursor for each bucket instead.
//!
//! # After a disconnect
//!
//! A reader that resumes with its last token, on any replica of the store, receives:
//!
//! 1. One item for each application in scope that changed after the token: `Upserted` with the
//!    newest state if the filter shows it, otherwise `Removed`, even if the reader never knew it.
//!    States in between are neither sent nor counted in `coalesced`. A state may come twice, and
//!    after a failover with the revision of a lost one. A level that `stable_for` still delays
//!    comes when it has held, or immediately if the filter is new on this replica.
//! 2. A bookmark as soon as no change is left: the reader checks its copy by count and digest.
//! 3. Every later change.
//!
//! If this replica is behind the token, the watch waits for it, and ends with
//! [`ResumeError::Behind`] after [`Limits::catch_up_max`]: the reader tries again, at another
//! replica. `resume` judges tokens, at the start and while a watch waits. A token is refused if it
//! is from another store or filter, or older than a data loss or than pruned tombstones, or if a
//! master of the store that took over since lacks changes that the token covers. The reader then
//! watches without a token: it receives every member by name, then `SnapshotComplete`, and drops
//! whatever the snapshot does not contain.
//!
//! A data loss of the store ends only a watch that still waits for its token. Others receive the
//! differences as ordinary changes at greater positions. Older tokens are refused because their
//! reader may know states that are gone.
//!
//! Locks: first the hub's, then a group's or the cursors'. Each is held for one change, one batch
//! or one page, never while waiting. The first watcher of a filter holds the hub's while it indexes
//! the scope.

mod backlog;
mod cursors;
mod debounce;
mod digest;
mod entry;
mod error;
mod filter;
mod fleet;
mod group;
mod groups;
mod index;
mod limits;
mod masters;
mod notifier;
mod resume;
mod seen;
mod token;
mod wait;
mod watcher;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::time::Instant;

pub use cursors::Cursors;
pub use digest::{Digest, mark};
pub use entry::Entry;
pub use error::{ResumeError, WatchError};
pub use filter::{Filter, Scope};
pub use limits::Limits;
pub use seen::Coverage;
pub use token::Token;
pub use wait::WaitError;
pub use watcher::{Event, Item, Standing, Watcher};

use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Change, Epoch, Observer, Position, Takeover};
use crate::telemetry::FleetCounts;
use entry::StoreClock;
use group::Group;
use groups::Groups;
use masters::{Continuity, Masters};
use notifier::{Listener, Listeners};
use resume::{Here, Verdict, judge};
use wait::{Wait, Waits};
use watcher::Seat;

/// Entries that a list reads before it releases the hub's lock for a moment.
const LIST_BATCH: usize = 1024;

/// The start of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With a snapshot of all members.
    Snapshot,
    /// With the changes after a resume token.
    Resume(Token),
}

/// The newest state of every application, and the groups of watchers.
#[derive(Debug)]
pub struct Hub {
    limits: Limits,
    /// Whether other replicas use the store.
    is_shared: bool,
    clock: StoreClock,
    /// The cursors up to which all changes have reached the groups. Each woken watcher reads them,
    /// so they have a lock of their own: lists hold the lock of `state`.
    reached: RwLock<Reached>,
    /// Notified by each change, for watchers that wait until this replica reaches their token.
    arrived: Arc<Listeners>,
    state: Mutex<State>,
}

/// The position up to which all changes have reached the groups.
#[derive(Debug)]
struct Reached {
    epoch: Epoch,
    cursors: Arc<Cursors>,
    masters: Masters,
    /// The position up to which tombstones were pruned. Set while `state` is locked.
    forgotten: Cursors,
}

#[derive(Debug, Default)]
struct State {
    /// Applications and tombstones by name.
    entries: BTreeMap<AppName, Arc<Entry>>,
    /// The same in the order of the store.
    order: BTreeMap<(Bucket, Position), AppName>,
    tombstones: BTreeMap<(Bucket, Position), AppName>,
    /// The last change received in each bucket.
    last: Cursors,
    fleet: FleetCounts,
    groups: Groups,
    /// The value of [`Hub::groups_visited`].
    groups_visited: u64,
    waits: Waits,
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
        self.locked().entries.get(app).filter(|e| !e.head.deleted).cloned()
    }

    /// Returns the tombstone of an application whose deletion is not pruned yet.
    pub fn tombstone(&self, app: &AppName) -> Option<Arc<Entry>> {
        self.locked().entries.get(app).filter(|e| e.head.deleted).cloned()
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
        let matches = |e: &Entry| levels.is_empty() || levels.contains(&e.level());
        let mut found = Vec::new();
        let mut last = after.cloned();
        loop {
            let state = self.locked();
            let mut seen = None;
            for entry in state.range(namespace, last.as_ref()).take(LIST_BATCH) {
                if found.len() == count_max {
                    return found;
                }
                if !entry.head.deleted && matches(entry) {
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

    /// Waits until the hub has an application, or its tombstone, at this revision or a later one.
    /// There is no time limit: the caller has a deadline.
    pub async fn wait_for(&self, app: &AppName, revision: Revision) -> Result<(), WaitError> {
        match Wait::new(&self.state, app, revision, self.limits.waits_max)? {
            Some(mut wait) => wait.reached().await,
            None => Ok(()),
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

    /// Watches with a filter. Must be called within a runtime.
    pub fn watch(self: &Arc<Self>, filter: Filter, start: Start) -> Result<Watcher, WatchError> {
        self.watch_from(None, filter, start)
    }

    /// Watches for a reader at this address.
    pub fn watch_from(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
        filter: Filter,
        start: Start,
    ) -> Result<Watcher, WatchError> {
        let now = Instant::now();
        // Tokens of earlier versions have the fingerprint of the filter before rounding.
        let asked = filter.fingerprint();
        let filter = filter.of_group();
        let fingerprint = filter.fingerprint();
        let mut state = self.locked();
        if let Start::Resume(token) = &start {
            self.admit(token, [asked, fingerprint])?;
        }
        let max = self.limits.watchers_max;
        if max <= state.groups.watchers {
            return Err(WatchError::TooManyWatchers(max));
        }
        let group = match state.groups.find(&filter) {
            Some(group) => group,
            None => Arc::new(self.new_group(&state, filter, peer, now)?),
        };
        state.groups.join(&group);
        let known = self.cursors();
        drop(state);
        let hub = self.clone();
        Ok(Watcher::new(Seat { hub, group, fingerprint }, start, known, now))
    }

    /// Checks whether a reader can resume here, now or after a wait, with one of these filters.
    fn admit(&self, token: &Token, fingerprints: [u64; 2]) -> Result<(), WatchError> {
        match self.judge(token) {
            Verdict::Refuse(why) => Err(why.into()),
            _ if fingerprints.contains(&token.filter) => Ok(()),
            Verdict::Continue | Verdict::Wait => Err(WatchError::OtherFilters),
        }
    }

    /// Judges a token by what this replica knows now.
    fn judge(&self, token: &Token) -> Verdict {
        let Reached { epoch, cursors, masters, forgotten } = &*self.reached();
        let (epoch, is_shared) = (*epoch, self.is_shared);
        judge(token, Here { epoch, cursors, masters, forgotten, is_shared })
    }

    /// Returns a listener for each change from now on.
    fn listen(&self) -> Listener {
        Listener::new(&self.arrived)
    }

    /// Wakes every watcher, for a reason outside of the hub.
    pub fn wake(&self) {
        self.locked().groups.iter().for_each(|group| group.notifier.notify());
        self.arrived.wake();
    }

    /// Creates a group. The caller holds the hub's lock while the scope is indexed: milliseconds
    /// for 10,000 applications.
    fn new_group(
        &self,
        state: &State,
        filter: Filter,
        peer: Option<IpAddr>,
        now: Instant,
    ) -> Result<Group, WatchError> {
        state.groups.check_quota_of(&filter.scope, peer, &self.limits)?;
        let group = match &filter.scope {
            Scope::All => Group::new(&filter, peer, state.range(None, None), now),
            Scope::Namespace(name) => Group::new(&filter, peer, state.range(Some(name), None), now),
            Scope::Applications(apps) => {
                let entries = apps.iter().filter_map(|app| state.entries.get(app));
                Group::new(&filter, peer, entries, now)
            }
        };
        let max = self.limits.indexed_max;
        if max < state.groups.indexed + group.indexed {
            return Err(WatchError::TooManyFilters(max));
        }
        Ok(group)
    }

    fn leave(&self, group: &Arc<Group>) {
        // The caller holds the group itself, so that an index is freed after the lock.
        if let Ok(mut state) = self.state.lock() {
            state.groups.leave(group);
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it is held")
    }

    fn reached(&self) -> RwLockReadGuard<'_, Reached> {
        self.reached.read().expect("nothing panics while it is held")
    }

    fn reached_mut(&self) -> RwLockWriteGuard<'_, Reached> {
        self.reached.write().expect("nothing panics while it is held")
    }

    /// Records that all changes of a bucket up to this position have reached the groups.
    fn arrive(&self, bucket: Bucket, position: Position) {
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
        let entry = state.put(change, self.clock, now);
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

    fn on_data_loss(&self, _: Bucket, epoch: Epoch) {
        // Under the lock, to keep the order: the changes that the loss caused were passed on
        // before.
        let _state = self.locked();
        let mut reached = self.reached_mut();
        reached.epoch = reached.epoch.max(epoch);
        drop(reached);
        self.arrived.wake();
    }

    fn on_takeovers(&self, bucket: Bucket, takeovers: &[Takeover]) {
        let Reached { cursors, masters, .. } = &mut *self.reached_mut();
        masters.set(bucket, takeovers);
        // The new master has everything that the hub has, so what follows is read from it. If not,
        // it may lack changes until it is compared.
        if let Some(newest) = takeovers.last()
            && masters.judge_bucket(bucket, cursors) == Continuity::Continued
        {
            Arc::make_mut(cursors).set_floor(bucket, newest.epoch_floor);
        }
        self.arrived.wake();
    }

    fn on_epoch_floor(&self, bucket: Bucket, epoch_floor: u64) {
        let cursors = &mut self.reached_mut().cursors;
        Arc::make_mut(cursors).set_floor(bucket, epoch_floor);
        self.arrived.wake();
    }
}

impl State {
    /// Takes the newest state of an application over, and returns it.
    fn put(&mut self, change: &Change, clock: StoreClock, now: Instant) -> Arc<Entry> {
        let mut known = self.entries.get_mut(&change.app);
        let before = known.as_ref().map(|entry| &***entry);
        let entry = Arc::new(Entry::after(before, change, clock, now));
        if let Some(known) = &mut known {
            let before = std::mem::replace(*known, entry.clone());
            let at = (before.bucket, before.position);
            self.fleet.remove(&before.head);
            self.order.remove(&at);
            self.tombstones.remove(&at);
        } else {
            self.entries.insert(change.app.clone(), entry.clone());
        }
        self.fleet.add(&entry.head);
        let at = (entry.bucket, entry.position);
        self.order.insert(at, entry.app.clone());
        if entry.head.deleted {
            self.tombstones.insert(at, entry.app.clone());
        }
        entry
    }

    /// Returns entries and tombstones of one namespace or of all, by name after `after`.
    fn range<'a>(
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
