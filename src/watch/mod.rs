//! Following: the newest state of every application, for lists, counts and watchers.
//!
//! ```text
//!  Store --Change--> Hub --if in scope--> Group --read on--> Watcher
//!                    by name              one a filter       a cursor
//!                                         with its index
//! ```
//!
//! The hub is fed by the store alone, so another replica's commit comes by the same path as ours.
//! In the index of a group each application stands once, at the place of its last change. Snapshot,
//! changes, conflation and slow readers are one mechanism: reading on from a place.
//!
//! A store orders its changes by bucket, and replicas see the buckets interleaved differently. So
//! a place is good in one group only, and a resume token has a cursor for each bucket: on any
//! replica its reader is told what stands after them, then follows.
//!
//! When the store may have lost writes, the differences come as changes like any other, at
//! positions above those known; only tokens from before are refused, whose reader may know what is
//! gone.
//!
//! Locks: the hub's, then a group's or the cursors'; held for one change, one batch or one page,
//! never while waiting. The first watcher of a filter holds the hub's for as long as it takes to
//! index what is in scope.

mod bell;
mod cursors;
mod digest;
mod entry;
mod error;
mod filter;
mod fleet;
mod group;
mod groups;
mod index;
mod limits;
mod missed;
mod settle;
mod token;
mod wait;
mod watcher;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::time::Instant;

pub use cursors::Cursors;
pub use digest::{Digest, mark};
pub use entry::Entry;
pub use error::{Expired, WatchError};
pub use filter::{Filter, Scope};
pub use fleet::Fleet;
pub use limits::Limits;
pub use token::Token;
pub use wait::WaitError;
pub use watcher::{Event, Item, Standing, Watcher};

use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::status::Level;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Change, Epoch, Follower, Position};
use bell::{Listener, Listeners};
use entry::StoreClock;
use group::Group;
use groups::Groups;
use wait::{Wait, Waits};
use watcher::Seat;

/// Entries that a list looks at before it lets others have the hub.
const LIST_BATCH: usize = 1024;

/// Where a watch begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With everything that is there.
    Snapshot,
    /// After what was told before.
    Resume(Token),
}

/// The newest state of every application, and who wants to be told of it.
#[derive(Debug)]
pub struct Hub {
    limits: Limits,
    clock: StoreClock,
    /// What has reached the groups. Read by each watcher that is woken, so not behind the lock
    /// that lists hold.
    reached: RwLock<Reached>,
    /// Heard by readers who wait until what they know is known here.
    arrived: Arc<Listeners>,
    state: Mutex<State>,
}

/// Up to where all changes have reached the groups.
#[derive(Debug)]
struct Reached {
    epoch: Epoch,
    cursors: Arc<Cursors>,
}

#[derive(Debug)]
struct State {
    /// Tombstones too.
    entries: BTreeMap<AppName, Arc<Entry>>,
    /// The same in the orders of the store.
    order: BTreeMap<(Bucket, Position), AppName>,
    tombstones: BTreeMap<(Bucket, Position), AppName>,
    /// The last change told in each bucket.
    last: Cursors,
    forgotten: Cursors,
    fleet: Fleet,
    groups: Groups,
    /// See [`Hub::groups_visited`].
    groups_visited: u64,
    waits: Waits,
}

impl Hub {
    /// Knows nothing yet of a store with so many buckets: to be given to
    /// [`Store::follow`](crate::store::Store::follow).
    pub fn new(epoch: Epoch, buckets: u16, limits: Limits) -> Hub {
        let cursors = Arc::new(Cursors::new(buckets));
        Hub {
            limits,
            clock: StoreClock::default(),
            reached: RwLock::new(Reached { epoch, cursors }),
            arrived: Arc::default(),
            state: Mutex::new(State::new(buckets)),
        }
    }

    /// Told the time by the store's clock, so that `stable_for` knows how old a level is that was
    /// there before this process. Without it, such a level is as old as the hub's knowledge of it.
    #[must_use]
    pub fn with_time(mut self, now: Timestamp) -> Hub {
        self.clock = StoreClock::reads(now, Instant::now());
        self
    }

    /// The newest state of an application.
    pub fn get(&self, app: &AppName) -> Option<Arc<Entry>> {
        let state = self.locked();
        let entry = state.entries.get(app).filter(|e| !e.head.deleted);
        entry.cloned()
    }

    /// What is left of an application that was deleted not long ago.
    pub fn tombstone(&self, app: &AppName) -> Option<Arc<Entry>> {
        self.locked().entries.get(app).filter(|e| e.head.deleted).cloned()
    }

    /// Up to `count_max` applications after `after`, by namespace and name; of one namespace only,
    /// and at one of these levels only unless there are none.
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
            let range = state.range(namespace, last.as_ref()).take(LIST_BATCH);
            let mut seen = None;
            for entry in range {
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

    /// Waits until an application is known at this revision or a later one, also as deleted. For as
    /// long as it takes: the caller has a deadline.
    pub async fn wait_for(&self, app: &AppName, revision: Revision) -> Result<(), WaitError> {
        match Wait::new(&self.state, app, revision, self.limits.waits_max)? {
            Some(mut wait) => wait.reached().await,
            None => Ok(()),
        }
    }

    /// Ends all waits for revisions, also those to come: the server stops.
    pub fn end_waits(&self) {
        self.locked().waits.end();
    }

    /// Counts over all applications.
    pub fn fleet(&self) -> Fleet {
        self.locked().fleet
    }

    /// How many applications there are.
    pub fn application_count(&self) -> usize {
        let state = self.locked();
        state.entries.len() - state.tombstones.len()
    }

    /// How many watchers there are.
    pub fn watcher_count(&self) -> usize {
        self.locked().groups.watcher_count()
    }

    /// How many different filters they watch with.
    pub fn group_count(&self) -> usize {
        self.locked().groups.len()
    }

    /// How many filters changes were held against since the start: what watching adds to commits.
    pub fn groups_visited(&self) -> u64 {
        self.locked().groups_visited
    }

    /// All changes up to here are known.
    pub fn cursors(&self) -> Arc<Cursors> {
        self.reached().cursors.clone()
    }

    /// The history that positions belong to. Moves when the store may have lost writes.
    pub fn epoch(&self) -> Epoch {
        self.reached().epoch
    }

    /// Follows what a filter shows. Within a runtime.
    pub fn watch(self: &Arc<Self>, filter: Filter, start: Start) -> Result<Watcher, WatchError> {
        self.watch_from(None, filter, start)
    }

    /// The same for a reader at this address.
    pub fn watch_from(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
        filter: Filter,
        start: Start,
    ) -> Result<Watcher, WatchError> {
        let now = Instant::now();
        // Tokens of earlier versions name the filter as it was asked for.
        let asked = filter.fingerprint();
        let filter = filter.of_group();
        let fingerprint = filter.fingerprint();
        let mut state = self.locked();
        if let Start::Resume(token) = &start {
            let expected = if token.filter == asked { asked } else { fingerprint };
            self.admit(&state, token, expected)?;
        }
        let max = self.limits.watchers_max;
        if max <= state.groups.watcher_count() {
            return Err(WatchError::TooManyWatchers { max });
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

    /// Whether a reader can go on here. One that knows more than we do comes from another replica,
    /// if there can be one, and may wait for what it knows.
    fn admit(&self, state: &State, token: &Token, fingerprint: u64) -> Result<(), WatchError> {
        let Reached { epoch, cursors } = &*self.reached();
        let has_replicas = 1 < cursors.buckets();
        let expected = match has_replicas && token.is_after(*epoch) {
            true => token.epoch,
            false => *epoch,
        };
        token.verify(expected, fingerprint)?;
        if token.cursors.buckets() != cursors.buckets() {
            return Err(WatchError::OtherStore);
        }
        let first = Bucket::default();
        let is_known = cursors.reach(&token.cursors, first);
        match token.cursors.reach(&state.forgotten, first) && (is_known || has_replicas) {
            true => Ok(()),
            false => Err(Expired.into()),
        }
    }

    /// Whether all changes up to these cursors are known here, in the history they belong to.
    fn knows(&self, epoch: Epoch, cursors: &Cursors) -> Result<bool, Expired> {
        let here = self.reached();
        match here.epoch.losses <= epoch.losses {
            true => Ok(here.epoch == epoch && here.cursors.reach(cursors, Bucket::default())),
            // There was a loss while it waited.
            false => Err(Expired),
        }
    }

    /// Hears of each change from now on.
    fn listen(&self) -> Listener {
        Listener::new(&self.arrived)
    }

    /// Wakes every watcher, for a reason that is none of the hub's.
    pub fn wake(&self) {
        self.locked().groups.iter().for_each(|group| group.bell.ring());
        self.arrived.wake();
    }

    /// Holds the hub for as long as it takes to index what is in scope: milliseconds for a fleet of
    /// 10,000.
    fn new_group(
        &self,
        state: &State,
        filter: Filter,
        peer: Option<IpAddr>,
        now: Instant,
    ) -> Result<Group, WatchError> {
        let scope = filter.scope.clone();
        state.groups.check_room(&scope, peer, &self.limits)?;
        let group = match &scope {
            Scope::All => Group::new(filter, peer, state.range(None, None), now),
            Scope::Namespace(namespace) => {
                Group::new(filter, peer, state.range(Some(namespace), None), now)
            }
            Scope::Applications(apps) => {
                let entries = apps.iter().filter_map(|app| state.entries.get(app));
                Group::new(filter, peer, entries, now)
            }
        };
        let max = self.limits.indexed_max;
        if max < state.groups.indexed() + group.indexed {
            return Err(WatchError::TooManyFilters { max });
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

    /// Up to here all changes of a bucket have reached the groups.
    fn arrive(&self, bucket: Bucket, position: Position) {
        let mut reached = self.reached_mut();
        // Cut loose only if a watcher holds on to them: eight bytes a bucket.
        Arc::make_mut(&mut reached.cursors).advance(bucket, position);
        drop(reached);
        self.arrived.wake();
    }
}

impl Follower for Hub {
    fn changed(&self, change: &Change) {
        let now = Instant::now();
        let mut state = self.locked();
        if change.position <= state.last.of(change.bucket) {
            return; // known: a store may tell twice after it was cut off
        }
        state.last.set(change.bucket, change.position);
        let before = state.entries.get(&change.app).map(Arc::as_ref);
        let entry = Arc::new(Entry::after(before, change, self.clock, now));
        state.put(&entry);
        let concerned = state.groups.concerned(&entry.app);
        let visited = concerned.map(|group| group.changed(&entry, now)).count();
        state.groups_visited += visited as u64;
        self.arrive(change.bucket, change.position);
        state.waits.tell(&entry.app, change.head.revision);
    }

    fn forgotten(&self, bucket: Bucket, up_to: Position) {
        let mut state = self.locked();
        state.forgotten.advance(bucket, up_to);
        let range = (bucket, Position::default())..=(bucket, up_to);
        let gone: Vec<_> = state.tombstones.range(range).map(|(at, _)| *at).collect();
        for at in gone {
            let Some(app) = state.tombstones.remove(&at) else {
                continue;
            };
            state.order.remove(&at);
            state.entries.remove(&app);
            let concerned = state.groups.concerned(&app);
            concerned.for_each(|group| group.forget(&app));
        }
        // Nothing before is left to be told, also if the last of it never was.
        self.arrive(bucket, up_to);
    }

    fn doubted(&self, _: Bucket, epoch: Epoch) {
        // In the order of changes: what the loss changed has been told before.
        let _state = self.locked();
        let mut reached = self.reached_mut();
        reached.epoch = reached.epoch.max(epoch);
        drop(reached);
        self.arrived.wake();
    }
}

impl State {
    fn new(buckets: u16) -> State {
        State {
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            last: Cursors::new(buckets),
            forgotten: Cursors::new(buckets),
            fleet: Fleet::default(),
            groups: Groups::default(),
            groups_visited: 0,
            waits: Waits::default(),
        }
    }

    fn put(&mut self, entry: &Arc<Entry>) {
        if let Some(before) = self.entries.insert(entry.app.clone(), entry.clone()) {
            let at = (before.bucket, before.position);
            self.fleet.remove(&before.head);
            self.order.remove(&at);
            self.tombstones.remove(&at);
        }
        self.fleet.add(&entry.head);
        let at = (entry.bucket, entry.position);
        self.order.insert(at, entry.app.clone());
        if entry.head.deleted {
            self.tombstones.insert(at, entry.app.clone());
        }
    }

    /// What is known, of one namespace or of all, by name after `after`. Tombstones too.
    fn range<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<&AppName>,
    ) -> impl Iterator<Item = &'a Arc<Entry>> {
        // The least name there is: names begin with a letter or a digit. A namespace that is no
        // name has no applications.
        let first = namespace.map(|n| AppName::new(n, "0"));
        let none = matches!(first, Some(Err(_)));
        let first = first.and_then(Result::ok);
        let range = match (first, after) {
            (Some(first), Some(after)) if *after < first => self.entries.range(first..),
            (Some(first), None) => self.entries.range(first..),
            (_, Some(after)) => self.entries.range::<AppName, _>((Excluded(after), Unbounded)),
            (None, None) => self.entries.range::<AppName, _>(..),
        };
        range
            .map(|(_, entry)| entry)
            .take_while(move |e| !none && namespace.is_none_or(|n| e.app.namespace() == n))
    }
}
