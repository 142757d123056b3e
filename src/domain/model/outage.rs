//! Outages: the times in which no replica could act. A deadline counts the other times only.
//!
//! Stored deadlines contain no outages: [`Outages::moved`] adds them whenever a deadline is judged
//! or shown. So every replica gets the same end, and a restart adds no more than its own outage.

use std::time::Duration;

use crate::domain::model::time::Timestamp;

/// Maximum number of outages that are kept: more than a server has that is restarted every two
/// seconds during a lease of a minute. Older ones are joined.
pub const OUTAGES_MAX: usize = 64;

/// One outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Downtime {
    /// When a replica was last able to act.
    pub from: Timestamp,
    /// When a replica was able to act again.
    pub until: Timestamp,
}

impl Downtime {
    fn length(&self) -> Duration {
        self.until.since(self.from)
    }
}

/// The outages of a store, oldest first. They do not overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outages(Vec<Downtime>);

impl Outages {
    /// Adds an outage that is later than all others. Ignores one without length, and the part of
    /// one that is known already.
    ///
    /// The two oldest of too many are joined: together they are as long as before, and end with
    /// the later one. So a deadline that began before both moves as before, and one that began
    /// between them moves by at most the length of the older one in addition.
    pub fn add(&mut self, outage: Downtime) {
        let known = self.0.last().map_or(Timestamp::default(), |last| last.until);
        let outage = Downtime { from: outage.from.max(known), ..outage };
        if outage.until <= outage.from {
            return;
        }
        self.0.push(outage);
        if OUTAGES_MAX < self.0.len() {
            let older = self.0.remove(0);
            let joined = &mut self.0[0];
            joined.from = joined.from.before(older.length());
        }
    }

    /// Returns whether there was none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the outages, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Downtime> {
        self.0.iter()
    }

    /// Returns when a deadline ends: `length` without the outages after its begin. The begin is
    /// `length` before `deadline`.
    pub fn moved(&self, deadline: Timestamp, length: Duration) -> Timestamp {
        let begin = deadline.before(length);
        let first = self.0.partition_point(|outage| outage.until <= begin);
        let mut ends = deadline;
        for outage in &self.0[first..] {
            if ends <= outage.from {
                break;
            }
            ends = ends.after(outage.until.since(outage.from.max(begin)));
        }
        ends
    }

    /// Returns how much of the time between two moments is not an outage.
    pub fn uptime(&self, from: Timestamp, until: Timestamp) -> Duration {
        let within = |outage: &Downtime| outage.until.min(until).since(outage.from.max(from));
        until.since(from).saturating_sub(self.0.iter().map(within).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::new(seconds * 1000)
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn outages(of: &[(u64, u64)]) -> Outages {
        let mut outages = Outages::default();
        of.iter().for_each(|(a, b)| outages.add(Downtime { from: at(*a), until: at(*b) }));
        outages
    }

    #[test]
    fn a_deadline_moves_by_the_outages_after_its_begin() {
        for (of, ends) in [
            (&[][..], 115),
            // Before the begin, and after the end.
            (&[(90, 100)], 115),
            (&[(115, 130)], 115),
            (&[(105, 108)], 118),
            // The begin is within the outage: an outage that was not noticed in time.
            (&[(95, 103)], 118),
            (&[(114, 134)], 135),
            // The second is within reach because of the first.
            (&[(105, 108), (117, 120)], 121),
            (&[(105, 108), (118, 120)], 118),
            (&[(101, 102), (103, 104), (105, 106)], 118),
        ] {
            assert_eq!(outages(of).moved(at(115), secs(15)), at(ends), "{of:?}");
        }
    }

    /// A server that is up for two seconds and down for one, again and again.
    #[test]
    fn a_lease_in_a_loop_of_restarts_ends_after_its_length_of_uptime() {
        let mut outages = Outages::default();
        for n in 0..500 {
            outages.add(Downtime { from: at(100 + 3 * n + 2), until: at(100 + 3 * n + 3) });
        }
        let begin = at(100 + 3 * 470);
        assert_eq!(outages.0.len(), OUTAGES_MAX);
        assert_eq!(outages.moved(begin.after(secs(15)), secs(15)), begin.after(secs(22)));
        // One that began long before moves by all of them.
        assert_eq!(outages.moved(at(1200), secs(1200)), at(1200 + 500));
        assert_eq!(outages.uptime(at(0), at(1600)), secs(1100));
    }

    #[test]
    fn an_outage_counts_once() {
        let mut of = outages(&[(100, 110)]);
        of.add(Downtime { from: at(105), until: at(112) });
        of.add(Downtime { from: at(101), until: at(112) });
        of.add(Downtime { from: at(120), until: at(120) });
        assert_eq!(of, outages(&[(100, 110), (110, 112)]));
        assert_eq!(of.uptime(at(90), at(111)), secs(10));
        assert_eq!(of.uptime(at(111), at(105)), secs(0));
    }
}
