//! Whether the store is available to this process, which readers and the liveness clock ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Inner;
use crate::domain::time::Timestamp;

/// Interval between health checks of the store: a shorter outage is shorter than any ttl.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The start of the time for which the store is unavailable.
#[derive(Default)]
pub(super) struct Outage {
    /// 0 while the store is available.
    away_since: AtomicU64,
}

impl Outage {
    /// Records that the store did not answer.
    pub(super) fn begun(&self, now: Timestamp) {
        let at = now.millis().max(1);
        let _known = self.away_since.compare_exchange(0, at, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Records that the store answered.
    pub(super) fn over(&self) {
        self.away_since.store(0, Ordering::SeqCst);
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
            Ok(()) => inner.outage.over(),
            Err(_sentence) => inner.outage.begun(now),
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = inner.draining.cancelled() => return,
        }
    }
}
