//! The time of Redis as this process knows it.
//!
//! A request and its answer take time, and Redis reads its clock at some moment in between. So its
//! time is known with an error of half the round trip. The error grows while the local clock runs
//! without a new sample.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::time::Timestamp;
use crate::sync::lock;

use super::key::{Key, KeySpace};
use super::link::{LinkError, Links};
use super::{Shared, reply, script};

/// The interval between requests for the time.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The drift between two clocks: 200 parts in a million, more than any computer has.
const DRIFT_DIVISOR: u32 = 5000;

/// A clock that never goes back, set from samples of another clock.
pub(super) struct StoreClock(Mutex<State>);

struct State {
    sample: Sample,
    latest: Timestamp,
}

/// The result of one request for the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// The time of the other clock in microseconds.
    pub(super) micros: u64,
    /// The local moment of that time.
    pub(super) at: Instant,
    /// The maximum error, in both directions.
    pub(super) error: Duration,
}

impl Sample {
    fn micros_at(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.at).as_micros();
        self.micros.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn error_at(&self, now: Instant) -> Duration {
        self.error + now.saturating_duration_since(self.at) / DRIFT_DIVISOR
    }
}

impl StoreClock {
    pub(super) fn new(sample: Sample) -> StoreClock {
        StoreClock(Mutex::new(State { sample, latest: Timestamp::default() }))
    }

    /// Returns the time. It is never earlier than a time returned before.
    pub(super) fn now(&self) -> Timestamp {
        let mut state = lock(&self.0);
        let now = Timestamp::new(state.sample.micros_at(Instant::now()) / 1000);
        state.latest = state.latest.max(now);
        state.latest
    }

    /// Uses a new sample if it is more precise than the current one, or contradicts it.
    pub(super) fn judge(&self, sample: Sample) {
        let mut state = lock(&self.0);
        let known = state.sample;
        let apart = known.micros_at(sample.at).abs_diff(sample.micros);
        let explained = known.error_at(sample.at) + sample.error;
        // The two differ by more than their errors: the other clock was set, or is another one.
        let is_set = explained < Duration::from_micros(apart);
        if is_set || sample.error <= known.error_at(sample.at) {
            state.sample = sample;
        }
    }
}

/// Follows the time of the store for as long as the store is open.
pub(super) async fn follow(shared: Arc<Shared>) {
    let mut was_behind = false;
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        // While Redis is unreachable, the time advances by the clock of this process.
        let asked = ask(&shared.links, &shared.keys, shared.clock.now()).await;
        let Ok((sample, behind)) = asked else { continue };
        shared.clock.judge(sample);
        let is_behind = !behind.is_zero();
        if is_behind && !was_behind {
            tracing::warn!(
                ?behind,
                "clock of Redis is behind the time of the store; \
                 set the clocks of all Redis servers with NTP"
            );
        }
        was_behind = is_behind;
    }
}

/// Asks for the time of the store; this process knows that it is at least `known`. Returns it, and
/// by how much the clock of Redis is behind.
pub(super) async fn ask(
    links: &Links,
    keys: &KeySpace,
    known: Timestamp,
) -> Result<(Sample, Duration), LinkError> {
    let key = keys.name(Key::Clock);
    let mut call = script::call(&script::TIME, std::slice::from_ref(&key));
    call.arg(known.millis().saturating_mul(1000));
    let asked = Instant::now();
    let answer = script::run(links, &key, &call).await?;
    let error = asked.elapsed() / 2;
    match reply::items(&answer) {
        [micros, behind] if let Some(micros) = reply::number(micros) => {
            let behind = Duration::from_micros(reply::number(behind).unwrap_or_default());
            Ok((Sample { micros, at: asked + error, error }, behind))
        }
        _ => Err(LinkError::Away { reason: format!("unexpected answer to TIME: {answer:?}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_sample(seconds: u64, error_millis: u64) -> Sample {
        let error = Duration::from_millis(error_millis);
        Sample { micros: seconds * 1_000_000, at: Instant::now(), error }
    }

    #[tokio::test(start_paused = true)]
    async fn the_better_of_two_samples_counts_until_it_is_old() {
        let clock = StoreClock::new(mk_sample(1000, 1));
        clock.judge(Sample { micros: 1_000_005_000, ..mk_sample(0, 50) });
        assert_eq!(clock.now(), Timestamp::new(1_000_000));
        assert_eq!(lock(&clock.0).sample.error_at(Instant::now()), Duration::from_millis(1));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(clock.now(), Timestamp::new(1_010_000));
        assert_eq!(lock(&clock.0).sample.error_at(Instant::now()), Duration::from_millis(3));
        clock.judge(Sample { micros: 1_010_001_000, ..mk_sample(0, 2) });
        assert_eq!(clock.now(), Timestamp::new(1_010_001));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_is_followed_but_never_back() {
        let clock = StoreClock::new(mk_sample(1000, 1));
        assert_eq!(clock.now(), Timestamp::new(1_000_000));
        clock.judge(mk_sample(2000, 5));
        assert_eq!(clock.now(), Timestamp::new(2_000_000));
        clock.judge(mk_sample(1990, 5));
        assert_eq!(clock.now(), Timestamp::new(2_000_000));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(clock.now(), Timestamp::new(2_001_000));
    }
}
