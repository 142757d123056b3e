//! The time of the store as this process knows it, and the outages.
//!
//! A request and its answer take time, and Redis reads its clock at some moment in between. So the
//! time is known with an error of half the round trip. The error grows while the local clock runs
//! without a new sample.
//!
//! Each request is also a sign of life: the time without any is an outage. `time.lua` decides.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::Value;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::domain::outage::Outages;
use crate::domain::time::Timestamp;
use crate::store::moment::{Moment, OUTAGE_MIN, from_text};
use crate::sync::lock;

use super::link::{LinkError, Servers};
use super::record::key::{Key, KeySpace};
use super::record::{Buckets, reply};
use super::script;

/// The interval between requests for the time.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The interval between the first requests of a process, which may be killed soon: the time since
/// its last sign of life is not counted as uptime.
const ASK_FIRST: Duration = Duration::from_millis(250);
/// The number of the first requests.
const FIRST_ASKS: u32 = 8;
/// How long the last request of a process may take.
const LAST_ASK_MAX: Duration = Duration::from_secs(1);

/// The drift between two clocks: 200 parts in a million, more than any computer has.
const DRIFT_DIVISOR: u32 = 5000;

/// A clock that never goes back, set from samples of another clock.
pub(crate) struct StoreClock(Mutex<State>);

struct State {
    sample: Sample,
    latest: Timestamp,
    /// The local moment up to which the outages are known.
    asked: Instant,
    outages: Arc<Outages>,
}

/// An answer of the store about its time.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) sample: Sample,
    /// When the request was sent.
    pub(crate) asked: Instant,
    /// By how much the time of the store is ahead of the clock of Redis, in microseconds.
    pub(crate) ahead: i64,
    /// The outages, with the one that continues.
    pub(crate) outages: Outages,
}

/// The result of one request for the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// The time of the other clock in microseconds.
    pub(crate) micros: u64,
    /// The local moment of that time.
    pub(crate) at: Instant,
    /// The maximum error, in both directions.
    pub(crate) error: Duration,
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
    pub(crate) fn new(reading: Reading) -> StoreClock {
        let Reading { sample, asked, outages, .. } = reading;
        let (latest, outages) = (Timestamp::default(), Arc::new(outages));
        StoreClock(Mutex::new(State { sample, latest, asked, outages }))
    }

    /// Returns the time. It is never earlier than a time returned before.
    pub(crate) fn now(&self) -> Timestamp {
        lock(&self.0).now()
    }

    /// Returns the time, the outages, and up to when they are known.
    pub(crate) fn moment(&self) -> Moment {
        let mut state = lock(&self.0);
        let now = state.now();
        // A process that asked within this time would have ended an outage.
        let judged = match state.asked.elapsed() < OUTAGE_MIN {
            true => now,
            false => Timestamp::new(state.sample.micros_at(state.asked) / 1000).min(now),
        };
        Moment { now, judged, outages: state.outages.clone() }
    }

    /// Takes over an answer of the store.
    pub(crate) fn hear(&self, reading: Reading) {
        let mut state = lock(&self.0);
        if *state.outages != reading.outages {
            state.outages = Arc::new(reading.outages);
        }
        state.asked = state.asked.max(reading.asked);
        state.judge(reading.sample);
    }
}

impl State {
    fn now(&mut self) -> Timestamp {
        let now = Timestamp::new(self.sample.micros_at(Instant::now()) / 1000);
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Uses a new sample if it is more precise than the current one, or contradicts it.
    fn judge(&mut self, sample: Sample) {
        let known = self.sample;
        let apart = known.micros_at(sample.at).abs_diff(sample.micros);
        let explained = known.error_at(sample.at) + sample.error;
        // The two differ by more than their errors: the other clock was set, or is another one.
        let is_set = explained < Duration::from_micros(apart);
        if is_set || sample.error <= known.error_at(sample.at) {
            self.sample = sample;
        }
    }
}

/// The time of the store as a process asks for it.
pub(crate) struct Time {
    pub(super) clock: StoreClock,
    buckets: Arc<Buckets>,
    /// The id of the process.
    own: Arc<str>,
}

impl Time {
    /// Asks for the time at the start of a process, which knows the latest heartbeat of any other
    /// one.
    pub(crate) async fn start(
        buckets: Arc<Buckets>,
        own: Arc<str>,
        beaten: Option<Timestamp>,
    ) -> Result<Time, LinkError> {
        let ask = Ask { known: Timestamp::default(), own: &own, acts: true, beaten };
        let clock = StoreClock::new(ask.send(&*buckets.servers, &buckets.keys).await?);
        Ok(Time { clock, buckets, own })
    }

    /// See [`StoreClock::now`].
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// See [`StoreClock::moment`].
    pub(crate) fn moment(&self) -> Moment {
        self.clock.moment()
    }

    /// Asks for the time, as a process that can act if its store is healthy and it has a recent
    /// answer: a Redis that stands still executes its request late, with those of all other
    /// processes, and their signs of life would hide the outage.
    pub(crate) async fn ask(
        &self,
        known: Timestamp,
        is_healthy: bool,
    ) -> Result<Reading, LinkError> {
        let acts = is_healthy && self.clock.moment().is_certain();
        let ask = Ask { known, own: &self.own, acts, beaten: None };
        ask.send(&*self.buckets.servers, &self.buckets.keys).await
    }

    /// Gives the last sign of life, so that the outage begins now if no other process can act.
    pub(crate) async fn end(&self, is_healthy: bool) {
        let last = self.ask(self.clock.now(), is_healthy);
        // Without an answer the outage begins at the last request.
        let _ = tokio::time::timeout(LAST_ASK_MAX, last).await;
    }

    /// Follows the time of the store for as long as the store is open.
    pub(crate) async fn follow(&self, is_healthy: impl Fn() -> bool) {
        let (mut was_apart, mut asleep) = (false, time_asleep());
        let (mut asks, mut is_soon) = (0_u32, true);
        loop {
            tokio::time::sleep(if is_soon { ASK_FIRST } else { ASK_EVERY }).await;
            asks = asks.saturating_add(1);
            // The answer ends an outage for this process, and the next request ends it for all.
            is_soon = asks < FIRST_ASKS || !self.clock.moment().is_certain();
            let slept = time_asleep();
            let known = self.clock.now().after(slept.saturating_sub(asleep));
            // While Redis is unreachable, the time advances by the clock of this process.
            let Ok(reading) = self.ask(known, is_healthy()).await else { continue };
            asleep = slept;
            let apart = Duration::from_micros(reading.ahead.unsigned_abs());
            if !apart.is_zero() && !was_apart {
                let behind_or_ahead = if 0 < reading.ahead { "behind" } else { "ahead of" };
                tracing::warn!(
                    ?apart,
                    "clock of Redis is {behind_or_ahead} the time of the store, which returns to \
                     it slowly; set the clocks of all Redis servers with NTP"
                );
            }
            was_apart = !apart.is_zero();
            self.clock.hear(reading);
        }
    }
}

/// Returns for how long this machine has slept: the time of a process does not advance then, but
/// that of other machines does.
fn time_asleep() -> Duration {
    // In this order: a pause between the two looks like less sleep, never like more.
    let [all, awake] = [ClockId::Boottime, ClockId::Monotonic].map(|clock| {
        let time = clock_gettime(clock);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
    });
    all.saturating_sub(awake)
}

/// A request for the time of the store.
pub(crate) struct Ask<'a> {
    /// The time that the process knows; the zero time at its start.
    pub(crate) known: Timestamp,
    /// The id of the process.
    pub(crate) own: &'a str,
    /// Whether the process can act.
    pub(crate) acts: bool,
    /// The latest heartbeat, for a store without a sign of life.
    pub(crate) beaten: Option<Timestamp>,
}

impl Ask<'_> {
    /// Sends the request.
    pub(crate) async fn send(
        &self,
        servers: &dyn Servers,
        keys: &KeySpace,
    ) -> Result<Reading, LinkError> {
        let key = keys.name(Key::Clock);
        let micros = |at: Timestamp| at.millis().saturating_mul(1000);
        let mut call = script::call(&script::TIME, std::slice::from_ref(&key));
        call.arg(micros(self.known)).arg(self.own).arg(u8::from(self.acts));
        call.arg(micros(self.beaten.unwrap_or_default()));
        let asked = Instant::now();
        let answer = script::run(servers, &key, &call).await?;
        let error = asked.elapsed() / 2;
        read(&answer, asked, error).ok_or_else(|| LinkError::Away {
            reason: format!("unexpected answer to TIME: {answer:?}"),
        })
    }
}

fn read(answer: &Value, asked: Instant, error: Duration) -> Option<Reading> {
    let [micros, ahead, outages] = reply::items(answer) else { return None };
    let sample = Sample { micros: reply::number(micros)?, at: asked + error, error };
    let ahead = reply::text(ahead)?.parse().ok()?;
    Some(Reading { sample, asked, ahead, outages: from_text(reply::text(outages)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_clock(sample: Sample) -> StoreClock {
        StoreClock::new(mk_reading(sample, ""))
    }

    fn mk_reading(sample: Sample, outages: &str) -> Reading {
        Reading { sample, asked: Instant::now(), ahead: 0, outages: from_text(outages) }
    }

    fn judge(clock: &StoreClock, sample: Sample) {
        clock.hear(mk_reading(sample, ""));
    }

    fn mk_sample(seconds: u64, error_millis: u64) -> Sample {
        let error = Duration::from_millis(error_millis);
        Sample { micros: seconds * 1_000_000, at: Instant::now(), error }
    }

    #[tokio::test(start_paused = true)]
    async fn the_better_of_two_samples_counts_until_it_is_old() {
        let clock = mk_clock(mk_sample(1000, 1));
        judge(&clock, Sample { micros: 1_000_005_000, ..mk_sample(0, 50) });
        assert_eq!(clock.now(), Timestamp::new(1_000_000));
        assert_eq!(lock(&clock.0).sample.error_at(Instant::now()), Duration::from_millis(1));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(clock.now(), Timestamp::new(1_010_000));
        assert_eq!(lock(&clock.0).sample.error_at(Instant::now()), Duration::from_millis(3));
        judge(&clock, Sample { micros: 1_010_001_000, ..mk_sample(0, 2) });
        assert_eq!(clock.now(), Timestamp::new(1_010_001));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_is_followed_but_never_back() {
        let clock = mk_clock(mk_sample(1000, 1));
        assert_eq!(clock.now(), Timestamp::new(1_000_000));
        judge(&clock, mk_sample(2000, 5));
        assert_eq!(clock.now(), Timestamp::new(2_000_000));
        judge(&clock, mk_sample(1990, 5));
        assert_eq!(clock.now(), Timestamp::new(2_000_000));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(clock.now(), Timestamp::new(2_001_000));
    }

    /// An outage may have begun right after the last answer.
    #[tokio::test(start_paused = true)]
    async fn deadlines_are_judged_up_to_the_last_answer() {
        let clock = mk_clock(mk_sample(1000, 0));
        tokio::time::advance(OUTAGE_MIN - Duration::from_millis(1)).await;
        assert_eq!(clock.moment().judged, Timestamp::new(1_002_999));
        tokio::time::advance(Duration::from_secs(60)).await;
        let Moment { now, judged, outages } = clock.moment();
        assert_eq!((now, judged), (Timestamp::new(1_062_999), Timestamp::new(1_000_000)));
        assert_eq!(outages.iter().count(), 0);
        clock.hear(mk_reading(mk_sample(1063, 0), "1000000-1063000 "));
        let moment = clock.moment();
        assert!(moment.is_certain());
        assert_eq!(moment.outages.uptime(Timestamp::default(), moment.now).as_secs(), 1000);
    }
}
