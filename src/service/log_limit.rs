//! Logs frequent events at a limited rate. A peer can cause such an event at any rate, and a line
//! for each could fill a disk; so the events are counted, and a line has their count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts events between two lines of the log.
#[derive(Debug)]
pub struct Sparse {
    period: Duration,
    start: Instant,
    /// Events that are not logged yet.
    count: AtomicU64,
    /// Earliest time of the next line, in milliseconds from the start.
    next: AtomicU64,
}

impl Sparse {
    /// Creates a counter with at most one line in each `period`.
    pub fn new(period: Duration) -> Sparse {
        let (count, next) = (AtomicU64::new(0), AtomicU64::new(0));
        Sparse { period, start: Instant::now(), count, next }
    }

    /// Counts one event. If a line is due, returns the number of events since the last line.
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
