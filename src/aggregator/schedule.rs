//! The schedule: for every application the next deadline, the last handled data loss and the usage,
//! without a read of the store. The store's notifications keep it current.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::domain::usage::Usage;
use crate::store::{Bucket, Change};
use crate::sync::lock;

/// Deadlines, data losses and usage of every application.
#[derive(Default)]
pub(super) struct Schedule {
    entries: Mutex<Entries>,
    /// Notifies of a deadline earlier than all others.
    pub(super) earlier: Notify,
    /// Notifies of a data loss to handle.
    pub(super) data_lost: Notify,
}

#[derive(Default)]
struct Entries {
    /// By hash: each commit looks its application up.
    known: HashMap<AppName, Known>,
    by_time: BTreeSet<(Timestamp, AppName)>,
    /// The epoch of each bucket of the store.
    buckets: BTreeMap<Bucket, BucketEpoch>,
    /// Usage of all applications together.
    usage: Usage,
    /// Applications of each namespace, and their usage together.
    namespaces: HashMap<Box<str>, (usize, Usage)>,
}

/// The facts about other applications that a decision needs.
pub(super) struct Others {
    /// The loss count for the application.
    pub(super) losses: u32,
    /// Usage of all other applications.
    pub(super) all: Usage,
    /// Usage of all other applications of its namespace.
    pub(super) in_namespace: Usage,
}

/// What is kept of an application here. Every replica has one for each application.
struct Known {
    due: Option<Timestamp>,
    bucket: Bucket,
    /// The loss count when its units were last marked uncertain; `None` if it has no units.
    losses_handled: Option<u32>,
    /// Epoch of the lease; `None` without a lease. The first one is 1.
    lease_epoch: Option<NonZeroU64>,
    usage: KnownUsage,
}

/// Usage of an application.
enum KnownUsage {
    /// As most have it: in half the memory.
    Small([u32; 8]),
    Large(Box<Usage>),
}

impl KnownUsage {
    fn of(usage: Usage) -> KnownUsage {
        match usage.counts().map(u32::try_from) {
            [Ok(a), Ok(b), Ok(c), Ok(d), Ok(e), Ok(f), Ok(g), Ok(h)] => {
                KnownUsage::Small([a, b, c, d, e, f, g, h])
            }
            _ => KnownUsage::Large(Box::new(usage)),
        }
    }

    fn get(&self) -> Usage {
        match self {
            KnownUsage::Small(counts) => Usage::of_counts(counts.map(u64::from)),
            KnownUsage::Large(usage) => **usage,
        }
    }
}

/// The epoch of a bucket: it rises when the store may have lost writes.
#[derive(Clone, Copy, Default)]
struct BucketEpoch {
    losses: u32,
    epoch_floor: u64,
}

impl Entries {
    /// Returns the epoch of a bucket.
    fn epoch_of(&self, bucket: Bucket) -> BucketEpoch {
        self.buckets.get(&bucket).copied().unwrap_or_default()
    }

    /// Counts an application with this usage.
    fn add(&mut self, app: &AppName, usage: Usage) {
        self.usage = self.usage.plus(usage);
        if !self.namespaces.contains_key(app.namespace()) {
            self.namespaces.insert(app.namespace().into(), Default::default());
        }
        if let Some((count, sum)) = self.namespaces.get_mut(app.namespace()) {
            *count += 1;
            *sum = sum.plus(usage);
        }
    }

    /// Stops counting an application with this usage.
    fn remove(&mut self, app: &AppName, usage: Usage) {
        self.usage = self.usage.minus(usage);
        let Some((count, sum)) = self.namespaces.get_mut(app.namespace()) else { return };
        *count -= 1;
        *sum = sum.minus(usage);
        if *count == 0 {
            self.namespaces.remove(app.namespace());
        }
    }
}

impl Schedule {
    /// Returns whether an application exists.
    pub(super) fn knows(&self, app: &AppName) -> bool {
        lock(&self.entries).known.contains_key(app)
    }

    /// Returns the number of applications.
    pub(super) fn len(&self) -> usize {
        lock(&self.entries).known.len()
    }

    /// Returns the number of applications of a namespace.
    pub(super) fn len_of(&self, namespace: &str) -> usize {
        lock(&self.entries).namespaces.get(namespace).map_or(0, |(count, _)| *count)
    }

    /// Returns the earliest deadline of all applications.
    pub(super) fn first(&self) -> Option<Timestamp> {
        lock(&self.entries).by_time.first().map(|(at, _)| *at)
    }

    /// Takes the applications that are due by now.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<AppName> {
        let mut entries = lock(&self.entries);
        let mut due = Vec::new();
        while entries.by_time.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(entries.by_time.pop_first().map(|(_, app)| app));
        }
        due
    }

    /// Makes an application due again at `at`, if it is due by then: its task could not start, and
    /// [`take_due`](Schedule::take_due) has taken its deadline.
    pub(super) fn retry(&self, app: &AppName, at: Timestamp) {
        let mut entries = lock(&self.entries);
        let due = entries.known.get_mut(app).and_then(|known| known.due.as_mut());
        let Some(due) = due.filter(|due| **due <= at) else { return };
        let old = std::mem::replace(due, at);
        entries.by_time.remove(&(old, app.clone()));
        entries.by_time.insert((at, app.clone()));
        drop(entries);
        self.earlier.notify_one();
    }

    /// Returns the loss count for an application, and the usage of the others.
    pub(super) fn others(&self, app: &AppName) -> Others {
        let entries = lock(&self.entries);
        let namespace = entries.namespaces.get(app.namespace());
        let in_namespace = namespace.map(|(_, usage)| *usage).unwrap_or_default();
        let Some(known) = entries.known.get(app) else {
            return Others { losses: 0, all: entries.usage, in_namespace };
        };
        let losses = entries.epoch_of(known.bucket).losses;
        let own = known.usage.get();
        let all = entries.usage.minus(own);
        Others { losses, all, in_namespace: in_namespace.minus(own) }
    }

    /// Returns the applications that a data loss affects: their units are not yet marked uncertain,
    /// or their lease has an epoch from before. By name, so that one seed of the simulation gives
    /// one order.
    pub(super) fn to_mark_uncertain(&self) -> Vec<AppName> {
        let entries = lock(&self.entries);
        let is_open = |known: &Known| {
            let BucketEpoch { losses, epoch_floor } = entries.epoch_of(known.bucket);
            known.losses_handled.is_some_and(|handled| handled < losses)
                || known.lease_epoch.is_some_and(|epoch| epoch.get() <= epoch_floor)
        };
        let open = entries.known.iter().filter(|(_, known)| is_open(known));
        let mut open: Vec<AppName> = open.map(|(app, _)| app.clone()).collect();
        open.sort();
        open
    }

    /// Applies a change that the store reported.
    pub(super) fn changed(&self, change: &Change) {
        let head = &change.head;
        let mut entries = lock(&self.entries);
        let due = head.next_due.filter(|_| !head.deleted);
        let has_units = 0 < head.summary.totals.units;
        let losses_handled = has_units.then_some(head.losses);
        let lease_epoch = head.lease.as_ref().and_then(|_| NonZeroU64::new(head.lease_epoch));
        let old = match head.deleted {
            true => entries.known.remove(&change.app),
            false => {
                let (bucket, usage) = (change.bucket, head.usage());
                entries.add(&change.app, usage);
                let usage = KnownUsage::of(usage);
                let known = Known { due, bucket, losses_handled, lease_epoch, usage };
                entries.known.insert(change.app.clone(), known)
            }
        };
        if let Some(old) = &old {
            entries.remove(&change.app, old.usage.get());
        }
        if let Some(old) = old.and_then(|known| known.due) {
            entries.by_time.remove(&(old, change.app.clone()));
        }
        let Some(due) = due else { return };
        let is_first = entries.by_time.first().is_none_or(|(first, _)| due < *first);
        entries.by_time.insert((due, change.app.clone()));
        drop(entries);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Records the loss count of a bucket.
    pub(super) fn lost(&self, bucket: Bucket, losses: u32) {
        self.raise(bucket, |known| known.losses = known.losses.max(losses));
    }

    /// Records the epoch floor of a bucket.
    pub(super) fn raise_epoch_floor(&self, bucket: Bucket, epoch_floor: u64) {
        self.raise(bucket, |known| known.epoch_floor = known.epoch_floor.max(epoch_floor));
    }

    fn raise(&self, bucket: Bucket, raise: impl FnOnce(&mut BucketEpoch)) {
        raise(lock(&self.entries).buckets.entry(bucket).or_default());
        self.data_lost.notify_one();
    }

    /// Returns whether an application may be in a bucket; true for an unknown one.
    pub(super) fn may_be_in(&self, app: &AppName, bucket: Bucket) -> bool {
        lock(&self.entries).known.get(app).is_none_or(|known| known.bucket == bucket)
    }
}
