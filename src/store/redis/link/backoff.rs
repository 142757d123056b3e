//! The pause before the next attempt to connect.

use std::time::Duration;

use super::options::Options;

/// A pause that doubles with each attempt up to a maximum. Jitter spreads the replicas that
/// reconnect to a restarted Redis.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(options: &Options) -> Backoff {
        Backoff { first: options.backoff_first, max: options.backoff_max, failures: 0 }
    }

    /// Starts again with the first pause, after a connection proved good.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the pause after one more failure: between half and all of the doubled value.
    pub(super) fn pause(&mut self) -> Duration {
        let random = getrandom::u32().unwrap_or(u32::MAX / 2);
        self.pause_at(f64::from(random) / f64::from(u32::MAX))
    }

    fn pause_at(&mut self, fraction: f64) -> Duration {
        let full = self.first.saturating_mul(1 << self.failures.min(16)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(0.5 + fraction / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_a_ceiling_and_starts_over() {
        let mut backoff = Backoff::new(&Options::default());
        let pauses: Vec<u128> = (0..8).map(|_| backoff.pause_at(1.0).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        backoff.reset();
        assert_eq!(backoff.pause_at(0.0), Duration::from_millis(25));
    }
}
