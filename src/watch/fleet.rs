//! Totals over all applications, for metrics: updated with each change, never recounted.

use crate::domain::app::Head;
use crate::domain::level::LEVELS;
use crate::telemetry::FleetCounts;

impl FleetCounts {
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
        let change = |count: &mut u64, part: u64| *count = by(*count, part);
        let totals = &head.summary.totals;
        change(&mut self.applications[head.summary.level as usize], 1);
        for level in 0..LEVELS {
            change(&mut self.units[level], totals.units_by_level[level].into());
            change(&mut self.statuses[level], totals.contributions[level].into());
        }
        change(&mut self.faults, head.open_faults.count.into());
        change(&mut self.leaders, head.lease.is_some().into());
        let silent = [totals.stale_units, totals.lost_units, totals.uncertain_units];
        for (count, part) in self.silent_units.iter_mut().zip(silent) {
            change(count, part.into());
        }
    }
}
