//! The time of the simulated store: what `time.lua` does. The clock of the store can be set; the
//! time of the store advances at the pace of the replicas.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::outage::Outages;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::presence::ReplicaId;
use bellwether::store::moment::Life;

/// The time at which runs begin.
pub const BEGINNING: Timestamp = Timestamp::new(1_800_000_000_000);
/// A difference that is smaller is followed.
const TOLERANCE: Duration = Duration::from_secs(1);
/// A sign of life that is older does not confirm a time.
const CONFIRMED_MAX: Duration = Duration::from_secs(2);

/// The clock of the store, and the difference of the store's time to it, in milliseconds.
pub struct StoreTime {
    clock: i64,
    difference: i64,
    since: i64,
    by: Option<ReplicaId>,
    /// The signs of life of the replicas.
    pub life: Life,
}

/// A request for the time.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// The time that the replica knows; the zero time at its start.
    pub known: Timestamp,
    /// The replica.
    pub own: ReplicaId,
    /// Whether it can act.
    pub acts: bool,
    /// Whether no other replica can.
    pub is_alone: bool,
}

/// The answer: the time, and the outages until then.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The time of the store.
    pub time: Timestamp,
    /// The outages, with the one that continues.
    pub outages: Arc<Outages>,
}

impl StoreTime {
    /// Returns the time of a store whose clock is right.
    pub fn new(now: Timestamp) -> StoreTime {
        let clock = i64::try_from(now.millis()).unwrap_or_default();
        StoreTime { clock, difference: 0, since: clock, by: None, life: Life::default() }
    }

    /// Lets the clock go on.
    pub fn advance(&mut self, millis: u64) {
        self.set(i64::try_from(millis).unwrap_or_default());
    }

    /// Sets the clock ahead, or back.
    pub fn set(&mut self, by: i64) {
        self.clock += by;
    }

    /// Returns the time without a request.
    pub fn now(&self) -> Timestamp {
        at(self.clock + self.difference_now())
    }

    fn difference_now(&self) -> i64 {
        let passed = (self.clock - self.since).max(0);
        match self.difference {
            behind @ 1.. => (behind - passed / 10).max(0),
            ahead => (ahead + passed / 100).min(0),
        }
    }

    /// Answers a replica.
    pub fn ask(&mut self, ask: Ask) -> Answer {
        let latest = ask.known.max(self.life.alive);
        let reached = self.now();
        let is_confirmed = self.by.is_some_and(|by| by != ask.own)
            && reached.since(self.life.alive) < CONFIRMED_MAX;
        let is_start = ask.known == Timestamp::default();
        let is_behind = reached.after(TOLERANCE) < latest;
        let is_ahead = latest.after(TOLERANCE) < reached && !is_start && !is_confirmed;
        if is_behind || is_ahead {
            self.difference = i64::try_from(latest.millis()).unwrap_or_default() - self.clock;
            self.since = self.clock;
        }
        let time = self.now();
        if ask.acts {
            match is_start && ask.is_alone {
                true => self.life.start(time),
                false => self.life.mark(time),
            }
            self.by = Some(ask.own);
        }
        Answer { time, outages: self.life.outages_at(time) }
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::new(u64::try_from(millis).unwrap_or_default())
}
