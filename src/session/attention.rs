//! For how long this process has been listening. Silence is judged by this clock alone: while the
//! process stood still, or its store was away, nobody could be heard, and that is nobody's failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::Inner;

/// How often the clock moves on.
const TICK: Duration = Duration::from_millis(250);
/// The most that one tick counts: a busy machine is late now and then, a stopped one is not
/// listening.
const TICK_MAX: Duration = Duration::from_millis(1000);

/// See the module.
#[derive(Default)]
pub(super) struct Attention {
    millis: AtomicU64,
}

impl Attention {
    /// For how long we have been listening.
    pub(super) fn now(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    /// Waits until we have listened for so long.
    pub(super) async fn until(&self, at: Duration) {
        while let Some(rest) = at.checked_sub(self.now()).filter(|rest| !rest.is_zero()) {
            // It may stand: looking more often than it moves is of no use.
            tokio::time::sleep(rest.max(TICK)).await;
        }
    }

    fn advance(&self, elapsed: Duration) {
        let millis = elapsed.min(TICK_MAX).as_millis();
        self.millis.fetch_add(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Moves the clock on until the sessions have ended.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut last = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = inner.stopped.cancelled() => return,
        }
        let now = Instant::now();
        if inner.store.health().is_ok() && inner.aggregator.away_since().is_none() {
            inner.attention.advance(now - last);
        }
        last = now;
    }
}
