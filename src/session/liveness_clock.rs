//! The liveness clock: the time for which this process could receive messages. The silence of
//! workers and peers is measured by this clock alone, because no message arrives while the process
//! stalls or its store is unavailable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::Inner;

/// Interval between two ticks.
const TICK: Duration = Duration::from_millis(250);
/// The most that one tick counts: a busy process ticks a little late, a stopped one receives
/// nothing.
const TICK_MAX: Duration = Duration::from_millis(1000);

/// The liveness clock, at zero when the process starts.
#[derive(Default)]
pub(super) struct LivenessClock {
    millis: AtomicU64,
}

impl LivenessClock {
    /// Returns the time of the clock.
    pub(super) fn now(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    /// Waits until the clock has reached this time.
    pub(super) async fn until(&self, at: Duration) {
        while let Some(rest) = at.checked_sub(self.now()).filter(|rest| !rest.is_zero()) {
            // The clock may pause: a check more often than each tick is useless.
            tokio::time::sleep(rest.max(TICK)).await;
        }
    }

    fn advance(&self, elapsed: Duration) {
        let millis = elapsed.min(TICK_MAX).as_millis();
        self.millis.fetch_add(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Advances the clock until the sessions have closed.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut last = Instant::now();
    while inner.pause(TICK).await {
        let now = Instant::now();
        if inner.store.health().is_ok() && inner.aggregator.away_since().is_none() {
            inner.liveness_clock.advance(now - last);
        }
        last = now;
    }
}
