//! The rule for all deadlines: each counts the time in which a replica could act.
//!
//! Records have the deadlines as they were set. These functions add the outages since then. Moments
//! that a client names (callbacks, the time of a retry, the deadline of an operation, the expiry of
//! the leader's status) are no such promises, and do not move.

use std::time::Duration;

use crate::domain::model::fault::Fault;
use crate::domain::model::leadership::Lease;
use crate::domain::model::limits::OPERATION_UNCLAIMED_MAX;
use crate::domain::model::operation::Operation;
use crate::domain::model::outage::Outages;
use crate::domain::model::policy::Config;
use crate::domain::model::status::Status;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;

/// The deadlines of one application.
#[derive(Clone, Copy)]
pub struct Deadlines<'a> {
    pub(in crate::domain) outages: &'a Outages,
    pub(in crate::domain) config: &'a Config,
}

impl Deadlines<'_> {
    /// Returns when a deadline ends. Most servers had no outage, and need no length then.
    fn moved(self, at: Timestamp, length: impl FnOnce() -> Duration) -> Timestamp {
        match self.outages.is_empty() {
            true => at,
            false => self.outages.moved(at, length()),
        }
    }

    /// Returns when a status becomes stale without a repeat, if it is not yet.
    pub fn of_ttl(self, status: &Status) -> Option<Timestamp> {
        let at = status.deadline()?;
        Some(self.moved(at, || status.ttl().unwrap_or_default()))
    }

    /// Returns when a status ends without a repeat.
    pub fn of_end(self, status: &Status) -> Option<Timestamp> {
        let at = status.end_time?;
        Some(self.moved(at, || status.end_after().unwrap_or_default()))
    }

    /// Returns when time alone changes a status: it becomes stale, or ends.
    pub fn of_status(self, status: &Status) -> Option<Timestamp> {
        earlier(self.of_ttl(status), self.of_end(status))
    }

    /// Returns when a flapping status is calm.
    pub fn of_calm(self, status: &Status) -> Option<Timestamp> {
        let calm_after = self.config.damping.calm_after;
        status.calm_time().map(|at| self.outages.moved(at, calm_after))
    }

    /// Returns when a unit becomes quiet, or lost, without a report, or may be removed as lost.
    pub fn of_silence(self, unit: &Unit) -> Option<Timestamp> {
        let moved = |at: Timestamp, length: Duration| self.outages.moved(at, length);
        if let Some(at) = unit.silence_ends {
            let Config { lost_after, replaced_after, .. } = *self.config;
            let length = unit.lost_since.map_or(lost_after, |_| replaced_after);
            return Some(moved(at, length));
        }
        let ttl = unit.promise()?;
        let other = unit.not_before.map(|at| moved(at, ttl));
        other.max(Some(moved(unit.last_seen.after(ttl), ttl)))
    }

    /// Returns when time alone changes a unit: it becomes quiet or lost, or a callback is due.
    pub fn of_unit(self, unit: &Unit) -> Option<Timestamp> {
        earlier(self.of_silence(unit), unit.next_callback())
    }

    /// Returns when a fault moves to its next stage. The stage is as of the last error, or as of
    /// the last change of the visible level.
    pub fn of_stage(self, fault: &Fault) -> Option<Timestamp> {
        let begin = fault.last.max(fault.since);
        fault.stage_ends.map(|at| self.outages.moved(at, at.since(begin)))
    }

    /// Returns when time alone changes a fault.
    pub fn of_fault(self, fault: &Fault) -> Option<Timestamp> {
        earlier(self.of_stage(fault), fault.ask_time)
    }

    /// Returns when a lease of leadership ends, unless it lasts as long as a session.
    pub fn of_lease(self, lease: &Lease) -> Option<Timestamp> {
        lease.ends.map(|at| self.outages.moved(at, lease.duration))
    }

    /// Returns when the lease of an operation lapses.
    pub fn of_holder(self, operation: &Operation) -> Option<Timestamp> {
        let lease = operation.lease.as_ref()?;
        Some(self.outages.moved(lease.expire_time, operation.lease_duration))
    }

    /// Returns an operation with the end of its lease that is in force.
    pub fn shown(self, operation: &Operation) -> Operation {
        let ends = self.of_holder(operation);
        let mut shown = operation.clone();
        if let (Some(lease), Some(ends)) = (&mut shown.lease, ends) {
            lease.expire_time = ends;
        }
        shown
    }

    /// Returns when an operation has waited too long for a worker.
    pub(in crate::domain) fn of_neglect(self, operation: &Operation) -> Option<Timestamp> {
        let length = OPERATION_UNCLAIMED_MAX;
        let ends = operation.unclaimed_since?.after(length);
        Some(self.outages.moved(ends, length))
    }

    /// Returns when time alone changes an operation next.
    pub fn of_operation(self, operation: &Operation) -> Option<Timestamp> {
        let neglect = self.of_neglect(operation).filter(|_| !operation.neglected);
        let lease = self.of_holder(operation);
        lease.into_iter().chain(operation.deadline_due()).chain(neglect).min()
    }
}

/// Returns the earlier of two deadlines.
fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
