//! A rate with a burst, in one number: the generic cell rate algorithm.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much of a second's worth may come at once: a client that starts reads and opens everything
/// it needs.
pub const BURST: Duration = Duration::from_secs(2);

/// Counts events against a rate.
#[derive(Debug)]
pub struct Rate {
    /// Nanoseconds between two events at the rate.
    interval: u64,
    /// When the whole burst is available again, in nanoseconds.
    rested_at: AtomicU64,
}

impl Rate {
    /// Creates a rate; the whole burst is available.
    pub fn new(per_second: usize) -> Rate {
        let per_second = u64::try_from(per_second).unwrap_or(u64::MAX).max(1);
        Rate { interval: 1_000_000_000 / per_second, rested_at: AtomicU64::new(0) }
    }

    /// Takes one event. The error is the time until there is one.
    pub fn take(&self, now: Duration) -> Result<(), Duration> {
        let (now, burst) = (nanos(now), nanos(BURST));
        let after = |rested_at: u64| rested_at.max(now) + self.interval;
        let taken =
            self.rested_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |rested_at| {
                let after = after(rested_at);
                (after <= now + burst).then_some(after)
            });
        match taken {
            Ok(_) => Ok(()),
            Err(rested_at) => Err(Duration::from_nanos(after(rested_at) - now - burst)),
        }
    }

    /// Returns whether the whole burst is available.
    pub fn is_rested(&self, now: Duration) -> bool {
        self.rested_at.load(Ordering::Relaxed) <= nanos(now)
    }
}

/// Returns nanoseconds, half of the range at most: 292 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let rate = Rate::new(10);
        let at = Duration::from_millis;
        let passed = |now: u64| (0..1000).take_while(|_| rate.take(at(now)).is_ok()).count();
        assert_eq!(passed(0), 20);
        assert_eq!(rate.take(at(0)), Err(at(100)));
        assert_eq!(rate.take(at(60)), Err(at(40)));
        assert_eq!(passed(100), 1);
        assert_eq!(passed(1100), 10);
        assert!(!rate.is_rested(at(1100)) && rate.is_rested(at(3100)));
        assert_eq!(passed(60_000), 20, "no more than the burst is saved");
    }

    #[test]
    fn extreme_rates_neither_overflow_nor_stop() {
        for per_second in [0, 1, usize::MAX] {
            let rate = Rate::new(per_second);
            assert!(rate.take(Duration::ZERO).is_ok(), "{per_second}");
            assert!(rate.take(Duration::MAX).is_ok(), "{per_second}");
        }
        assert!(Rate::new(1).take(Duration::from_secs(u64::from(u32::MAX))).is_ok());
    }
}
