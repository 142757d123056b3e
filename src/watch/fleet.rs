//! Totals over all applications, for metrics: updated with each change, never recounted.

use crate::domain::app::Head;
use crate::domain::level::LEVELS;

/// Totals over all applications. By level: in the order of the wire, as [`Level::ALL`].
///
/// [`Level::ALL`]: crate::domain::level::Level::ALL
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fleet {
    /// Applications by their level.
    pub applications: [u64; LEVELS],
    /// Units by their own level.
    pub units: [u64; LEVELS],
    /// Contributions by level.
    pub contributions: [u64; LEVELS],
    /// Units with a status past its TTL.
    pub stale_units: u64,
    /// Lost units.
    pub lost_units: u64,
    /// Uncertain units.
    pub uncertain_units: u64,
    /// Open errors.
    pub faults: u64,
    /// Applications with a lease.
    pub leaders: u64,
}

impl Fleet {
    pub(super) fn add(&mut self, head: &Head) {
        self.change(head, u64::wrapping_add);
    }

    pub(super) fn remove(&mut self, head: &Head) {
        self.change(head, u64::wrapping_sub);
    }

    /// Wrapping, so that only the final sum matters.
    fn change(&mut self, head: &Head, by: fn(u64, u64) -> u64) {
        if head.deleted {
            return;
        }
        let totals = &head.summary.totals;
        let application = &mut self.applications[head.summary.level as usize];
        *application = by(*application, 1);
        for level in 0..LEVELS {
            let (units, contributions) =
                (totals.units_by_level[level], totals.contributions[level]);
            self.units[level] = by(self.units[level], units.into());
            self.contributions[level] = by(self.contributions[level], contributions.into());
        }
        self.faults = by(self.faults, head.fault_count.into());
        self.leaders = by(self.leaders, head.lease.is_some().into());
        self.stale_units = by(self.stale_units, totals.stale_units.into());
        self.lost_units = by(self.lost_units, totals.lost_units.into());
        self.uncertain_units = by(self.uncertain_units, totals.uncertain_units.into());
    }
}
