//! Writes of statuses that keep the counts in their units' records correct.

use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::status::{Status, StatusKey, size_of};
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;

impl Draft<'_> {
    /// Writes or removes a status and updates the counts of its unit, which must exist unless it is
    /// the application itself.
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
        self.key_counts.change(&key, old.is_some(), status.is_some());
        self.recount(&key, old.as_deref(), status.as_deref());
        self.head.mark_visible();
        self.overlay(key, old, status);
    }

    /// Writes a status without a visible change: the revision stays.
    pub(in crate::domain) fn put_status_quietly(
        &mut self,
        key: Arc<StatusKey>,
        status: Arc<Status>,
    ) {
        let old = self.status(&key).cloned();
        self.recount(&key, old.as_deref(), Some(&status));
        self.overlay(key, old, Some(status));
        self.head.mark_quiet();
    }

    /// Moves the deadline of a repeated status. Writes it only if the stored deadline is older by a
    /// third of the ttl. Never moves it back: repeats that other replicas received may have moved
    /// it.
    pub(in crate::domain) fn refresh(
        &mut self,
        key: &Arc<StatusKey>,
        status: &Arc<Status>,
        until: Timestamp,
    ) {
        let until = status.expire_time.map_or(until, |known| known.max(until));
        let written = status.expire_time_written.unwrap_or_default();
        // A record that this draft writes anyway has the deadline itself.
        let is_early = until.since(written) < status.unwritten_max();
        if is_early && !self.statuses.contains(key) {
            self.contacts.move_deadline(key, until);
            return;
        }
        let renewed = Status {
            expire_time: Some(until),
            expire_time_written: Some(until),
            ..(**status).clone()
        };
        let old = self.status(key).cloned();
        self.overlay(key.clone(), old, Some(Arc::new(renewed)));
    }

    /// Writes or removes a status; `old` is its value in the draft so far.
    fn overlay(
        &mut self,
        key: Arc<StatusKey>,
        old: Option<Arc<Status>>,
        after: Option<Arc<Status>>,
    ) {
        self.usage.count_status(old.is_some(), after.is_some());
        self.usage.count_bytes(size_of(old.as_ref()), size_of(after.as_ref()));
        self.statuses.put(key, old, after);
    }

    /// Updates the counts of the unit of a status. The application itself has none.
    fn recount(&mut self, key: &StatusKey, old: Option<&Status>, new: Option<&Status>) {
        let Some(unit) = self.unit(&key.unit) else { return };
        let counted = |status| Counted::of(status, unit.is_newer_than(key, status));
        let recount = Recount {
            old: old.map(counted),
            new: new.map(counted),
            now: self.now,
            silence_ends: self.silence_from_now(),
        };
        if recount.changes(unit) {
            self.units.change(&key.unit, |unit| recount.apply(unit));
        }
    }
}

/// The counts that one status adds to its unit.
#[derive(PartialEq)]
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
    /// Returns whether the record of the unit becomes another one. Most reports change a status
    /// and leave its unit as it is: a record that is not written is not copied, stored or sent.
    fn changes(&self, unit: &Unit) -> bool {
        self.old != self.new
            || unit.stale_since != self.stale_since(unit)
            || unit.silence_ends != self.silence_ends(unit)
    }

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
        unit.stale_since = self.stale_since(unit);
        unit.silence_ends = self.silence_ends(unit);
    }

    fn stale_since(&self, unit: &Unit) -> Option<Timestamp> {
        match unit.stale_count {
            0 => None,
            _ => unit.stale_since.or(Some(self.now)),
        }
    }

    fn silence_ends(&self, unit: &Unit) -> Option<Timestamp> {
        match unit.lost_since {
            // When its successors end it.
            Some(_) => unit.silence_ends,
            None if unit.is_overdue() => unit.silence_ends.or(Some(self.silence_ends)),
            None => None,
        }
    }
}
