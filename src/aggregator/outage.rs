//! Outages of the store: units cannot repeat anything while the store is unavailable, so afterwards
//! every deadline gets the grace period of a start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Inner;
use crate::domain::time::Timestamp;

/// Interval between health checks of the store: a shorter outage is shorter than any ttl.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The start of the current outage, and the end of the last one, from which deadlines count.
pub(super) struct Outage {
    judging_since: AtomicU64,
    /// 0 while the store is available.
    away_since: AtomicU64,
}

impl Outage {
    /// Returns the state at a start: deadlines before it get a grace period.
    pub(super) fn starting(now: Timestamp) -> Outage {
        Outage { judging_since: AtomicU64::new(now.millis()), away_since: AtomicU64::new(0) }
    }

    /// Records that the store did not answer.
    pub(super) fn begun(&self, now: Timestamp) {
        let at = now.millis().max(1);
        let _known = self.away_since.compare_exchange(0, at, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Records that the store answered.
    pub(super) fn over(&self, now: Timestamp) {
        if self.away_since.swap(0, Ordering::SeqCst) != 0 {
            self.judging_since.fetch_max(now.millis(), Ordering::SeqCst);
        }
    }

    /// Returns the time before which deadlines get a grace period.
    pub(super) fn judging_since(&self) -> Timestamp {
        Timestamp::new(self.judging_since.load(Ordering::SeqCst))
    }

    /// Returns since when the store is unavailable, if it is.
    pub(super) fn away_since(&self) -> Option<Timestamp> {
        let at = self.away_since.load(Ordering::SeqCst);
        (at != 0).then_some(Timestamp::new(at))
    }
}

/// Detects outages even without requests.
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
