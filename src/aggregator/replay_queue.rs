//! Changes that the store reports, on their way to the tasks. The store must not wait, so the queue
//! is short: a slow task reads its state again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use crate::domain::revision::Revision;
use crate::domain::transition::Transition;
use crate::store::{Broadcast, Bucket, Change, Epoch, MasterChange, Observer, Position};
use crate::sync::lock;

use super::Inner;

/// Queue length for a busy task. It exceeds the number of commits that arrive during one own
/// commit, because other replicas commit at the same speed. A replay is cheaper than a read of an
/// application with many units.
pub(super) const COMMITS_MAX: usize = 32;

/// The commits to one application, by any replica, that are not replayed yet.
#[derive(Default)]
pub(super) struct ReplayQueue {
    arrived: Mutex<Arrived>,
    news: Notify,
}

/// The result of [`ReplayQueue::take`].
#[derive(Default)]
pub(super) struct Arrived {
    /// The commits by revision, with the transition if known.
    pub(super) commits: VecDeque<(Revision, Option<Arc<Transition>>)>,
    /// Whether a commit is missing from the queue.
    pub(super) has_gap: bool,
    /// The revision of the task's own commit, in progress or last.
    expected: Revision,
}

impl ReplayQueue {
    /// Sets the revision of the task's own commit, whose arrival need not wake the task. If another
    /// replica's commit takes that revision, the store rejects the own one, and the task then
    /// handles the arrivals.
    pub(super) fn expect(&self, revision: Revision) {
        lock(&self.arrived).expected = revision;
    }

    /// Takes the commits that arrived since the last call.
    pub(super) fn take(&self) -> Arrived {
        let mut arrived = lock(&self.arrived);
        Arrived {
            commits: std::mem::take(&mut arrived.commits),
            has_gap: std::mem::take(&mut arrived.has_gap),
            expected: arrived.expected,
        }
    }

    /// Forgets that commits are missing. The caller reads the whole state next.
    pub(super) fn forget_gap(&self) {
        lock(&self.arrived).has_gap = false;
    }

    /// Waits for an arrival other than the expected one.
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

    fn mark_gap(&self) {
        lock(&self.arrived).has_gap = true;
        self.news.notify_one();
    }
}

/// The observer of the store for an aggregator; it does not keep the aggregator alive.
pub(super) struct StoreObserver(Weak<Inner>);

impl StoreObserver {
    pub(super) fn new(inner: &Arc<Inner>) -> StoreObserver {
        StoreObserver(Arc::downgrade(inner))
    }
}

impl Observer for StoreObserver {
    fn on_change(&self, change: &Change) {
        let Some(inner) = self.0.upgrade() else { return };
        inner.schedule.changed(change);
        let active = lock(&inner.active).get(&change.app).cloned();
        if let Some(task) = active {
            task.replay_queue.push(change);
        }
    }

    fn on_prune(&self, _: Bucket, _: Position) {}

    fn on_master(&self, bucket: Bucket, change: &MasterChange) {
        let Some(inner) = self.0.upgrade() else { return };
        match change {
            MasterChange::Met(_) => {}
            MasterChange::LostWrites(epoch) => inner.note_loss(bucket, *epoch),
            MasterChange::Compared(floor) => inner.schedule.raise_epoch_floor(bucket, *floor),
        }
    }

    fn on_broadcast(&self, _: &Broadcast) {}
}

impl Inner {
    /// Handles a data loss. Revisions may have gone back, so active tasks read their states again;
    /// the schedule then marks every unit uncertain.
    fn note_loss(&self, bucket: Bucket, epoch: Epoch) {
        let active = lock(&self.active).clone();
        let mut affected: Vec<_> = active.into_iter().collect();
        affected.retain(|(app, _)| self.schedule.may_be_in(app, bucket));
        // One order for one seed of the simulation.
        affected.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, task) in affected {
            task.replay_queue.mark_gap();
        }
        self.schedule.lost(bucket, epoch.losses);
    }
}
