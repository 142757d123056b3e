//! The simulated disk of one process: commits are applied one after the other, and none is lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bellwether::domain::app::Head;
use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::replay::Records;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::store::{Bucket, Change, Epoch, NumberedEvent, Position};

use crate::judge::Judge;

use super::app::App;
use super::time::{Answer, Ask, StoreTime};

/// Tombstones that a disk keeps: few, so that a run prunes some.
const TOMBSTONES_MAX: usize = 4;

/// Why a commit was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Another revision is stored.
    Conflict(Revision),
    /// There is no space.
    Full,
}

/// A commit that was applied: its change, and the position and revision floor of pruned tombstones.
#[derive(Debug, Clone)]
pub struct DiskCommit {
    /// The change, if the revision moved.
    pub change: Option<Change>,
    /// What was pruned.
    pub pruned: Option<(Position, Revision)>,
}

/// What a process finds when it starts.
pub struct Found {
    /// The epoch.
    pub epoch: Epoch,
    /// The heads by position.
    pub heads: Vec<Change>,
    /// The position up to which tombstones are pruned.
    pub forgotten: Position,
}

/// The state of the disk.
pub struct Disk {
    store_id: u64,
    apps: BTreeMap<AppName, App>,
    order: BTreeMap<Position, AppName>,
    last: Position,
    forgotten: Position,
    floor: Revision,
    time: Timestamp,
    /// The clock of the machine, and the time of the store.
    pub clock: StoreTime,
    /// Whether commits are refused for lack of space.
    pub is_full: bool,
    judge: Arc<Mutex<Judge>>,
}

impl Disk {
    /// Returns an empty disk.
    pub fn new(store_id: u64, time: Timestamp, judge: Arc<Mutex<Judge>>) -> Disk {
        Disk {
            store_id,
            apps: BTreeMap::new(),
            order: BTreeMap::new(),
            last: Position::default(),
            forgotten: Position::default(),
            floor: Revision(0),
            time,
            clock: StoreTime::new(time),
            is_full: false,
            judge,
        }
    }

    /// Answers a process that asks for the time.
    pub fn tell_time(&mut self, ask: Ask) -> Answer {
        // A process cannot act on a disk that refuses commits.
        let answer = self.clock.ask(Ask { acts: ask.acts && !self.is_full, ..ask });
        let mut judge = crate::lock(&self.judge);
        judge.uptime.on_time(&answer);
        if ask.known == Timestamp::default() {
            // A process that starts takes over the clock.
            judge.allow_ahead(answer.time.since(self.time));
        }
        answer
    }

    /// Moves the time of the world forward.
    pub fn advance(&mut self, millis: u64) {
        self.time = Timestamp::new(self.time.millis() + millis);
        self.clock.advance(millis);
    }

    /// Returns the time of the store, the outages, and the latest sign of life.
    pub fn moment(&self) -> (Timestamp, Arc<Outages>, Timestamp) {
        let now = self.clock.now();
        (now, self.clock.life.outages_at(now), self.clock.life.alive)
    }

    /// Returns the applications with their records.
    pub fn apps(&self) -> &BTreeMap<AppName, App> {
        &self.apps
    }

    fn head(&self, app: &AppName) -> Arc<Head> {
        match self.apps.get(app) {
            Some(known) => known.head.clone(),
            None => Arc::new(Head::empty(self.floor)),
        }
    }

    /// Reads an application.
    pub fn load(&self, app: &AppName) -> Records {
        match self.apps.get(app) {
            Some(known) => known.records(),
            None => Records::of_head((*self.head(app)).clone()),
        }
    }

    /// Reads the events of an application before a number, newest first.
    pub fn events(&self, app: &AppName, before: Option<u64>, max: usize) -> Vec<NumberedEvent> {
        let events = self.apps.get(app).into_iter().flat_map(|app| app.events.iter().rev());
        let events = events.filter(|event| before.is_none_or(|before| event.number < before));
        events.take(max).cloned().collect()
    }

    /// Returns what a process finds when it starts.
    pub fn open(&self) -> Found {
        let epoch = Epoch { store_id: self.store_id, losses: 0 };
        let heads = self.order.iter().filter_map(|(position, app)| {
            let head = self.apps.get(app)?.head.clone();
            Some(mk_change(app, *position, head, None))
        });
        let heads = heads.collect();
        Found { epoch, heads, forgotten: self.forgotten }
    }

    /// Commits a transition: all of it, or nothing.
    pub fn commit(&mut self, transition: &Arc<Transition>) -> Result<DiskCommit, Refusal> {
        let app = &transition.app;
        let current = self.head(app).revision;
        if transition.base != current {
            return Err(Refusal::Conflict(current));
        }
        let is_known = self.apps.contains_key(app);
        if !transition.is_durable() || (!transition.moves_revision() && !is_known) {
            return Ok(DiskCommit { change: None, pruned: None });
        }
        match self.is_full {
            true => Err(Refusal::Full),
            false => Ok(self.apply(transition)),
        }
    }

    fn apply(&mut self, transition: &Arc<Transition>) -> DiskCommit {
        let name = &transition.app;
        let before = self.apps.get(name);
        crate::lock(&self.judge).on_commit(before, transition, self.time);
        let app = self.apps.entry(name.clone()).or_default();
        app.apply(transition);
        if !transition.moves_revision() {
            return DiskCommit { change: None, pruned: None };
        }
        self.order.remove(&app.position);
        self.last.0 += 1;
        app.position = self.last;
        self.order.insert(self.last, name.clone());
        let head = app.head.clone();
        crate::lock(&self.judge).on_position(name, (Bucket(0), 0), self.last, &head);
        let change = mk_change(name, self.last, head, Some(transition.clone()));
        DiskCommit { change: Some(change), pruned: self.prune() }
    }

    /// Prunes the oldest tombstones. Returns the position and the revision floor after it.
    fn prune(&mut self) -> Option<(Position, Revision)> {
        let is_gone = |name: &AppName| self.apps.get(name).is_some_and(|app| app.head.deleted);
        let gone = self.order.iter().filter(|(_, name)| is_gone(name));
        let gone: Vec<_> = gone.map(|(at, name)| (*at, name.clone())).collect();
        let surplus = gone.len().saturating_sub(TOMBSTONES_MAX);
        let mut pruned = None;
        for (position, name) in gone.into_iter().take(surplus) {
            let revision = self.apps.remove(&name).map_or(Revision(0), |app| app.head.revision);
            self.order.remove(&position);
            self.forgotten = self.forgotten.max(position);
            self.floor = self.floor.max(revision);
            pruned = Some((self.forgotten, self.floor));
        }
        pruned
    }
}

fn mk_change(
    app: &AppName,
    position: Position,
    head: Arc<Head>,
    transition: Option<Arc<Transition>>,
) -> Change {
    Change { app: app.clone(), bucket: Bucket(0), position, head, transition }
}
