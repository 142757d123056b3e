//! The time of a store, with the outages in which no replica could act.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::outage::{Downtime, Outages};
use crate::domain::time::Timestamp;

/// The shortest time without a sign of life that is an outage of a running store. Each process
/// gives a sign of life at least every second; a busy one gives it late.
pub const OUTAGE_MIN: Duration = Duration::from_secs(3);

/// A moment of the store's time, as a decision uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The time of the store's clock.
    pub now: Timestamp,
    /// Up to when deadlines may be judged: [`now`](Moment::now), or earlier while this process does
    /// not know whether an outage has begun then.
    pub judged: Timestamp,
    /// Every outage that ended before `judged`.
    pub outages: Arc<Outages>,
}

impl Moment {
    /// Returns whether all deadlines up to now may be judged.
    pub fn is_certain(&self) -> bool {
        self.now <= self.judged
    }
}

/// The signs of life of the processes of a store, and the outages between them.
#[derive(Debug, Clone, Default)]
pub struct Life {
    /// The latest sign of life; the zero time before the first one.
    pub alive: Timestamp,
    /// The outages.
    pub outages: Arc<Outages>,
}

impl Life {
    /// Records the start of a process while no other process can act: the time since the last sign
    /// of life is an outage, however short.
    pub fn start(&mut self, now: Timestamp) {
        self.record(now, Duration::ZERO);
    }

    /// Records a sign of life of a process that can act.
    pub fn mark(&mut self, now: Timestamp) {
        self.record(now, OUTAGE_MIN);
    }

    /// Returns the outages, with the one that continues at `now`, if there is one.
    pub fn outages_at(&self, now: Timestamp) -> Arc<Outages> {
        let mut life = self.clone();
        life.mark(now);
        life.outages
    }

    fn record(&mut self, now: Timestamp, shortest: Duration) {
        let gap = now.since(self.alive);
        if self.alive != Timestamp::default() && shortest <= gap && !gap.is_zero() {
            Arc::make_mut(&mut self.outages).add(Downtime { from: self.alive, until: now });
        }
        self.alive = self.alive.max(now);
    }
}

/// Writes outages as text: `from-until` of each in milliseconds, with a space after it.
pub(super) fn to_text(outages: &Outages) -> String {
    let each = outages.iter().map(|o| format!("{}-{} ", o.from.millis(), o.until.millis()));
    each.collect()
}

/// Reads outages from text. Leaves out what is none.
pub fn from_text(text: &str) -> Outages {
    let mut outages = Outages::default();
    for each in text.split_whitespace() {
        let Some((from, until)) = each.split_once('-') else { continue };
        if let (Ok(from), Ok(until)) = (from.parse(), until.parse()) {
            outages.add(Downtime { from: Timestamp::new(from), until: Timestamp::new(until) });
        }
    }
    outages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::new(millis)
    }

    #[test]
    fn a_gap_between_signs_of_life_is_an_outage() {
        let mut life = Life::default();
        life.start(at(5_000));
        life.mark(at(7_999));
        assert_eq!(to_text(&life.outages), "");
        assert_eq!(to_text(&life.outages_at(at(10_999))), "7999-10999 ");
        life.mark(at(7_000));
        life.mark(at(10_999));
        life.start(at(11_000));
        life.start(at(11_000));
        assert_eq!(to_text(&life.outages), "7999-10999 10999-11000 ");
        assert_eq!(life.alive, at(11_000));
    }

    #[test]
    fn outages_are_read_as_they_were_written() {
        for (text, read) in [
            ("", ""),
            ("5-7 8-9 ", "5-7 8-9 "),
            ("5-7  8-9", "5-7 8-9 "),
            ("5-7 6-9 x 7- -8 9-1", "5-7 7-9 "),
        ] {
            assert_eq!(to_text(&from_text(text)), read);
        }
    }
}
