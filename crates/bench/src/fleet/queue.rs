//! Stations with queues: first come, first served, with one or several cores each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hdrhistogram::Histogram;

/// Simulated time in nanoseconds.
pub type Nanos = u64;

/// The longest wait that is counted as it is: a minute. Longer ones count as this.
const WAIT_MAX: Nanos = 60_000_000_000;

/// One place that works, and what waits for it.
pub struct Station {
    /// When each core is free.
    free: BinaryHeap<Reverse<Nanos>>,
    cores: usize,
    busy: Nanos,
}

impl Station {
    /// Returns an idle station.
    pub fn new(cores: usize) -> Station {
        Station { free: (0..cores).map(|_| Reverse(0)).collect(), cores, busy: 0 }
    }

    /// Returns whether work that arrives now must wait.
    pub fn is_busy(&self, now: Nanos) -> bool {
        self.free.peek().is_some_and(|Reverse(free)| now < *free)
    }

    /// Takes work that arrives now. Must be called in the order of arrival. Returns how long it
    /// waits, and when it is done.
    pub fn take(&mut self, now: Nanos, work: Nanos) -> (Nanos, Nanos) {
        let Reverse(free) = self.free.pop().unwrap_or(Reverse(now));
        let start = now.max(free);
        let done = start.saturating_add(work);
        self.free.push(Reverse(done));
        self.busy = self.busy.saturating_add(work);
        (start - now, done)
    }

    /// Returns the share of this time in which the cores have worked.
    pub fn utilization(&self, time: Nanos) -> f64 {
        self.busy as f64 / (time as f64 * self.cores as f64)
    }
}

/// Durations from a microsecond to a minute.
pub fn durations() -> Histogram<u64> {
    // Valid bounds.
    Histogram::new_with_bounds(1_000, WAIT_MAX, 3).expect("bounds of durations")
}

/// Counts a duration.
pub fn count(histogram: &mut Histogram<u64>, duration: Nanos) {
    histogram.saturating_record(duration);
}

/// Random numbers of a run that repeats: SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        // The bias of the remainder is below 2^-32 for counts of machines.
        (self.next() % count.max(1) as u64) as usize
    }

    /// Returns the time until the next arrival of a Poisson process with this many a second.
    pub fn until_next(&mut self, per_second: f64) -> Nanos {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (-(1.0 - unit).ln() / per_second * 1e9) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With random arrivals and equal work, the mean wait is known (Pollaczek and Khinchine).
    #[test]
    fn the_mean_wait_is_that_of_the_formula() {
        for load in [0.3, 0.7, 0.9] {
            let (work, mut now, mut waited) = (1_000_000, 0, 0);
            let (mut station, mut random) = (Station::new(1), Random(7));
            let arrivals = 1_000_000;
            for _ in 0..arrivals {
                now += random.until_next(load * 1000.0);
                waited += station.take(now, work).0;
            }
            let mean = waited as f64 / f64::from(arrivals);
            let expected = load / (2.0 * (1.0 - load)) * work as f64;
            assert!((mean / expected - 1.0).abs() < 0.05, "{load}: {mean}, not {expected}");
            assert!((station.utilization(now) - load).abs() < 0.01, "{load}");
        }
    }

    #[test]
    fn work_waits_for_the_core_that_is_free_first() {
        let mut station = Station::new(2);
        assert_eq!(station.take(0, 10), (0, 10));
        assert!(!station.is_busy(0));
        assert_eq!(station.take(0, 4), (0, 4));
        assert!(station.is_busy(3) && !station.is_busy(4));
        assert_eq!(station.take(1, 5), (3, 9));
        assert_eq!(station.take(20, 1), (0, 21));
    }
}
