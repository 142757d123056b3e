//! Contact with a unit: the check of a sender, and the marks that its contact removes.

use crate::domain::draft::Draft;
use crate::domain::model::history::Cause;
use crate::domain::model::limits::{INCARNATION_MAX, INCARNATION_STEP_MAX, REMOVED_FOR};
use crate::domain::model::name::UnitName;
use crate::domain::model::status::Kind;
use crate::domain::model::unit::departure::Departure;
use crate::domain::model::unit::presence::Presence;
use crate::domain::model::unit::refused::{IdentityError, ReporterError};
use crate::domain::model::unit::{Reporter, Unit};
use crate::domain::rules::callback::cancel_callback;
use crate::domain::rules::lookup::unit_exists;
use crate::domain::rules::remove_status::remove_all;
use crate::domain::rules::succession::{leave_lease, welcome_candidate};

/// Checks the sender of a report: it is valid, and its unit may come back if it was removed. One
/// look at the unit answers both.
pub fn admit(draft: &Draft<'_>, reporter: &Reporter) -> Result<(), IdentityError> {
    let known = draft.unit(&reporter.unit);
    check(draft, reporter, known)?;
    check_return(draft, reporter, known)
}

/// Checks that the sender is the newest incarnation, one that may have been assigned, and uses
/// the newest session.
pub fn check_reporter(draft: &Draft<'_>, reporter: &Reporter) -> Result<(), IdentityError> {
    check(draft, reporter, draft.unit(&reporter.unit))
}

/// Checks that the sender is valid, and its unit known.
pub fn check_known_reporter(draft: &Draft<'_>, reporter: &Reporter) -> Result<(), ReporterError> {
    unit_exists(draft, &reporter.unit)?;
    Ok(check_reporter(draft, reporter)?)
}

fn check(
    draft: &Draft<'_>,
    reporter: &Reporter,
    known: Option<&Unit>,
) -> Result<(), IdentityError> {
    let Reporter { unit, incarnation, session } = reporter;
    let current = known.map_or(0, |u| u.incarnation);
    if let Some(given) = incarnation.filter(|given| *given < current) {
        return Err(IdentityError::StaleIncarnation { unit: unit.clone(), given, current });
    }
    if let Some(given) = incarnation {
        may_have_begun(draft, unit, *given, current)?;
    }
    if let Some(given) = incarnation.filter(|given| is_removed(draft, unit, known, *given)) {
        return Err(IdentityError::UnitRemoved { unit: unit.clone(), given });
    }
    if session.is_some() && known.and_then(Unit::session) != *session {
        return Err(IdentityError::SessionOver { unit: unit.clone() });
    }
    Ok(())
}

/// Returns whether this incarnation of a unit was removed, or has left for good.
fn is_removed(draft: &Draft<'_>, name: &UnitName, known: Option<&Unit>, incarnation: u64) -> bool {
    match known {
        Some(unit) if unit.has_departed() && incarnation <= unit.incarnation => true,
        // Any other unit began after the removal, so its incarnation is newer.
        Some(unit) if unit.incarnation != 0 => false,
        // A unit that had no incarnation fences none.
        _ => draft.requests.fence(name).is_some_and(|fence| fence != 0 && incarnation <= fence),
    }
}

/// Rejects a report without an incarnation of a unit that was just removed: it was sent before the
/// removal, and would bring the unit back.
pub fn check_return(
    draft: &Draft<'_>,
    reporter: &Reporter,
    known: Option<&Unit>,
) -> Result<(), IdentityError> {
    if reporter.session.is_some() || reporter.incarnation.is_some_and(|given| given != 0) {
        return Ok(());
    }
    let removed_at = match known {
        Some(unit) if unit.has_departed() => Some(unit.last_seen),
        Some(_) => None,
        None => draft.requests.removed_at(&reporter.unit),
    };
    let returns = removed_at.map(|at| at.after(REMOVED_FOR));
    match returns.filter(|at| draft.now < *at) {
        None => Ok(()),
        Some(at) => {
            let (unit, wait) = (reporter.unit.clone(), at.since(draft.now));
            Err(IdentityError::JustRemoved { unit, wait })
        }
    }
}

/// Rejects an incarnation that was never assigned: accepting it would fence the unit for ever.
fn may_have_begun(
    draft: &Draft<'_>,
    unit: &UnitName,
    given: u64,
    known: u64,
) -> Result<(), IdentityError> {
    let is_unknown = |newest: u64| {
        newest.max(newest.saturating_add(INCARNATION_STEP_MAX).min(INCARNATION_MAX)) < given
    };
    if !is_unknown(known) {
        return Ok(());
    }
    let current = known.max(draft.requests.fence(unit).unwrap_or_default());
    match is_unknown(current) {
        true => Err(IdentityError::UnknownIncarnation { unit: unit.clone(), given, current }),
        false => Ok(()),
    }
}

/// Returns whether the command is contact from the unit, even if it changes nothing: it comes
/// in the unit's session or from a new incarnation. Without both, any client can ask for what
/// is already done, which is no proof of contact.
pub fn is_contact(draft: &Draft<'_>, reporter: &Reporter) -> bool {
    let current = draft.unit(&reporter.unit).map_or(0, |unit| unit.incarnation);
    reporter.session.is_some() || reporter.incarnation.is_some_and(|given| current < given)
}

/// Records contact with the unit: it exists and is neither lost nor uncertain. Returns whether
/// that is a visible change.
pub fn note_contact(draft: &mut Draft<'_>, reporter: &Reporter) -> bool {
    let name = &reporter.unit;
    draft.contacts.add(name);
    let incarnation = reporter.incarnation.unwrap_or_default();
    if draft.unit(name).is_some_and(|unit| unit.is_stopping() && unit.incarnation < incarnation) {
        end_last_words(draft, name);
    }
    let known = draft.unit(name);
    if known.is_some_and(|unit| unit.is_well(incarnation) && !unit.is_news(draft.now)) {
        return false;
    }
    let before = known.cloned().unwrap_or_default();
    let is_new = before.incarnation < incarnation;
    let contacted = Unit {
        // The open session belongs to the earlier incarnation.
        presence: match is_new || before.has_departed() {
            true => Presence::Unbound,
            false => before.presence,
        },
        uncertain_since: None,
        ..present(draft, name, &before, incarnation)
    };
    // A report about another status is contact too, and restarts the silence period.
    let silence_ends = contacted.is_overdue().then(|| draft.silence_from_now());
    let contacted = Unit { silence_ends, ..contacted };
    let returned = !before.is_believed() || before.quiet_since.is_some();
    let is_shown = returned || before.has_departed() || contacted.incarnation != before.incarnation;
    if known.is_some() && !is_shown {
        if contacted != before || contacted.is_news(draft.now) {
            draft.units.put(name.clone(), Some(contacted));
        }
        return false;
    }
    draft.put_unit(name.clone(), Some(contacted));
    match is_new {
        true => leave_lease(draft, name),
        false => welcome_candidate(draft, name),
    }
    if returned {
        draft.log(draft.event(Cause::UnitReturned).of_unit(name));
    }
    true
}

/// Removes what a unit reported after it announced its stop: a new incarnation begins.
pub fn end_last_words(draft: &mut Draft<'_>, name: &UnitName) {
    if !draft.unit(name).is_some_and(Unit::is_stopping) {
        return;
    }
    let mut keys = draft.keys_of(name, None);
    keys.retain(|key| draft.status(key).is_some_and(|status| status.while_stopping));
    remove_all(draft, keys, Cause::UnitReplaced);
    let faults = draft.faults.of(name, None).into_iter();
    for (key, _) in faults.filter(|(_, fault)| fault.while_stopping) {
        cancel_callback(draft, name, &key.topic());
        draft.put_fault(key, None);
    }
}

/// Returns the record of a unit that is present with this incarnation, which begins if it is newer.
pub fn present(draft: &Draft<'_>, name: &UnitName, before: &Unit, incarnation: u64) -> Unit {
    let is_new = before.incarnation < incarnation;
    let pulled_count =
        || draft.keys_of(name, None).iter().filter(|key| key.kind == Kind::Pull).count() as u32;
    Unit {
        incarnation: incarnation.max(before.incarnation),
        began: if is_new { draft.now } else { before.began },
        // The last pulled statuses come from the earlier incarnation.
        outlived_count: if is_new { pulled_count() } else { before.outlived_count },
        // Only the worker that announced its stop is about to stop.
        departure: if is_new || before.has_departed() { Departure::None } else { before.departure },
        // A new incarnation has not requested leadership.
        candidate: before.candidate.filter(|_| !is_new),
        session_ended: false,
        lost_since: None,
        quiet_since: None,
        ..before.clone()
    }
}
