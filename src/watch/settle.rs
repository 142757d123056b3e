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

use super::cursors::Cursors;
use super::entry::Entry;
use crate::domain::name::AppName;
use crate::domain::status::Level;
use crate::store::{Bucket, Position};

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
    firsts: BTreeMap<(Bucket, Position), AppName>,
}

/// The newest state of an application whose level has not held yet.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) entry: Arc<Entry>,
    due: Instant,
    first: (Bucket, Position),
}

impl Settling {
    pub(super) fn new(stable_for: Duration) -> Settling {
        Settling {
            stable_for: stable_for.min(STABLE_FOR_MAX),
            settled: BTreeMap::new(),
            held: BTreeMap::new(),
            due: BTreeSet::new(),
            firsts: BTreeMap::new(),
        }
    }

    /// Whether an application that was there before this group can be told as it is. If not, it is
    /// held back.
    pub(super) fn admit_first(&mut self, entry: &Arc<Entry>, now: Instant) -> bool {
        if entry.head.deleted || self.due_of(entry) <= now {
            self.settle(entry);
            return true;
        }
        self.hold(entry, (entry.bucket, entry.position));
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
        let first = held.map_or((entry.bucket, entry.position), |held| held.first);
        self.hold(entry, first);
        false
    }

    /// Lets go of what has held by now, the earliest first.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Held> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        let apps = due.map(|(_, app)| app.clone()).collect();
        self.take(apps)
    }

    /// Lets go of what a reader who goes on from `cursors` may have been told before: what this
    /// group has never told, and what began before that.
    pub(super) fn take_for(&mut self, cursors: &Cursors) -> Vec<Held> {
        let told = |app| self.settled.contains_key(app);
        let held = self.firsts.iter();
        let seen =
            held.filter(|((bucket, first), app)| *first <= cursors.of(*bucket) || !told(app));
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

    /// Whether anything is held back.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// These cursors, but before what is held back.
    pub(super) fn before_held(&self, cursors: &Cursors) -> Cursors {
        let mut before = cursors.clone();
        let mut from = Some(Bucket(0));
        while let Some(bucket) = from {
            let first = self.firsts.range((bucket, Position(0))..).next();
            from = first.and_then(|(&(bucket, first), _)| {
                let last = Position(first.0.saturating_sub(1));
                before.set(bucket, last.min(before.of(bucket)));
                bucket.0.checked_add(1).map(Bucket)
            });
        }
        before
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

    fn hold(&mut self, entry: &Arc<Entry>, first: (Bucket, Position)) {
        let held = Held { entry: entry.clone(), due: self.due_of(entry), first };
        self.due.insert((held.due, entry.app.clone()));
        self.firsts.insert(first, entry.app.clone());
        self.held.insert(entry.app.clone(), held);
    }

    fn release(&mut self, app: &AppName) -> Option<Held> {
        let held = self.held.remove(app)?;
        self.due.remove(&(held.due, app.clone()));
        self.firsts.remove(&held.first);
        Some(held)
    }
}
