//! The lease in a draft: granted, extended, ended, and the line of candidates.

use std::time::Duration;

use crate::domain::draft::Draft;
use crate::domain::model::history::{Cause, Change, StatusEvent};
use crate::domain::model::leadership::Lease;
use crate::domain::model::name::UnitName;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;
use crate::domain::rules::remove_status::remove_all;

/// Ends an expired lease. Must precede every other decision.
pub fn expire_lease(draft: &mut Draft<'_>) {
    if draft.head.lease.as_ref().is_some_and(|lease| is_over(draft, lease)) {
        end_lease(draft, Cause::LeaderExpired);
    }
}

/// Returns whether a lease has ended, not counting outages.
pub fn is_over(draft: &Draft<'_>, lease: &Lease) -> bool {
    draft.deadlines().of_lease(lease).is_some_and(|ends| ends <= draft.judged)
}

/// Extends the lease after a begin or a session change of its holder: for the same incarnation
/// it lasts as long as the session.
pub fn keep_lease(draft: &mut Draft<'_>, name: &UnitName) {
    let incarnation = draft.unit(name).map_or(0, |unit| unit.incarnation);
    let is_theirs = |lease: &Lease| lease.holder == *name && lease.incarnation == incarnation;
    if let Some(lease) = draft.head.lease.clone().filter(is_theirs) {
        extend(draft, lease);
    }
}

/// Grants a free lease to the next candidate once a waiting unit returns.
pub fn welcome_candidate(draft: &mut Draft<'_>, name: &UnitName) {
    if draft.unit(name).is_some_and(|unit| unit.candidate.is_some()) {
        lead_if_nobody_does(draft);
    }
}

/// Grants the lease to the next candidate if there is no leader.
pub fn lead_if_nobody_does(draft: &mut Draft<'_>) {
    if draft.head.lease.is_some() || draft.head.config.external_leader.is_some() {
        return;
    }
    if let Some(next) = next_in_line(draft) {
        grant(draft, next, None, Cause::LeaderClaimed);
    }
}

/// Ends the lease because leadership is decided outside from now on.
pub fn revoke_lease(draft: &mut Draft<'_>) {
    if draft.head.lease.is_some() {
        drop_leaders_status(draft);
        log_leader(draft, None, Cause::LeaderReleased);
        draft.head.set_lease(None);
    }
}

/// Ends the lease of a leaving unit. Call it after the removal is drafted, so that the unit is
/// not its own successor.
pub fn leave_lease(draft: &mut Draft<'_>, name: &UnitName) {
    if draft.head.lease.as_ref().is_some_and(|lease| lease.holder == *name) {
        end_lease(draft, Cause::LeaderReleased);
    }
}

/// Moves a lease to a new epoch after a data loss: the store may have lost a later grant, so
/// the old epoch may not be unique.
pub fn renew_lease_after_loss(draft: &mut Draft<'_>) {
    if let Some(lease) = draft.head.lease.clone() {
        grant(draft, lease.holder, Some(lease.duration), Cause::Doubted);
    }
}

/// Extends the lease. Returns whether that is a visible change: a lease that lasts as long as a
/// session does not change.
pub fn extend(draft: &mut Draft<'_>, lease: Lease) -> bool {
    let ends = ends_of(draft, &lease.holder, lease.duration);
    let extended = Lease { ends, ..lease };
    if draft.head.lease.as_ref() == Some(&extended) {
        return false;
    }
    draft.head.set_lease(Some(extended));
    true
}

fn ends_of(draft: &Draft<'_>, holder: &UnitName, duration: Duration) -> Option<Timestamp> {
    let is_connected = draft.unit(holder).is_some_and(|unit| unit.session().is_some());
    (!is_connected).then(|| draft.now.after(duration))
}

/// Grants the lease under a new epoch.
pub fn grant(draft: &mut Draft<'_>, name: UnitName, duration: Option<Duration>, cause: Cause) {
    let duration = duration.unwrap_or(draft.head.config.lease_duration);
    let incarnation = draft.unit(&name).map_or(0, |unit| unit.incarnation);
    let ends = ends_of(draft, &name, duration);
    unqueue(draft, &name);
    let epoch = draft.next_count(draft.head.lease_epoch);
    draft.head.set_lease_epoch(epoch);
    log_leader(draft, Some(&name), cause);
    let acquire_time = draft.now;
    draft.head.set_lease(Some(Lease { holder: name, incarnation, duration, acquire_time, ends }));
}

/// Ends the lease; the next waiting unit leads immediately.
pub fn end_lease(draft: &mut Draft<'_>, cause: Cause) {
    drop_leaders_status(draft);
    log_leader(draft, None, cause);
    draft.head.set_lease(None);
    lead_if_nobody_does(draft);
}

/// Returns the present candidate that has waited longest. Visits each unit.
fn next_in_line(draft: &Draft<'_>) -> Option<UnitName> {
    let (judged, deadlines) = (draft.judged, draft.deadlines());
    let is_there = |unit: &Unit| {
        unit.candidate.is_some()
            && unit.lost_since.or(unit.quiet_since).is_none()
            && deadlines.of_silence(unit).is_none_or(|at| judged < at)
            && !unit.has_departed()
    };
    let next = draft.units.matching(is_there).min_by_key(|(_, unit)| unit.candidate);
    next.map(|(name, _)| name.clone())
}

/// Puts a unit at the end of the line of candidates, unless it waits already.
pub fn queue(draft: &mut Draft<'_>, name: &UnitName) {
    let mut unit = draft.unit(name).cloned().unwrap_or_default();
    if unit.candidate.is_some() {
        return;
    }
    unit.candidate = Some(draft.head.take_candidate_number());
    // Not a quiet commit: every replica shows the candidates, and any of them may grant the
    // lease.
    draft.put_unit(name.clone(), Some(unit));
}

/// Removes a unit from the line of candidates. Returns whether it waited.
pub fn unqueue(draft: &mut Draft<'_>, name: &UnitName) -> bool {
    let Some(unit) = draft.unit(name).filter(|unit| unit.candidate.is_some()).cloned() else {
        return false;
    };
    draft.put_unit(name.clone(), Some(Unit { candidate: None, ..unit }));
    true
}

/// Drops the leader's statuses of the application with the epoch, if so configured.
pub fn drop_leaders_status(draft: &mut Draft<'_>) {
    if !draft.head.config.drop_leader_status {
        return;
    }
    withdraw(draft, Cause::LeaderEnded);
    let own = draft.keys_of(&UnitName::application(), None);
    remove_all(draft, own, Cause::LeaderEnded);
}

/// Withdraws the status of the application as a whole. Returns whether there was one.
pub fn withdraw(draft: &mut Draft<'_>, cause: Cause) -> bool {
    let Some(old) = draft.head.take_application_status() else { return false };
    let event = draft.event(cause).of_unit(&UnitName::application());
    draft.log(StatusEvent { from: Some(old.level), ..event });
    true
}

/// Adds an event: for the unit that begins to lead, or for the one that stops.
fn log_leader(draft: &mut Draft<'_>, granted: Option<&UnitName>, cause: Cause) {
    let holder = draft.head.lease.as_ref().map(|lease| lease.holder.clone());
    let Some(unit) = granted.or(holder.as_ref()).cloned() else { return };
    let name = |unit: Option<&UnitName>| unit.map_or("", UnitName::as_str).to_string();
    let mut changes = vec![Change::new("leader", &name(holder.as_ref()), &name(granted))];
    if granted.is_some() {
        changes.push(Change::new("lease_epoch", "", &draft.head.lease_epoch.to_string()));
    }
    let message = match granted {
        Some(unit) => format!("{unit} leads, with lease epoch {}", draft.head.lease_epoch),
        None => format!("{unit} leads no longer"),
    };
    let message = message.into();
    draft.log(StatusEvent { message, changes, ..draft.event(cause).of_unit(&unit) });
}
