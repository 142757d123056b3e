//! Events that a peer can cause as often as it likes: counted, and logged once in a while with
//! their count. A line for each could fill a disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts events between two lines of the log.
#[derive(Debug)]
pub struct Sparse {
    period: Duration,
    start: Instant,
    /// Not logged yet.
    count: AtomicU64,
    /// When the next line may come, in milliseconds from the start.
    next: AtomicU64,
}

impl Sparse {
    /// At most one line in each `period`.
    pub fn new(period: Duration) -> Sparse {
        let (count, next) = (AtomicU64::new(0), AtomicU64::new(0));
        Sparse { period, start: Instant::now(), count, next }
    }

    /// One more event. If a line is due: how many events it is about.
    pub fn note(&self) -> Option<u64> {
        self.note_at(self.start.elapsed())
    }

    fn note_at(&self, elapsed: Duration) -> Option<u64> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let next = self.next.load(Ordering::Relaxed);
        let (now, relaxed) = (millis(elapsed), Ordering::Relaxed);
        let after = now.saturating_add(millis(self.period));
        let is_ours =
            next <= now && self.next.compare_exchange(next, after, relaxed, relaxed).is_ok();
        is_ours.then(|| self.count.swap(0, relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_a_period_has_the_count_of_all() {
        let events = Sparse::new(Duration::from_secs(1));
        let times = [0, 1, 999, 1000, 1001, 5000].map(Duration::from_millis);
        let lines: Vec<u64> = times.into_iter().filter_map(|at| events.note_at(at)).collect();
        assert_eq!(lines, [1, 3, 2]);
    }
}
