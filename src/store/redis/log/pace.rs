//! When a reader asks for new entries of the logs.
//!
//! A question and its answer cost the processor several times what an entry costs. So a reader
//! waits for a moment after an answer with few entries, and the next one has the changes of that
//! moment together. It asks at once if a caller waits for the log, or if the last answer had many
//! entries. The first change after a quiet moment never waits: the question for it is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The time from an answer to the next question: what a change of another process may be late.
const PAUSE: Duration = Duration::from_millis(4);
/// An answer with so many entries has spread its own cost; the next ones wait already.
const MANY: usize = 32;

/// Who waits for the logs.
#[derive(Default)]
pub(crate) struct ReaderPace {
    waiting: AtomicUsize,
    arrived: Notify,
}

/// One who waits for the log, until this is dropped.
pub(crate) struct WaitsForLog(Arc<ReaderPace>);

impl ReaderPace {
    /// Lets the readers ask at once until the returned guard is dropped.
    pub(crate) fn wait(self: &Arc<ReaderPace>) -> WaitsForLog {
        if self.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            self.arrived.notify_waiters();
        }
        WaitsForLog(self.clone())
    }

    /// Waits until a reader that received an answer with so many entries asks again.
    pub(super) async fn until_next(&self, answered: Option<(Instant, usize)>) {
        let Some((at, 1..MANY)) = answered else { return };
        let mut arrived = std::pin::pin!(self.arrived.notified());
        arrived.as_mut().enable();
        if self.waiting.load(Ordering::SeqCst) == 0 {
            let _ = tokio::time::timeout_at(at + PAUSE, arrived).await;
        }
    }
}

impl Drop for WaitsForLog {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how long a reader waits after an answer with this many entries.
    async fn pause_after(pace: &ReaderPace, entries: usize) -> Duration {
        let now = Instant::now();
        pace.until_next(Some((now, entries))).await;
        now.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_pauses_after_few_entries_alone() {
        let pace = ReaderPace::default();
        assert_eq!(pause_after(&pace, 0).await, Duration::ZERO);
        assert_eq!(pause_after(&pace, 1).await, PAUSE);
        assert_eq!(pause_after(&pace, MANY - 1).await, PAUSE);
        assert_eq!(pause_after(&pace, MANY).await, Duration::ZERO);
        pace.until_next(None).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_asks_at_once_while_a_caller_waits() {
        let pace = Arc::new(ReaderPace::default());
        let first = pace.wait();
        let second = pace.wait();
        drop(first);
        assert_eq!(pause_after(&pace, 1).await, Duration::ZERO);
        drop(second);
        assert_eq!(pause_after(&pace, 1).await, PAUSE);
        let began = Instant::now();
        let pausing = tokio::spawn({
            let pace = pace.clone();
            async move { pause_after(&pace, 1).await }
        });
        tokio::time::sleep(PAUSE / 4).await;
        let _waiting = pace.wait();
        assert_eq!(pausing.await.unwrap(), PAUSE / 4);
        assert_eq!(began.elapsed(), PAUSE / 4);
    }
}
