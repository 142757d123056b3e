//! The checks of deadlines: a lease ends after its length of uptime, however often replicas
//! restart, whatever the clock of the store does.

use std::collections::BTreeMap;

use bellwether::domain::app::Head;
use bellwether::domain::history::Cause;
use bellwether::domain::leadership::Lease;
use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;

/// A shorter time without a replica may count as uptime: the shortest outage, and the interval
/// between two signs of life.
const GAP_MAX: u64 = 4_500;
/// A lease may end so much earlier: the error of a clock, and a small jump of it that is followed.
const EARLY_MAX: u64 = 4_000;
/// A lease must have ended so long after its end, if a replica could act all the time.
const LATE_MAX: u64 = 60_000;

/// The uptime of the replicas together, and of each lease since its last renewal.
#[derive(Default)]
pub struct Uptime {
    /// The simulated milliseconds in which a replica could act, short gaps included.
    total: u64,
    /// When a replica last could, and since when without a gap.
    last: u64,
    since: u64,
    /// The uptime when a lease with this end was written first.
    begins: BTreeMap<(AppName, Timestamp), u64>,
}

impl Uptime {
    /// Records whether a replica can act.
    pub fn on_step(&mut self, is_up: bool, now: u64, step: u64) {
        if is_up {
            if GAP_MAX <= now - self.last {
                self.since = now;
            }
            self.last = now;
        }
        if now - self.last < GAP_MAX {
            self.total += step;
        }
    }

    /// Returns for how long a replica could act without a gap, up to the last time that it could.
    pub fn acted_for(&self) -> u64 {
        self.last - self.since
    }

    /// Checks what a commit does to the deadlines. Returns what is wrong.
    pub fn on_commit(&mut self, before: Option<&Head>, t: &Transition) -> Option<String> {
        let lease = |head: &Head| head.lease.clone();
        let (old, new) = (before.and_then(lease), lease(&t.head));
        let written = self.on_lease(&t.app, old.as_ref(), new.as_ref(), t.time);
        let ends = old.as_ref().and_then(|old| old.ends);
        let has_expired = t.events.iter().any(|event| event.cause == Cause::LeaderExpired);
        // A connected leader that was silent for too long lapses too, at no written time.
        let by_time = |ends: &Timestamp| has_expired && *ends <= t.time;
        let early = match (old, ends.filter(by_time)) {
            (Some(old), Some(ends)) => self.is_early(&t.app, &old, ends),
            _ => None,
        };
        written.or(early)
    }

    /// A lease that is written anew lasts for one length from now on: nothing of an outage is
    /// written.
    fn on_lease(
        &mut self,
        app: &AppName,
        old: Option<&Lease>,
        new: Option<&Lease>,
        now: Timestamp,
    ) -> Option<String> {
        let lease = new?;
        let ends = lease.ends?;
        if old.and_then(|old| old.ends) == Some(ends) {
            return None;
        }
        self.begins.insert((app.clone(), ends), self.total);
        let begin = ends.before(lease.duration);
        (begin != now).then(|| {
            let (begin, now) = (begin.millis(), now.millis());
            format!("the lease of {app} is written as of {begin} at {now}")
        })
    }

    fn is_early(&self, app: &AppName, lease: &Lease, ends: Timestamp) -> Option<String> {
        let begin = self.begins.get(&(app.clone(), ends))?;
        let (uptime, length) = (self.total - begin, lease.duration.as_millis() as u64);
        // The time of the store may be a hundredth faster than a clock.
        let is_early = uptime + EARLY_MAX + length / 50 < length;
        is_early.then(|| format!("the lease of {app} ends after {uptime} ms of uptime"))
    }

    /// Returns whether a lease should have ended long ago.
    pub fn is_late(&self, lease: &Lease, outages: &Outages, now: Timestamp) -> bool {
        let Some(ends) = lease.ends else { return false };
        let late = now.since(outages.moved(ends, lease.duration)).as_millis() as u64;
        LATE_MAX < late && LATE_MAX < self.acted_for()
    }
}
