//! Writes of statuses that keep the counts in their units' records correct.

use std::sync::Arc;

use crate::domain::app::Unit;
use crate::domain::draft::Draft;
use crate::domain::status::{Status, StatusKey};
use crate::domain::time::Timestamp;

impl Draft<'_> {
    /// Writes or removes a status and updates the counts of its unit, which must exist.
    pub(in crate::domain) fn put_status(
        &mut self,
        key: Arc<StatusKey>,
        status: Option<Arc<Status>>,
    ) {
        let old = self.status(&key).cloned();
        self.put_status_over(key, old, status);
    }

    /// Does the same, given the value of the status in the draft so far.
    pub(in crate::domain) fn put_status_over(
        &mut self,
        key: Arc<StatusKey>,
        old: Option<Arc<Status>>,
        status: Option<Arc<Status>>,
    ) {
        self.count_key(&key, old.is_some(), status.is_some());
        let recount = self.recount(&key, old.as_deref(), status.as_deref());
        let base = self.base;
        let drafted = self.units.entry(key.unit.clone());
        let unit = drafted.or_insert_with(|| base.units.get(&key.unit).cloned());
        self.unit_count += usize::from(unit.is_none());
        recount.apply(unit.get_or_insert_default());
        self.changed = true;
        self.overlay(key, old, status);
    }

    /// Writes a status without a visible change: the revision stays.
    pub(in crate::domain) fn put_status_quietly(
        &mut self,
        key: Arc<StatusKey>,
        status: Arc<Status>,
    ) {
        let old = self.status(&key).cloned();
        let recount = self.recount(&key, old.as_deref(), Some(&status));
        let known = self.unit(&key.unit);
        let mut unit = known.cloned().unwrap_or_default();
        recount.apply(&mut unit);
        if known != Some(&unit) {
            self.put_unit_quietly(key.unit.clone(), unit);
        }
        self.overlay(key, old, Some(status));
        self.held = true;
    }

    fn recount(&self, key: &StatusKey, old: Option<&Status>, new: Option<&Status>) -> Recount {
        let unit = self.unit(&key.unit);
        let outlives = |status: &Status| unit.is_some_and(|unit| unit.is_newer_than(key, status));
        Recount {
            old: old.map(|old| Counted::of(old, outlives(old))),
            new: new.map(|new| Counted::of(new, outlives(new))),
            now: self.now,
            silence_ends: self.silence_from_now(),
        }
    }
}

/// The counts that one status adds to its unit.
struct Counted {
    ttl: u32,
    stale: u32,
    outlived: u32,
}

impl Counted {
    fn of(status: &Status, is_outlived: bool) -> Counted {
        Counted {
            ttl: u32::from(status.expire_time.is_some()),
            stale: u32::from(status.stale),
            outlived: u32::from(is_outlived),
        }
    }
}

/// The change of a unit's counts when one of its statuses changes.
struct Recount {
    old: Option<Counted>,
    new: Option<Counted>,
    now: Timestamp,
    /// When the unit is lost if it is silent from now on.
    silence_ends: Timestamp,
}

impl Recount {
    fn apply(&self, unit: &mut Unit) {
        if let Some(old) = &self.old {
            unit.status_count -= 1;
            unit.ttl_count -= old.ttl;
            unit.stale_count -= old.stale;
            // Statuses from before this count existed are not in it.
            unit.outlived_count = unit.outlived_count.saturating_sub(old.outlived);
        }
        if let Some(new) = &self.new {
            unit.status_count += 1;
            unit.ttl_count += new.ttl;
            unit.stale_count += new.stale;
            unit.outlived_count += new.outlived;
        }
        unit.stale_since = match unit.stale_count {
            0 => None,
            _ => unit.stale_since.or(Some(self.now)),
        };
        unit.silence_ends = match unit.is_overdue() && unit.lost_since.is_none() {
            true => unit.silence_ends.or(Some(self.silence_ends)),
            false => None,
        };
    }
}
