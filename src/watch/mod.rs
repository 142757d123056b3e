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
//! changes, conflation, resume and slow readers are one mechanism: reading on from a place.
//!
//! Locks: the hub's, then a group's; held for one change, one batch or one page, never while
//! waiting. The first watcher of a filter holds the hub's for as long as it takes to index what is
//! in scope.

mod bell;
mod digest;
mod entry;
mod error;
mod filter;
mod fleet;
mod group;
mod groups;
mod index;
mod settle;
mod token;
mod wait;
mod watcher;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

pub use digest::{Digest, mark};
pub use entry::Entry;
pub use error::{Expired, WatchError};
pub use filter::{Filter, Scope};
pub use fleet::Fleet;
pub use token::Token;
pub use watcher::{Event, Item, Watcher};

use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::status::Level;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Change, Epoch, Follower, Position};
use entry::StoreClock;
use group::Group;
use groups::Groups;
use wait::{Wait, Waits};
use watcher::Seat;

/// Entries that a list looks at before it lets others have the hub.
const LIST_BATCH: usize = 1024;

/// Bounds of watching, and its rhythm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Watchers at the same time.
    pub watchers_max: usize,
    /// Applications indexed by all different filters together, as of when each was first used.
    pub indexed_max: usize,
    /// A watcher that is current is told so this often.
    pub bookmark_period: Duration,
    /// What a watcher takes at a time, at least 1.
    pub batch_max: usize,
}

impl Default for Limits {
    /// Two million entries of about 300 bytes: twenty filters over a fleet of 100,000, or any
    /// number of small ones. 4 s, so that 5 s are kept with a second for the way. 256: enough that
    /// the lock does not count, little enough that nobody waits for it, and all that a slow reader
    /// keeps in memory.
    fn default() -> Limits {
        Limits {
            watchers_max: 100_000,
            indexed_max: 2_000_000,
            bookmark_period: Duration::from_secs(4),
            batch_max: 256,
        }
    }
}

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With everything that is there.
    Snapshot,
    /// After what was told before.
    Resume(Token),
}

/// The newest state of every application, and who wants to be told of it.
#[derive(Debug)]
pub struct Hub {
    epoch: Epoch,
    limits: Limits,
    clock: StoreClock,
    /// All changes up to here have reached the groups.
    position: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Tombstones too.
    entries: BTreeMap<AppName, Arc<Entry>>,
    tombstones: BTreeMap<Position, AppName>,
    forgotten: Position,
    fleet: Fleet,
    groups: Groups,
    waits: Waits,
}

impl Hub {
    /// Knows nothing yet: to be given to [`Store::follow`](crate::store::Store::follow).
    pub fn new(epoch: Epoch, limits: Limits) -> Hub {
        Hub {
            epoch,
            limits,
            clock: StoreClock::default(),
            position: AtomicU64::new(0),
            state: Mutex::default(),
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
    pub async fn wait_for(&self, app: &AppName, revision: Revision) {
        if let Some(mut wait) = Wait::new(&self.state, app, revision) {
            wait.reached(revision).await;
        }
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

    /// All changes up to here are known.
    pub fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    /// The history that positions belong to.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Follows what a filter shows. Within a runtime.
    pub fn watch(self: &Arc<Self>, filter: Filter, start: Start) -> Result<Watcher, WatchError> {
        if let Start::Resume(token) = &start {
            token.verify(self.epoch, filter.fingerprint())?;
        }
        let now = Instant::now();
        let mut state = self.locked();
        let max = self.limits.watchers_max;
        if max <= state.groups.watcher_count() {
            return Err(WatchError::TooManyWatchers { max });
        }
        let position = self.position();
        if let Start::Resume(Token { position: from, .. }) = start
            && (from < state.forgotten || position < from)
        {
            return Err(Expired.into());
        }
        let group = match state.groups.find(&filter) {
            Some(group) => group,
            None => Arc::new(self.new_group(&state, filter, now)?),
        };
        state.groups.join(&group);
        drop(state);
        let hub = self.clone();
        Ok(Watcher::new(Seat { hub, group }, start, position, now))
    }

    /// Holds the hub for as long as it takes to index what is in scope: milliseconds for a fleet of
    /// 10,000.
    fn new_group(&self, state: &State, filter: Filter, now: Instant) -> Result<Group, WatchError> {
        let scope = filter.scope.clone();
        let position = self.position();
        let group = match &scope {
            Scope::All => Group::new(filter, state.range(None, None), position, now),
            Scope::Namespace(namespace) => {
                Group::new(filter, state.range(Some(namespace), None), position, now)
            }
            Scope::Applications(apps) => {
                let entries = apps.iter().filter_map(|app| state.entries.get(app));
                Group::new(filter, entries, position, now)
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
}

impl Follower for Hub {
    fn changed(&self, change: &Change) {
        let now = Instant::now();
        let mut state = self.locked();
        if change.position <= self.position() {
            return; // known: a store may tell twice after it was cut off
        }
        let before = state.entries.get(&change.app).map(Arc::as_ref);
        let entry = Arc::new(Entry::after(before, change, self.clock, now));
        state.put(&entry);
        let concerned = state.groups.concerned(&entry.app);
        concerned.for_each(|group| group.changed(&entry, now));
        self.position.store(change.position.0, Ordering::Release);
        state.waits.tell(&entry.app, change.head.revision);
    }

    fn forgotten(&self, _: Bucket, up_to: Position) {
        let mut state = self.locked();
        state.forgotten = state.forgotten.max(up_to);
        let kept = state.tombstones.split_off(&Position(up_to.0.saturating_add(1)));
        let forgotten = std::mem::replace(&mut state.tombstones, kept);
        for app in forgotten.into_values() {
            state.entries.remove(&app);
            let concerned = state.groups.concerned(&app);
            concerned.for_each(|group| group.forget(&app));
        }
    }

    fn doubted(&self, _: Bucket, _: Epoch) {}
}

impl State {
    fn put(&mut self, entry: &Arc<Entry>) {
        if let Some(before) = self.entries.insert(entry.app.clone(), entry.clone()) {
            self.fleet.remove(&before.head);
            self.tombstones.remove(&before.position);
        }
        self.fleet.add(&entry.head);
        if entry.head.deleted {
            self.tombstones.insert(entry.position, entry.app.clone());
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
