//! The simulated store as all replicas share it: what Redis with its scripts does, and a disk.
//!
//! A commit compares the version as `commit.lua` does, and all of it happens at one moment. A
//! failover drops the last commits ([`failover`](Server::failover)); the counters of the store are
//! then raised as the repair of the Redis store does it.

pub mod app;
pub mod bucket;
mod failover;
pub mod time;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bellwether::domain::app::Head;
use bellwether::domain::name::AppName;
use bellwether::domain::replay::Records;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::presence::ReplicaId;
use bellwether::store::{Broadcast, Bucket, Change, ConflictCause, Epoch, NumberedEvent, Version};

use crate::judge::Judge;

use app::App;
use bucket::{BucketCopy, BucketState, Content, Entry, Log, bucket_of};

use failover::Undo;
use time::{Answer, Ask, StoreTime};

/// Tombstones that a bucket keeps: few, so that a run prunes some.
const TOMBSTONES_MAX: usize = 4;
/// The last commits that a failover can drop.
const UNDO_MAX: usize = 24;

/// A mark of a commit: the writer and its number.
pub type Mark = (u64, u64);

/// Why a commit was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Another version is stored.
    Conflict(Revision, ConflictCause),
    /// There is no space.
    Full,
}

/// The properties of a store that a run chooses.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Whether several replicas share the store, as over Redis; otherwise it is a disk.
    pub is_shared: bool,
    /// The number of buckets.
    pub buckets: u16,
}

/// The state of the store.
pub struct Server {
    shape: Shape,
    store_id: u64,
    losses: u32,
    master: u64,
    floor: u64,
    buckets: Vec<BucketState>,
    apps: BTreeMap<AppName, App>,
    beats: BTreeMap<ReplicaId, Timestamp>,
    undo: VecDeque<Undo>,
    last_entry: u64,
    time: Timestamp,
    /// The clock of the store, and the time that replicas get.
    pub clock: StoreTime,
    /// Whether commits are refused for lack of space.
    pub is_full: bool,
    /// The checks of a run.
    pub judge: Arc<Mutex<Judge>>,
}

/// The answer to a load.
pub struct Loaded {
    /// The records.
    pub records: Records,
    /// The master that they were read from.
    pub master: u64,
    /// The loss count of the bucket.
    pub losses: u32,
}

/// The answer to a connection: what the store is now, and the buckets that differ.
pub struct Greeting {
    /// The epoch of the store.
    pub epoch: Epoch,
    /// The number of the master.
    pub master: u64,
    /// Its epoch floor.
    pub floor: u64,
    /// For each bucket a copy, if its log does not continue what the caller has.
    pub buckets: Vec<Option<BucketCopy>>,
}

impl Server {
    /// Returns an empty store.
    pub fn new(shape: Shape, store_id: u64, time: Timestamp, judge: Arc<Mutex<Judge>>) -> Server {
        Server {
            shape,
            store_id,
            losses: 0,
            master: 1,
            floor: 0,
            buckets: (0..shape.buckets).map(|_| BucketState::default()).collect(),
            apps: BTreeMap::new(),
            beats: BTreeMap::new(),
            undo: VecDeque::new(),
            last_entry: 0,
            time,
            clock: StoreTime::new(time),
            is_full: false,
            judge,
        }
    }

    /// Answers a replica that asks for the time.
    pub fn tell_time(&mut self, ask: Ask) -> Answer {
        // A replica cannot act on a store that refuses commits.
        let answer = self.clock.ask(Ask { acts: ask.acts && !self.is_full, ..ask });
        crate::lock(&self.judge).uptime.on_time(&answer);
        if ask.known == Timestamp::default() {
            // A replica that starts takes over the clock, unless another one knows the time.
            crate::lock(&self.judge).allow_ahead(answer.time.since(self.time));
        }
        answer
    }

    /// Moves the time of the world forward.
    pub fn advance(&mut self, millis: u64) {
        self.time = Timestamp::new(self.time.millis() + millis);
        self.clock.advance(millis);
    }

    /// Returns the epoch.
    pub fn epoch(&self) -> Epoch {
        Epoch { store_id: self.store_id, losses: self.losses }
    }

    /// Returns the bucket of an application.
    pub fn bucket_of(&self, app: &AppName) -> Bucket {
        bucket_of(app, self.shape.buckets)
    }

    /// Returns the applications with their records.
    pub fn apps(&self) -> &BTreeMap<AppName, App> {
        &self.apps
    }

    fn bucket(&self, bucket: Bucket) -> &BucketState {
        &self.buckets[usize::from(bucket.0)]
    }

    fn bucket_mut(&mut self, bucket: Bucket) -> &mut BucketState {
        &mut self.buckets[usize::from(bucket.0)]
    }

    /// Returns the newest head of an application; an empty one if it is unknown.
    pub fn head(&self, app: &AppName) -> Arc<Head> {
        match self.apps.get(app) {
            Some(known) => known.head.clone(),
            None => Arc::new(Head::empty(self.bucket(self.bucket_of(app)).floor)),
        }
    }

    /// Reads an application.
    pub fn load(&self, app: &AppName) -> Loaded {
        let mut records = match self.apps.get(app) {
            Some(known) => known.records(),
            None => Records::of_head((*self.head(app)).clone()),
        };
        records.epoch_floor = self.floor;
        let losses = self.bucket(self.bucket_of(app)).losses;
        Loaded { records, master: self.master, losses }
    }

    /// Compares a version with the newest one.
    pub fn compare(&self, app: &AppName, version: Version) -> Result<(), Refusal> {
        let head = self.head(app);
        let cause = match version {
            _ if version.epoch_floor != self.floor => ConflictCause::Master,
            _ if version.revision != head.revision => ConflictCause::Revision,
            _ if version.quiet_commits != head.quiet_commits => ConflictCause::QuietCommits,
            _ => return Ok(()),
        };
        Err(Refusal::Conflict(head.revision, cause))
    }

    /// Commits a transition: all of it, or nothing. Returns the entry of the log, if there is one.
    pub fn commit(
        &mut self,
        mark: Mark,
        transition: &Arc<Transition>,
    ) -> Result<Option<u64>, Refusal> {
        let (app, (writer, number)) = (&transition.app, mark);
        let known = self.apps.get(app);
        let done = known.and_then(|known| known.marks.get(&writer)).copied();
        // Sent again: the first answer.
        if let Some((_, entry)) = done.filter(|(last, _)| *last == number) {
            return Ok(entry);
        }
        let Transition { base, base_quiet, epoch_floor, .. } = **transition;
        let current = self.head(app).revision;
        if self.shape.is_shared {
            let version = Version { revision: base, quiet_commits: base_quiet, epoch_floor };
            self.compare(app, version)?;
            if done.is_some_and(|(last, _)| number < last) {
                return Err(Refusal::Conflict(current, ConflictCause::Overtaken));
            }
            if known.is_some_and(|known| known.has_answered(transition)) {
                return Err(Refusal::Conflict(current, ConflictCause::Request));
            }
        } else if base != current {
            return Err(Refusal::Conflict(current, ConflictCause::Revision));
        }
        if !transition.is_durable() || (!transition.moves_revision() && known.is_none()) {
            return Ok(None);
        }
        if self.is_full {
            return Err(Refusal::Full);
        }
        Ok(self.apply(mark, transition))
    }

    fn apply(&mut self, (writer, number): Mark, transition: &Arc<Transition>) -> Option<u64> {
        let name = &transition.app;
        let bucket = self.bucket_of(name);
        let is_told = transition.moves_revision();
        let losses = self.bucket(bucket).losses;
        let judge = self.judge.clone();
        crate::lock(&judge).on_commit(self.apps.get(name), transition, losses, self.time);
        let before = self.apps.get(name).map(|app| (app.position, app.head.clone()));
        let app = self.apps.entry(name.clone()).or_default();
        let marks = app.marks.clone();
        let cleared = transition.is_deletion().then(|| app.clear());
        let inverse: Vec<Write> = transition.writes.iter().map(|write| app.write(write)).collect();
        let numbered = (transition.first_event()..).zip(transition.events.iter().cloned());
        app.events.extend(numbered.map(|(number, event)| NumberedEvent { number, event }));
        app.head = transition.head.clone();
        let mut entry = None;
        if is_told {
            entry = Some(self.tell(name, bucket, Some(transition.clone())));
        }
        if let Some(app) = self.apps.get_mut(name) {
            app.marks.insert(writer, (number, entry));
            app.trim();
        }
        let first_event = transition.first_event();
        let name = name.clone();
        let undo = Undo { name, before, inverse, cleared, entry, first_event, marks };
        self.undo.push_back(undo);
        if UNDO_MAX < self.undo.len() {
            self.undo.pop_front();
        }
        entry
    }

    /// Gives the newest head of an application the next position, and writes it to the log.
    fn tell(&mut self, name: &AppName, bucket: Bucket, transition: Option<Arc<Transition>>) -> u64 {
        let state = &mut self.buckets[usize::from(bucket.0)];
        let Some(app) = self.apps.get_mut(name) else { return self.last_entry };
        state.order.remove(&app.position);
        state.last.0 += 1;
        app.position = state.last;
        state.order.insert(app.position, name.clone());
        let (position, head) = (app.position, app.head.clone());
        crate::lock(&self.judge).on_position(name, bucket, position, &head);
        let change = Change { app: name.clone(), bucket, position, head, transition };
        let pruned = self.prune(bucket);
        self.log(bucket, Content::Change(change, pruned))
    }

    /// Prunes the oldest tombstones. Returns the position and the revision floor after it.
    fn prune(&mut self, bucket: Bucket) -> Option<(bellwether::store::Position, Revision)> {
        let state = &self.buckets[usize::from(bucket.0)];
        let is_gone = |name: &AppName| self.apps.get(name).is_some_and(|app| app.head.deleted);
        let gone: Vec<_> = state.order.iter().filter(|(_, name)| is_gone(name)).collect();
        let surplus = gone.len().saturating_sub(TOMBSTONES_MAX);
        let gone: Vec<_> = gone.into_iter().take(surplus).map(|(at, n)| (*at, n.clone())).collect();
        let mut pruned = None;
        for (position, name) in gone {
            let revision = self.apps.remove(&name).map_or(Revision(0), |app| app.head.revision);
            let state = self.bucket_mut(bucket);
            state.order.remove(&position);
            state.forgotten = state.forgotten.max(position);
            state.floor = state.floor.max(revision);
            pruned = Some((state.forgotten, state.floor));
        }
        pruned
    }

    fn log(&mut self, bucket: Bucket, content: Content) -> u64 {
        self.last_entry += 1;
        let id = self.last_entry;
        self.bucket_mut(bucket).append(Entry { id, content });
        id
    }

    /// Writes a message to the log.
    pub fn broadcast(&mut self, notice: Broadcast) {
        let bucket = self.bucket_of(&notice.app);
        self.log(bucket, Content::Broadcast(notice));
    }

    /// Records a sign of life, and returns all.
    pub fn beat(&mut self, replica: ReplicaId, now: Timestamp) -> BTreeMap<ReplicaId, Timestamp> {
        self.beats.insert(replica, now);
        self.beats.retain(|_, at| now.since(*at) <= bellwether::store::REPLICA_FORGOTTEN_AFTER);
        self.beats.clone()
    }

    /// Greets a replica that connects and has these cursors and loss counts.
    pub fn greet(&self, seen: &[(u64, u32)]) -> Greeting {
        let numbered = (0..).map(Bucket).zip(&self.buckets);
        let copy = |(bucket, state): (Bucket, &BucketState)| {
            let seen = seen.get(usize::from(bucket.0)).copied();
            let goes_on = seen
                .is_some_and(|(cursor, losses)| losses == state.losses && state.continues(cursor));
            (!goes_on).then(|| self.copy(state))
        };
        let buckets = numbered.map(copy).collect();
        Greeting { epoch: self.epoch(), master: self.master, floor: self.floor, buckets }
    }

    fn copy(&self, state: &BucketState) -> BucketCopy {
        let heads = state.order.iter().filter_map(|(position, name)| {
            Some((name.clone(), *position, self.apps.get(name)?.head.clone()))
        });
        let heads = heads.collect();
        let cursor = state.log.back().map_or(self.last_entry, |entry| entry.id);
        BucketCopy {
            heads,
            last: state.last,
            forgotten: state.forgotten,
            floor: state.floor,
            losses: state.losses,
            cursor,
        }
    }

    /// Reads the logs after these cursors; an error names another master or a gap.
    pub fn read(&self, master: u64, cursors: &[u64]) -> Result<Vec<Log>, ()> {
        if master != self.master {
            return Err(());
        }
        let logs = self.buckets.iter().zip(cursors).map(|(state, cursor)| state.after(*cursor));
        logs.collect::<Option<Vec<Log>>>().ok_or(())
    }
}
