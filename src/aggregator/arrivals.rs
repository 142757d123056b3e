//! What the store tells of, on its way to the tasks. Who tells must not wait, so little is kept: a
//! task that is slow reads again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use crate::domain::revision::Revision;
use crate::domain::transition::Transition;
use crate::store::{Bucket, Change, Epoch, Follower, Position};

use super::{Inner, lock};

/// Commits kept for a task that is busy. More than come in while it commits once: others commit as
/// quickly as it does. To replay them is cheaper than to read an application of many units.
pub(super) const COMMITS_MAX: usize = 32;

/// What was committed to one application, here or elsewhere, and is not replayed yet.
#[derive(Default)]
pub(super) struct Arrivals {
    arrived: Mutex<Arrived>,
    news: Notify,
}

/// See [`Arrivals::take`].
#[derive(Default)]
pub(super) struct Arrived {
    /// By revision, with what led there if that is known.
    pub(super) commits: VecDeque<(Revision, Option<Arc<Transition>>)>,
    /// Something else was committed too.
    pub(super) has_gap: bool,
    /// The revision of the commit of our own that is under way or was the last.
    expected: Revision,
}

impl Arrivals {
    /// Our own commit will bring about this revision: if it arrives, nobody needs to be woken. If
    /// it was another's commit that did, the store refuses ours, and what arrived is looked at.
    pub(super) fn expect(&self, revision: Revision) {
        lock(&self.arrived).expected = revision;
    }

    /// What arrived since the last time.
    pub(super) fn take(&self) -> Arrived {
        let mut arrived = lock(&self.arrived);
        Arrived {
            commits: std::mem::take(&mut arrived.commits),
            has_gap: std::mem::take(&mut arrived.has_gap),
            expected: arrived.expected,
        }
    }

    /// All is about to be read anew.
    pub(super) fn forget_gap(&self) {
        lock(&self.arrived).has_gap = false;
    }

    /// Waits until something arrived that was not expected.
    pub(super) async fn arrived(&self) {
        self.news.notified().await;
    }

    pub(super) fn push(&self, change: &Change) {
        let mut arrived = lock(&self.arrived);
        let revision = change.head.revision;
        if arrived.commits.len() < COMMITS_MAX {
            arrived.commits.push_back((revision, change.transition.clone()));
        } else {
            arrived.commits.clear();
            arrived.has_gap = true;
        }
        let is_ours = revision == arrived.expected;
        drop(arrived);
        if !is_ours {
            self.news.notify_one();
        }
    }

    fn doubt(&self) {
        lock(&self.arrived).has_gap = true;
        self.news.notify_one();
    }
}

/// Hears the store for an aggregator, for as long as there is one.
pub(super) struct Tap(Weak<Inner>);

impl Tap {
    pub(super) fn new(inner: &Arc<Inner>) -> Tap {
        Tap(Arc::downgrade(inner))
    }
}

impl Follower for Tap {
    fn changed(&self, change: &Change) {
        let Some(inner) = self.0.upgrade() else {
            return;
        };
        inner.schedule.changed(change);
        let active = lock(&inner.active).get(&change.app).cloned();
        if let Some(handle) = active {
            handle.shared.arrivals.push(change);
        }
    }

    fn forgotten(&self, _: Bucket, _: Position) {}

    fn counts_above(&self, bucket: Bucket, counts_above: u64) {
        if let Some(inner) = self.0.upgrade() {
            inner.schedule.count_above(bucket, counts_above);
        }
    }

    /// Revisions may have gone back, so what is active is read again; then everybody is doubted.
    fn doubted(&self, bucket: Bucket, epoch: Epoch) {
        let Some(inner) = self.0.upgrade() else {
            return;
        };
        let active = lock(&inner.active).clone();
        for (app, handle) in active {
            if inner.schedule.may_be_in(&app, bucket) {
                handle.shared.arrivals.doubt();
            }
        }
        inner.schedule.lost(bucket, epoch.losses);
    }
}
