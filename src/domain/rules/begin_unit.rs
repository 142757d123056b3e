//! Begin and end of incarnations and sessions, and the stop that a worker announces, in a draft.

use std::time::Duration;

use crate::domain::draft::Draft;
use crate::domain::model::history::Cause;
use crate::domain::model::limits::EXPIRED_PER_COMMIT_MAX;
use crate::domain::model::name::UnitName;
use crate::domain::model::request::Outcome;
use crate::domain::model::revision::Revision;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::departure::Departure;
use crate::domain::model::unit::presence::{Presence, ReplicaId, SessionId};
use crate::domain::model::unit::refused::{
    BeginError, IdentityError, IncarnationsUsedUp, ReporterError,
};
use crate::domain::model::unit::{Callbacks, Newcomer, Reporter, Unit};
use crate::domain::rules::contact::{
    check_known_reporter, check_reporter, end_last_words, note_contact, present,
};
use crate::domain::rules::fault::{ask_new_session_to_retry, remove_faults};
use crate::domain::rules::quota::check_unit_quota;
use crate::domain::rules::remove_status::remove_all;
use crate::domain::rules::remove_unit::remove;
use crate::domain::rules::silence::{plan_ends, quieten_unit};
use crate::domain::rules::succession::{keep_lease, leave_lease, welcome_candidate};
use crate::domain::rules::successor::{
    hand_over, hand_over_group, outlives, predecessor, successor,
};

/// Opens a session of a unit.
pub fn connect(
    draft: &mut Draft<'_>,
    who: &Newcomer,
    session: SessionId,
) -> Result<Outcome, BeginError> {
    let since = draft.base.head.revision.next();
    begin(draft, who, Presence::Connected(session), since)
}

/// Confirms an open session that was opened at this revision, unless the unit has opened a newer
/// one since. An older one may be stored after a data loss, and is replaced.
pub fn reconnect(
    draft: &mut Draft<'_>,
    who: &Newcomer,
    session: SessionId,
    since: Revision,
) -> Result<Outcome, BeginError> {
    let is_over = draft.unit(&who.unit).is_some_and(|unit| {
        let is_other = unit.session().is_some_and(|held| held != session);
        let is_unordered = unit.session_since == Revision(0) || unit.session_since == since;
        since < unit.session_since || is_other && is_unordered
    });
    if is_over {
        return Err(IdentityError::SessionOver { unit: who.unit.clone() }.into());
    }
    begin(draft, who, Presence::Connected(session), since)
}

/// Begins or continues an incarnation without a session.
pub fn register(
    draft: &mut Draft<'_>,
    who: &Newcomer,
    ttl: Option<Duration>,
) -> Result<Outcome, BeginError> {
    // Not the beginning of a session.
    let since = draft.unit(&who.unit).map(|unit| unit.session_since).unwrap_or_default();
    begin(draft, who, ttl.map_or(Presence::Unbound, Presence::Promised), since)
}

fn begin(
    draft: &mut Draft<'_>,
    who: &Newcomer,
    presence: Presence,
    since: Revision,
) -> Result<Outcome, BeginError> {
    let name = &who.unit;
    let incarnation = incarnation_of(draft, who)?;
    if draft.unit(name).is_some_and(|unit| unit.incarnation < incarnation) {
        end_last_words(draft, name);
    }
    let known = draft.unit(name).cloned();
    let before = known.clone().unwrap_or_default();
    let is_new = before.incarnation < incarnation;
    let unit = begun(draft, who, &before, incarnation, presence, since);
    let leaving = is_new.then(|| predecessor(draft, name, &unit)).flatten();
    if known.is_none() && leaving.is_none() {
        check_unit_quota(draft)?;
    }
    draft.contacts.add(name);
    // A restart of the silence period alone is no visible change.
    let silence_ends = before.silence_ends;
    if known.as_ref() == Some(&Unit { silence_ends, ..unit.clone() }) {
        if unit.silence_ends != silence_ends || unit.is_news(draft.now) {
            draft.units.put(name.clone(), Some(unit));
        }
        return Ok(Outcome { incarnation, ..Outcome::default() });
    }
    draft.put_unit(name.clone(), Some(unit));
    match is_new {
        true => leave_lease(draft, name),
        false => {
            keep_lease(draft, name);
            welcome_candidate(draft, name);
        }
    }
    let was_missed = before.lost_since.or(before.quiet_since).is_some();
    let cause = match is_new && before.incarnation != 0 {
        true => Some(Cause::UnitReplaced),
        false => was_missed.then_some(Cause::UnitReturned),
    };
    if let Some(cause) = cause {
        draft.log(draft.event(cause).of_unit(name));
    }
    if matches!(presence, Presence::Connected(_)) {
        ask_new_session_to_retry(draft, name);
    }
    if is_new && who.stateless {
        let newcomer = draft.unit(name).cloned().unwrap_or_default();
        plan_ends(draft, &newcomer);
    }
    let mut removed = 0;
    if let Some(leaving) = leaving {
        hand_over(draft, &leaving, name);
        removed = remove(draft, &leaving).removed;
    }
    Ok(Outcome { changed: true, removed, incarnation, ..Outcome::default() })
}

/// Returns the record of a unit after it began or continued this incarnation.
fn begun(
    draft: &Draft<'_>,
    who: &Newcomer,
    before: &Unit,
    incarnation: u64,
    presence: Presence,
    since: Revision,
) -> Unit {
    let same_promise = before.presence == presence;
    let unit = Unit {
        presence,
        not_before: if same_promise { before.not_before } else { Some(Timestamp::default()) },
        session_since: if same_promise { before.session_since } else { since },
        stateless: who.stateless,
        labels: who.labels.clone(),
        ..present(draft, &who.unit, before, incarnation)
    };
    Unit { silence_ends: unit.is_overdue().then(|| draft.silence_from_now()), ..unit }
}

/// Returns the incarnation that the unit may use.
fn incarnation_of(draft: &Draft<'_>, who: &Newcomer) -> Result<u64, BeginError> {
    let known = draft.unit(&who.unit).map_or(0, |unit| unit.incarnation);
    let current = known.max(draft.requests.fence(&who.unit).unwrap_or_default());
    match who.incarnation {
        None => {
            let used_up = || IncarnationsUsedUp { unit: who.unit.clone() }.into();
            current.checked_add(1).ok_or_else(used_up)
        }
        Some(given) => {
            check_reporter(draft, &Reporter::new(who.unit.clone(), Some(given)))?;
            Ok(given)
        }
    }
}

/// Closes a session: the unit gets `ttl` to open another.
pub fn disconnect(
    draft: &mut Draft<'_>,
    name: &UnitName,
    session: SessionId,
    ttl: Duration,
    silent: bool,
) -> Outcome {
    let held = draft.unit(name).filter(|unit| unit.session() == Some(session));
    let Some(unit) = held.cloned() else { return Outcome::default() };
    draft.put_unit(name.clone(), Some(unit.expected_within(ttl, draft.now)));
    keep_lease(draft, name);
    if silent {
        quieten_unit(draft, name);
    }
    Outcome { changed: true, ..Outcome::default() }
}

/// Handles the loss of a replica: its units get `ttl` to connect elsewhere. Handles at most
/// [`EXPIRED_PER_COMMIT_MAX`] units; the caller repeats for the rest.
pub fn end_sessions(draft: &mut Draft<'_>, replica: ReplicaId, ttl: Duration) -> Outcome {
    let is_its = |unit: &Unit| unit.session().is_some_and(|held| held.replica == replica);
    let held = draft.units.matching(is_its);
    let held = held.filter_map(|(name, unit)| Some((name.clone(), unit.session()?)));
    let held: Vec<_> = held.take(EXPIRED_PER_COMMIT_MAX).collect();
    let mut changed = false;
    for (name, session) in held {
        changed |= disconnect(draft, &name, session, ttl, false).changed;
    }
    Outcome { changed, ..Outcome::default() }
}

/// Records that the worker of a unit is about to stop: what its unit reports afterwards ends with
/// the incarnation. A unit that has left stays so.
pub fn announce_stop(draft: &mut Draft<'_>, reporter: &Reporter) -> Result<Outcome, ReporterError> {
    check_known_reporter(draft, reporter)?;
    if draft.unit(&reporter.unit).is_some_and(Unit::has_departed) {
        return Ok(Outcome::default());
    }
    let changed = note_contact(draft, reporter);
    let unit = draft.unit(&reporter.unit).cloned().unwrap_or_default();
    if unit.is_stopping() {
        return Ok(Outcome { changed, ..Outcome::default() });
    }
    let unit = Unit { departure: Departure::Stopping(draft.now), ..unit };
    draft.put_unit(reporter.unit.clone(), Some(unit));
    draft.log(draft.event(Cause::UnitStopping).of_unit(&reporter.unit));
    Ok(Outcome { changed: true, ..Outcome::default() })
}

/// Removes a unit that leaves for good. The pushed statuses of a stateless unit pass to its
/// successor, or wait for one, if the application has a hand-over configured.
pub fn depart(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    ttl: Duration,
) -> Result<Outcome, ReporterError> {
    let name = &reporter.unit;
    check_known_reporter(draft, reporter)?;
    // The departure itself is contact, so a silent unit does not also count as lost.
    note_contact(draft, reporter);
    let Some(group) = draft.unit(name).and_then(|unit| hand_over_group(draft, unit)) else {
        return Ok(remove(draft, name));
    };
    let mut keys = draft.keys_of(name, None);
    if !keys.iter().any(|key| outlives(draft, key)) {
        return Ok(remove(draft, name));
    }
    if let Some(successor) = successor(draft, name, group) {
        hand_over(draft, name, &successor);
        return Ok(remove(draft, name));
    }
    keys.retain(|key| !outlives(draft, key));
    let removed = remove_all(draft, keys, Cause::UnitRemoved);
    remove_faults(draft, name);
    let unit = draft.unit(name).cloned().unwrap_or_default().expected_within(ttl, draft.now);
    // The unit cannot receive callbacks any more.
    let callbacks = Callbacks::default();
    let gone = Unit { departure: Departure::Departed, silence_ends: None, callbacks, ..unit };
    draft.put_unit(name.clone(), Some(gone));
    leave_lease(draft, name);
    Ok(Outcome { changed: true, removed, ..Outcome::default() })
}
