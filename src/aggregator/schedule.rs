//! What is known of every application without asking the store: when it has something due, and
//! whether a loss has been dealt with. Fed by the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::domain::usage::Usage;
use crate::store::{Bucket, Change};

use super::lock;

/// See the module.
#[derive(Default)]
pub(super) struct Schedule {
    entries: Mutex<Entries>,
    /// Something is due earlier than all else before.
    pub(super) earlier: Notify,
    /// There is a loss to deal with.
    pub(super) doubted: Notify,
}

#[derive(Default)]
struct Entries {
    known: BTreeMap<AppName, Known>,
    by_time: BTreeSet<(Timestamp, AppName)>,
    /// How often each bucket may have lost writes.
    losses: BTreeMap<Bucket, u32>,
    /// What the counts of each bucket go on above.
    counts_above: BTreeMap<Bucket, u64>,
    /// What all applications use.
    usage: Usage,
}

#[derive(Clone, Copy)]
struct Known {
    due: Option<Timestamp>,
    bucket: Bucket,
    /// For how many losses its units were doubted; `None` if there are none to doubt.
    doubted: Option<u32>,
    /// Of the lease, if somebody holds it.
    lease_epoch: Option<u64>,
    /// What it uses.
    usage: Usage,
}

impl Schedule {
    /// Whether an application is there.
    pub(super) fn knows(&self, app: &AppName) -> bool {
        lock(&self.entries).known.contains_key(app)
    }

    /// How many are.
    pub(super) fn len(&self) -> usize {
        lock(&self.entries).known.len()
    }

    /// When the first has something due.
    pub(super) fn first(&self) -> Option<Timestamp> {
        lock(&self.entries).by_time.first().map(|(at, _)| *at)
    }

    /// Takes out what is due by now.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<AppName> {
        let mut entries = lock(&self.entries);
        let mut due = Vec::new();
        while entries.by_time.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(entries.by_time.pop_first().map(|(_, app)| app));
        }
        due
    }

    /// How often the store may have lost what it has of an application, and what all others use.
    pub(super) fn about(&self, app: &AppName) -> (u32, Usage) {
        let entries = lock(&self.entries);
        let Some(known) = entries.known.get(app) else {
            return (0, entries.usage);
        };
        let losses = entries.losses.get(&known.bucket).copied().unwrap_or_default();
        (losses, entries.usage.minus(known.usage))
    }

    /// The applications with units that are still believed as before a loss, or led under an epoch
    /// of before.
    pub(super) fn to_doubt(&self) -> Vec<AppName> {
        let entries = lock(&self.entries);
        let is_open = |known: &Known| {
            let losses = entries.losses.get(&known.bucket).copied().unwrap_or_default();
            let counts_above = entries.counts_above.get(&known.bucket).copied().unwrap_or_default();
            known.doubted.is_some_and(|doubted| doubted < losses)
                || known.lease_epoch.is_some_and(|epoch| epoch <= counts_above)
        };
        let open = entries.known.iter().filter(|(_, known)| is_open(known));
        open.map(|(app, _)| app.clone()).collect()
    }

    /// The store told of a change.
    pub(super) fn changed(&self, change: &Change) {
        let head = &change.head;
        let mut entries = lock(&self.entries);
        let due = head.next_due.filter(|_| !head.deleted);
        let has_units = 0 < head.summary.totals.units;
        let doubted = has_units.then_some(head.losses);
        let lease_epoch = head.lease.as_ref().map(|_| head.lease_epoch);
        let old = match head.deleted {
            true => entries.known.remove(&change.app),
            false => {
                let (bucket, usage) = (change.bucket, head.usage());
                let known = Known { due, bucket, doubted, lease_epoch, usage };
                entries.usage = entries.usage.plus(usage);
                entries.known.insert(change.app.clone(), known)
            }
        };
        if let Some(old) = &old {
            entries.usage = entries.usage.minus(old.usage);
        }
        if let Some(old) = old.and_then(|known| known.due) {
            entries.by_time.remove(&(old, change.app.clone()));
        }
        let Some(due) = due else {
            return;
        };
        let is_first = entries.by_time.first().is_none_or(|(first, _)| due < *first);
        entries.by_time.insert((due, change.app.clone()));
        drop(entries);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// The store told that a bucket may have lost writes, for so many times now.
    pub(super) fn lost(&self, bucket: Bucket, losses: u32) {
        let mut entries = lock(&self.entries);
        let known = entries.losses.entry(bucket).or_default();
        *known = losses.max(*known);
        drop(entries);
        self.doubted.notify_one();
    }

    /// The store told what the counts of a bucket go on above.
    pub(super) fn count_above(&self, bucket: Bucket, counts_above: u64) {
        let mut entries = lock(&self.entries);
        let known = entries.counts_above.entry(bucket).or_default();
        *known = counts_above.max(*known);
        drop(entries);
        self.doubted.notify_one();
    }

    /// Whether an application may stand in a bucket: of one that is not known nobody can say.
    pub(super) fn may_be_in(&self, app: &AppName, bucket: Bucket) -> bool {
        lock(&self.entries).known.get(app).is_none_or(|known| known.bucket == bucket)
    }
}
