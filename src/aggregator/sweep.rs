//! Wakes the applications that have something due. An active one watches its own deadlines; this is
//! for those that nobody has asked for since the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Change, Epoch, Follower, Position};

use super::{Inner, lock};

/// Which applications there are, and when each has something due. Fed by the store.
#[derive(Default)]
pub(super) struct Schedule {
    entries: Mutex<Entries>,
    earlier: Notify,
}

#[derive(Default)]
struct Entries {
    due_of: BTreeMap<AppName, Option<Timestamp>>,
    by_time: BTreeSet<(Timestamp, AppName)>,
}

impl Schedule {
    /// Whether an application is there.
    pub(super) fn knows(&self, app: &AppName) -> bool {
        lock(&self.entries).due_of.contains_key(app)
    }

    /// How many are.
    pub(super) fn len(&self) -> usize {
        lock(&self.entries).due_of.len()
    }

    fn first(&self) -> Option<Timestamp> {
        lock(&self.entries).by_time.first().map(|(at, _)| *at)
    }

    /// Takes out what is due by now.
    fn take_due(&self, now: Timestamp) -> Vec<AppName> {
        let mut entries = lock(&self.entries);
        let mut due = Vec::new();
        while entries.by_time.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(entries.by_time.pop_first().map(|(_, app)| app));
        }
        due
    }
}

impl Follower for Schedule {
    fn changed(&self, change: &Change) {
        let mut entries = lock(&self.entries);
        let due = change.head.next_due;
        let old = match change.head.deleted {
            true => entries.due_of.remove(&change.app),
            false => entries.due_of.insert(change.app.clone(), due),
        };
        if let Some(Some(old)) = old {
            entries.by_time.remove(&(old, change.app.clone()));
        }
        let Some(due) = due.filter(|_| !change.head.deleted) else {
            return;
        };
        let is_first = entries.by_time.first().is_none_or(|(first, _)| due < *first);
        entries.by_time.insert((due, change.app.clone()));
        drop(entries);
        if is_first {
            self.earlier.notify_one();
        }
    }

    fn forgotten(&self, _: Bucket, _: Position) {}

    fn doubted(&self, _: Bucket, _: Epoch) {}
}

/// Wakes what is due until the aggregator drains.
pub(super) async fn run(aggregator: Arc<Inner>) {
    let schedule = &aggregator.schedule;
    loop {
        let now = aggregator.store.now();
        for app in schedule.take_due(now) {
            // Refused only while draining.
            let _ = aggregator.activate(&app);
        }
        let wait = schedule.first().map(|at| at.since(now));
        let next = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = next => {}
            () = schedule.earlier.notified() => {}
            () = aggregator.draining.cancelled() => return,
        }
    }
}
