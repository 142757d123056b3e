//! The pause before the next connection.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);

/// Upper limit of a pause that a server asks for: a longer one is a mistake, and the sum of an
/// instant and a very long pause would overflow.
const ASKED_MAX: Duration = Duration::from_secs(3600);

/// A pause that doubles from 100 ms to a maximum, with jitter, so that the clients of a lost server
/// do not reconnect at the same moment.
#[derive(Debug)]
pub(crate) struct Backoff {
    max: Duration,
    /// The smallest share of a full pause.
    least: f64,
    failures: u32,
}

impl Default for Backoff {
    /// For watchers: up to 5 s, because they are few and a reader waits for them.
    fn default() -> Backoff {
        Backoff { max: Duration::from_secs(5), least: 0.5, failures: 0 }
    }
}

impl Backoff {
    /// For workers: up to 30 s, and down to zero by jitter, because they are many.
    pub(crate) fn wide() -> Backoff {
        Backoff { max: Duration::from_secs(30), least: 0.0, failures: 0 }
    }

    /// Returns the pause after one more failure, never shorter than the server asked for.
    pub(crate) fn pause(&mut self, asked: Option<Duration>) -> Duration {
        self.pause_at(asked, random_fraction())
    }

    /// Restarts at the first pause, because the connection was good.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    fn pause_at(&mut self, asked: Option<Duration>, fraction: f64) -> Duration {
        let full = FIRST.saturating_mul(1 << self.failures.min(10)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        let jittered = full.mul_f64(self.least + fraction * (1.0 - self.least));
        // A pause that the server asks for also gets jitter, upwards only.
        let asked = asked.unwrap_or_default().min(ASKED_MAX);
        jittered.max(asked.mul_f64(1.0 + fraction / 4.0))
    }
}

/// Returns a number from 0 to 1.
fn random_fraction() -> f64 {
    let number = getrandom::u32().unwrap_or(u32::MAX / 2);
    f64::from(number) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_a_ceiling_and_starts_over() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u128> = (0..8).map(|_| backoff.pause_at(None, 1.0).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.pause_at(None, 0.0), Duration::from_millis(50));
    }

    #[test]
    fn spreads_many_over_the_whole_pause() {
        let mut backoff = Backoff::wide();
        let pauses: Vec<u128> = (0..10).map(|_| backoff.pause_at(None, 1.0).as_millis()).collect();
        assert_eq!(pauses[..3], [100, 200, 400]);
        assert_eq!(pauses[8..], [25_600, 30_000]);
        assert_eq!(backoff.pause_at(None, 0.5), Duration::from_secs(15));
        assert_eq!(backoff.pause_at(None, 0.0), Duration::ZERO);
    }

    #[test]
    fn waits_at_least_as_long_as_asked() {
        let asked = Duration::from_secs(20);
        let pause = Backoff::default().pause(Some(asked));
        assert!(asked <= pause && pause <= asked.mul_f64(1.25), "{pause:?}");
        assert!(Backoff::default().pause(Some(Duration::MAX)) <= ASKED_MAX.mul_f64(1.25));
    }
}
