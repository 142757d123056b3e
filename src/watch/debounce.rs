//! `stable_for` debounces levels: a new level is sent only after it has held for this long.
//!
//! An application is *settled* at the level last sent for it. A change that keeps this level passes
//! immediately. A change to another level is pending until the level is old enough. A newer change
//! replaces a pending one and waits until its own level has held, even if that is the settled level
//! again. So a level that came and went is not sent, and the newest state is sent once the level is
//! stable. A deletion has no level and passes immediately.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::cursors::Cursors;
use super::entry::Entry;
use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::store::{Bucket, Position};

/// Upper limit of `stable_for`: an instant must be able to hold the sum.
const STABLE_FOR_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The pending changes and their times, of applications in scope, shown or not.
#[derive(Debug)]
pub(super) struct Debounce {
    stable_for: Duration,
    settled: BTreeMap<AppName, Level>,
    held: BTreeMap<AppName, Pending>,
    /// Pending changes by due time.
    due: BTreeSet<(Instant, AppName)>,
    /// Pending changes by the first change that made the application pending.
    firsts: BTreeMap<(Bucket, Position), AppName>,
}

/// The newest state of an application whose level has not held yet.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) entry: Arc<Entry>,
    due: Instant,
    first: (Bucket, Position),
}

impl Debounce {
    pub(super) fn new(stable_for: Duration) -> Debounce {
        Debounce {
            stable_for: stable_for.min(STABLE_FOR_MAX),
            settled: BTreeMap::new(),
            held: BTreeMap::new(),
            due: BTreeSet::new(),
            firsts: BTreeMap::new(),
        }
    }

    /// Returns whether a change, or the state of an application before this group, can be sent
    /// immediately. If not, it is pending.
    pub(super) fn admit(&mut self, entry: &Arc<Entry>, now: Instant) -> bool {
        let held = self.release(&entry.app);
        let kept = held.is_none() && self.settled.get(&entry.app) == Some(&entry.level());
        if entry.is_deleted() || kept || self.due_of(entry) <= now {
            self.settle(entry);
            return true;
        }
        let first = held.map_or((entry.bucket, entry.position), |held| held.first);
        self.hold(entry, first);
        false
    }

    /// Releases the changes whose level has held by now, the earliest first.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Pending> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        let apps = due.map(|(_, app)| app.clone()).collect();
        self.take(apps)
    }

    /// Releases the changes that a reader that resumes from `cursors` may have received before:
    /// those of applications that this group never sent, and those that became pending up to the
    /// cursors.
    pub(super) fn take_for(&mut self, cursors: &Cursors) -> Vec<Pending> {
        let is_settled = |app| self.settled.contains_key(app);
        let held = self.firsts.iter();
        let seen =
            held.filter(|((bucket, first), app)| *first <= cursors.of(*bucket) || !is_settled(app));
        let apps = seen.map(|(_, app)| app.clone()).collect();
        self.take(apps)
    }

    fn take(&mut self, apps: Vec<AppName>) -> Vec<Pending> {
        let held: Vec<Pending> = apps.iter().filter_map(|app| self.release(app)).collect();
        held.iter().for_each(|held| self.settle(&held.entry));
        held
    }

    /// Returns the time of the next release.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns whether any change is pending.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns these cursors, moved before the first pending change of each bucket.
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
        if entry.is_deleted() {
            self.settled.remove(&entry.app);
        } else {
            self.settled.insert(entry.app.clone(), entry.level());
        }
    }

    fn hold(&mut self, entry: &Arc<Entry>, first: (Bucket, Position)) {
        let held = Pending { entry: entry.clone(), due: self.due_of(entry), first };
        self.due.insert((held.due, entry.app.clone()));
        self.firsts.insert(first, entry.app.clone());
        self.held.insert(entry.app.clone(), held);
    }

    fn release(&mut self, app: &AppName) -> Option<Pending> {
        let held = self.held.remove(app)?;
        self.due.remove(&(held.due, app.clone()));
        self.firsts.remove(&held.first);
        Some(held)
    }
}
