//! What an embedded store must have: each change that observers receive and each commit that is
//! acknowledged, in a second copy of the records. What the store reads is compared with the copy.
//!
//! A commit without an answer may be applied or not. It stays open until the store shows it: by a
//! change, by an answer, or by records that have it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::replay::Records;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::store::moment::Life;
use bellwether::store::{
    Applied, Broadcast, Bucket, Change, CommitError, MasterChange, Moment, NumberedEvent, Observer,
    Position,
};

use crate::judge::Judge;
use crate::lock;

use super::app::App;
use super::time::Answer;

/// Open commits of one application that are tried in each combination.
const OPEN_MAX: usize = 8;

/// The copy.
pub struct Witness {
    judge: Arc<Mutex<Judge>>,
    /// The time of the world.
    pub time: Timestamp,
    /// Whether the process is being killed: no client receives what it does.
    pub is_over: bool,
    /// Whether a process has opened the store and read everything.
    pub is_served: bool,
    apps: BTreeMap<AppName, App>,
    /// Commits that were sent and are not known to be applied or refused, in order.
    open: BTreeMap<AppName, Vec<Arc<Transition>>>,
    /// The highest revision of a pruned tombstone.
    floor: Revision,
    /// The last position whose tombstone was pruned.
    pruned: Position,
    /// The tombstones of applications that were created again.
    replaced: BTreeMap<Position, Revision>,
    /// The time that the store told last, its signs of life, and when that was.
    told: Timestamp,
    life: Life,
    told_at: Timestamp,
}

/// Passes the changes of a store on to the copy.
pub struct WitnessObserver(pub Arc<Mutex<Witness>>);

impl Observer for WitnessObserver {
    fn on_change(&self, change: &Change) {
        lock(&self.0).on_change(change);
    }

    fn on_prune(&self, _: Bucket, up_to: Position) {
        lock(&self.0).on_prune(up_to);
    }

    fn on_master(&self, _: Bucket, change: &MasterChange) {
        let witness = lock(&self.0);
        lock(&witness.judge).accuse(format!("an embedded store has lost writes: {change:?}"));
    }

    fn on_broadcast(&self, _: &Broadcast) {}
}

impl Witness {
    /// Returns the copy of an empty store.
    pub fn new(time: Timestamp, judge: Arc<Mutex<Judge>>) -> Witness {
        Witness {
            judge,
            time,
            is_over: false,
            is_served: false,
            apps: BTreeMap::new(),
            open: BTreeMap::new(),
            floor: Revision(0),
            pruned: Position(0),
            replaced: BTreeMap::new(),
            told: time,
            life: Life::default(),
            told_at: time,
        }
    }

    /// Returns the applications with their records.
    pub fn apps(&self) -> &BTreeMap<AppName, App> {
        &self.apps
    }

    fn accuse(&self, what: String) {
        lock(&self.judge).accuse(what);
    }

    /// Records the time that the store tells its process.
    pub fn on_moment(&mut self, moment: Moment, is_start: bool) {
        if self.is_over {
            return;
        }
        let mut judge = lock(&self.judge);
        if is_start {
            // A process that starts takes over the clock of the machine.
            judge.allow_ahead(moment.now.since(self.time));
        }
        (self.told, self.told_at) = (moment.now, self.time);
        let alive = moment.now.min(moment.judged);
        self.life = Life { alive, outages: moment.outages.clone() };
        judge.uptime.on_time(&Answer { time: moment.now, outages: moment.outages });
    }

    /// Returns the time of the store, the outages, and the latest sign of life.
    pub fn moment(&self) -> (Timestamp, Arc<Outages>, Timestamp) {
        let now = self.told.after(self.time.since(self.told_at));
        (now, self.life.outages_at(now), self.life.alive)
    }

    /// Records a commit that is sent.
    pub fn on_sent(&mut self, transition: &Arc<Transition>) {
        if transition.is_durable() {
            self.open.entry(transition.app.clone()).or_default().push(transition.clone());
        }
    }

    /// Records the answer to a commit.
    pub fn on_answer(&mut self, transition: &Arc<Transition>, answer: &Result<(), CommitError>) {
        if self.is_over || !transition.is_durable() {
            return;
        }
        let app = &transition.app;
        let place = self.place_of(app, |open| Arc::ptr_eq(open, transition));
        match answer {
            Ok(()) if transition.moves_revision() => {
                if place.is_some() {
                    self.accuse(format!("{app} {} has an answer, and no change", transition.base));
                }
            }
            // Nothing is stored of an application that is unknown and stays so.
            Ok(()) if !self.apps.contains_key(app) => self.forget(app, place),
            Ok(()) => {
                if let Some(place) = place {
                    self.apply_up_to(app, place);
                }
            }
            Err(CommitError::Unavailable { applied: Applied::Maybe, .. }) => {}
            Err(_) => self.forget(app, place),
        }
    }

    fn place_of(&self, app: &AppName, is: impl Fn(&Arc<Transition>) -> bool) -> Option<usize> {
        self.open.get(app)?.iter().rposition(is)
    }

    fn forget(&mut self, app: &AppName, place: Option<usize>) {
        if let (Some(open), Some(place)) = (self.open.get_mut(app), place) {
            open.remove(place);
        }
    }

    fn on_change(&mut self, change: &Change) {
        let app = &change.app;
        let known = self.apps.get(app);
        if self.is_over || known.is_some_and(|known| known.position == change.position) {
            return;
        }
        let revision = change.head.revision;
        let place = self.place_of(app, |open| open.moves_revision() && open.head == change.head);
        let place = place.or_else(|| {
            // A quiet commit followed as the process ended; a read shows it.
            self.place_of(app, |open| !open.moves_revision() && open.head == change.head)?;
            self.place_of(app, |open| open.moves_revision() && open.head.revision == revision)
        });
        let Some(place) = place else {
            let (known, is) = (known.map(|known| known.head.revision), change.head.revision);
            return self.accuse(format!("{app} changes from {known:?} to {is}, which nobody sent"));
        };
        self.apply_up_to(app, place);
        if let Some(known) = self.apps.get_mut(app) {
            known.position = change.position;
        }
        let mut judge = lock(&self.judge);
        judge.on_position(app, (Bucket(0), 0), change.position, &change.head);
    }

    /// Applies an open commit. Those before it that it is not based on were not applied.
    fn apply_up_to(&mut self, app: &AppName, place: usize) {
        let open = self.open.get_mut(app).map(|open| open.drain(..=place).collect::<Vec<_>>());
        let open = open.unwrap_or_default();
        let Some((last, before)) = open.split_last() else { return };
        let quiet = |t: &Transition| t.head.quiet_commits;
        for earlier in before {
            let known = self.apps.get(app).map(|known| known.head.clone());
            let is_base = known.is_some_and(|known| {
                let precedes = if earlier.moves_revision() {
                    // A process that starts tells of the last commit of a group alone.
                    earlier.head.revision <= last.base
                } else {
                    known.quiet_commits < quiet(earlier) && quiet(earlier) <= quiet(last)
                };
                earlier.base == known.revision && precedes
            });
            if is_base {
                self.apply(earlier);
            }
        }
        self.apply(last);
    }

    fn apply(&mut self, transition: &Arc<Transition>) {
        let app = &transition.app;
        let known = self.apps.get(app).map(|known| known.head.revision);
        let revision = known.unwrap_or_else(|| self.floor_below(transition.base));
        if revision != transition.base {
            self.accuse(format!("{app} is at {revision}, and a commit to {}", transition.base));
        }
        lock(&self.judge).on_commit(self.apps.get(app), transition, self.time);
        let known = self.apps.entry(app.clone()).or_default();
        if known.head.deleted {
            self.replaced.insert(known.position, known.head.revision);
        }
        if transition.is_deletion() {
            known.forget_answers();
        }
        known.apply(transition);
        let revision = transition.head.revision;
        if let Some(open) = self.open.get_mut(app) {
            open.retain(|open| revision <= open.base);
        }
    }

    /// Returns the revision below the first commit of an unknown application. A group that got no
    /// answer may prune a tombstone and create its application again. The store then shows the
    /// new application before the prune, so the copy does not know which of the two was first.
    fn floor_below(&mut self, base: Revision) -> Revision {
        let mut replaced = self.replaced.range(..=self.pruned);
        if self.floor < base && replaced.any(|(_, revision)| *revision == base) {
            self.floor = base;
        }
        self.floor
    }

    fn on_prune(&mut self, up_to: Position) {
        if self.is_over {
            return;
        }
        self.pruned = self.pruned.max(up_to);
        let is_pruned = |app: &App| app.head.deleted && app.position <= up_to;
        let mut judge = lock(&self.judge);
        for (name, app) in self.apps.extract_if(.., |_, app| is_pruned(app)) {
            self.floor = self.floor.max(app.head.revision);
            judge.on_pruned(&name);
        }
    }

    /// Compares what the store reads of an application with the copy, and with the copy after open
    /// commits. What is read afterwards has them too.
    pub fn on_read(&mut self, name: &AppName, read: &Records) {
        if self.is_over {
            return;
        }
        let found = stored(&App::of_records(Position(0), read.clone()));
        let Some(app) = self.apps.get(name) else {
            if !found.head.deleted || !found.units.is_empty() || !found.statuses.is_empty() {
                self.accuse(format!("{name} is there, and unknown: {found:?}"));
            }
            return;
        };
        let expected = stored(app);
        if found == expected {
            return;
        }
        let quiet =
            |open: &&Arc<Transition>| !open.moves_revision() && open.base == app.head.revision;
        let open = self.open.get(name).into_iter().flatten().filter(quiet);
        let open: Vec<_> = open.take(OPEN_MAX).cloned().collect();
        for set in 1..1_usize << open.len() {
            let chosen = open.iter().enumerate().filter(|(place, _)| set & (1 << place) != 0);
            let chosen: Vec<_> = chosen.map(|(_, open)| open.clone()).collect();
            let mut other = app.clone();
            chosen.iter().for_each(|open| other.apply(open));
            if stored(&other) == found {
                for transition in chosen {
                    let place = self.place_of(name, |open| Arc::ptr_eq(open, &transition));
                    self.forget(name, place);
                    self.apply(&transition);
                }
                return;
            }
        }
        self.accuse(format!("{name} is read as {found:?}, and was stored as {expected:?}"));
    }

    /// Compares the events that the store reads, newest first, with the copy.
    pub fn on_events(&mut self, name: &AppName, before: Option<u64>, read: &[NumberedEvent]) {
        let Some(app) = self.apps.get(name).filter(|_| !self.is_over) else { return };
        let kept = app.events.iter().rev();
        let mut kept = kept.filter(|event| before.is_none_or(|before| event.number < before));
        for event in read {
            let expected = kept.next();
            if expected.is_some_and(|expected| expected != event) {
                return self.accuse(format!("{name} has the event {event:?}, not {expected:?}"));
            }
        }
    }
}

/// Returns the records of an application without what is not stored.
fn stored(app: &App) -> Records {
    let mut records = app.records();
    for (_, status) in &mut records.statuses {
        status.expire_time_written = None;
    }
    for (_, unit) in &mut records.units {
        (unit.last_seen_written, unit.not_before) = (Timestamp::default(), None);
    }
    records
}
