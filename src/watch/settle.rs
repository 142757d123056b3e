//! `stable_for`: a level is told only after it has held.
//!
//! The rule: an application is *settled* at the level last told of it. A change that keeps this
//! level passes at once. One that moves it is held back until its level is old enough, and while
//! something is held back a newer change takes its place and waits for its own level to hold, also
//! if that is the settled one again: of a level that came and went nothing is told, and the newest
//! state comes once the application is quiet. A deletion is no level and is told at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entry::Entry;
use crate::domain::name::AppName;
use crate::domain::status::Level;
use crate::store::Position;

/// A longer `stable_for` is this: an instant must be able to hold the sum.
const STABLE_FOR_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is held back, and until when. Of applications in scope, shown or not.
#[derive(Debug)]
pub(super) struct Settling {
    stable_for: Duration,
    settled: BTreeMap<AppName, Level>,
    held: BTreeMap<AppName, Held>,
    /// By when it is told.
    due: BTreeSet<(Instant, AppName)>,
    /// By the first change held back.
    firsts: BTreeSet<(Position, AppName)>,
}

/// The newest state of an application whose level has not held yet.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) entry: Arc<Entry>,
    /// A reader from before this group may have been told of it.
    pub(super) known: bool,
    due: Instant,
    first: Position,
}

impl Settling {
    pub(super) fn new(stable_for: Duration) -> Settling {
        Settling {
            stable_for: stable_for.min(STABLE_FOR_MAX),
            settled: BTreeMap::new(),
            held: BTreeMap::new(),
            due: BTreeSet::new(),
            firsts: BTreeSet::new(),
        }
    }

    /// Whether an application that was there before this group can be told as it is. If not, it is
    /// held back.
    pub(super) fn admit_first(&mut self, entry: &Arc<Entry>, now: Instant) -> bool {
        if entry.head.deleted || self.due_of(entry) <= now {
            self.settle(entry);
            return true;
        }
        self.hold(entry, entry.position, true);
        false
    }

    /// Whether a change can be told at once. If not, it is held back.
    pub(super) fn admit(&mut self, entry: &Arc<Entry>, now: Instant) -> bool {
        let held = self.release(&entry.app);
        let kept = held.is_none() && self.settled.get(&entry.app) == Some(&entry.level());
        if entry.head.deleted || kept || self.due_of(entry) <= now {
            self.settle(entry);
            return true;
        }
        let (first, known) = held.map_or((entry.position, false), |h| (h.first, h.known));
        self.hold(entry, first, known);
        false
    }

    /// Lets go of what has held by now, the earliest first.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Held> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        let apps = due.map(|(_, app)| app.clone()).collect();
        self.take(apps)
    }

    /// Lets go of what a reader who goes on from `position` may have been told before: what this
    /// group has never told, and what began before that position.
    pub(super) fn take_for(&mut self, position: Position) -> Vec<Held> {
        let told = |app| self.settled.contains_key(app);
        let held = self.firsts.iter();
        let seen = held.filter(|(first, app)| *first <= position || !told(app));
        let apps = seen.map(|(_, app)| app.clone()).collect();
        self.take(apps)
    }

    fn take(&mut self, apps: Vec<AppName>) -> Vec<Held> {
        let held: Vec<Held> = apps.iter().filter_map(|app| self.release(app)).collect();
        held.iter().for_each(|held| self.settle(&held.entry));
        held
    }

    /// When something is told without a change.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The earliest change that is held back.
    pub(super) fn first(&self) -> Option<Position> {
        self.firsts.first().map(|(position, _)| *position)
    }

    /// Whether a reader from before this group may have been told of an application that is held
    /// back.
    pub(super) fn may_be_known(&self, app: &AppName) -> bool {
        self.held.get(app).is_some_and(|held| held.known)
    }

    fn due_of(&self, entry: &Entry) -> Instant {
        entry.level_from + self.stable_for
    }

    fn settle(&mut self, entry: &Entry) {
        if entry.head.deleted {
            self.settled.remove(&entry.app);
        } else {
            self.settled.insert(entry.app.clone(), entry.level());
        }
    }

    fn hold(&mut self, entry: &Arc<Entry>, first: Position, known: bool) {
        let held = Held { entry: entry.clone(), known, due: self.due_of(entry), first };
        self.due.insert((held.due, entry.app.clone()));
        self.firsts.insert((first, entry.app.clone()));
        self.held.insert(entry.app.clone(), held);
    }

    fn release(&mut self, app: &AppName) -> Option<Held> {
        let held = self.held.remove(app)?;
        self.due.remove(&(held.due, app.clone()));
        self.firsts.remove(&(held.first, app.clone()));
        Some(held)
    }
}
