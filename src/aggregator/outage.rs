//! Our outage is nobody's failure: while the store is away nobody can repeat anything, so once it
//! is back every deadline is given the grace that a start gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Inner;
use crate::domain::time::Timestamp;

/// How often the store is asked how it is: a shorter absence is shorter than any ttl.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Since when deadlines are judged, and since when the store is away.
pub(super) struct Outage {
    judging_since: AtomicU64,
    /// 0 while it is there.
    away_since: AtomicU64,
}

impl Outage {
    /// What was due before the start is given a grace.
    pub(super) fn starting(now: Timestamp) -> Outage {
        Outage { judging_since: AtomicU64::new(now.0), away_since: AtomicU64::new(0) }
    }

    /// The store did not answer.
    pub(super) fn begun(&self, now: Timestamp) {
        let at = now.0.max(1);
        let _known = self.away_since.compare_exchange(0, at, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The store answered.
    pub(super) fn over(&self, now: Timestamp) {
        if self.away_since.swap(0, Ordering::SeqCst) != 0 {
            self.judging_since.fetch_max(now.0, Ordering::SeqCst);
        }
    }

    /// What was due before this is given a grace.
    pub(super) fn judging_since(&self) -> Timestamp {
        Timestamp(self.judging_since.load(Ordering::SeqCst))
    }

    /// Since when the store is away, if it is.
    pub(super) fn away_since(&self) -> Option<Timestamp> {
        let at = self.away_since.load(Ordering::SeqCst);
        (at != 0).then_some(Timestamp(at))
    }
}

/// Notices an outage also while nobody asks for anything.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        let now = inner.store.now();
        match inner.store.health() {
            Ok(()) => inner.outage.over(now),
            Err(_sentence) => inner.outage.begun(now),
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = inner.draining.cancelled() => return,
        }
    }
}
