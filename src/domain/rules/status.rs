//! Reports of statuses in a draft: set, replaced, confirmed and cleared.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::command::NewStatus;
use crate::domain::model::history::Cause;
use crate::domain::model::limits::LimitExceeded;
use crate::domain::model::name::PartName;
use crate::domain::model::request::Outcome;
use crate::domain::model::status::damping::Reported;
use crate::domain::model::status::place::PlaceInSet;
use crate::domain::model::status::{KeyParts, Kind, Status, StatusKey, place, size_of};
use crate::domain::model::unit::refused::{IdentityError, ReporterError};
use crate::domain::model::unit::{Reporter, Unit};
use crate::domain::rules::contact::{
    admit, check_known_reporter, check_return, is_contact, note_contact,
};
use crate::domain::rules::damping::{held_without, may_hold, take_result};
use crate::domain::rules::quota::{check_quota, has_bytes, has_bytes_for};
use crate::domain::rules::remove_status::remove_all;

/// The reason for which a report of a status or an error is refused.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum ReportError {
    Identity(#[from] IdentityError),
    Quota(#[from] LimitExceeded),
}

/// Sets one status.
pub fn report(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    kind: Kind,
    new: &NewStatus,
) -> Result<Outcome, ReportError> {
    admit(draft, reporter)?;
    let parts = new.key_of(&reporter.unit, kind);
    let (key, old) = draft.find(parts);
    if old.is_none() {
        check_quota(draft, &reporter.unit, [parts], &BTreeSet::new())?;
    }
    has_bytes(draft, new.report.size(), || size_of(old.as_ref()))?;
    let mut changed = note_contact(draft, reporter);
    // The contact of a new incarnation may have removed the status.
    let old = if changed { draft.status(&key).cloned() } else { old };
    if is_late(draft, reporter, old.as_deref(), new) {
        return Ok(Outcome { changed, late: 1, ..Outcome::default() });
    }
    changed |= set(draft, reporter, key, old, new, PlaceInSet::NONE);
    Ok(Outcome { changed, ..Outcome::default() })
}

/// Sets several statuses, or none if one is rejected.
pub fn report_all(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    statuses: &[(Kind, NewStatus)],
) -> Result<Outcome, ReportError> {
    admit(draft, reporter)?;
    let keys = statuses.iter().map(|(kind, new)| new.key_of(&reporter.unit, *kind));
    check_quota(draft, &reporter.unit, keys, &BTreeSet::new())?;
    let all = statuses.iter().map(|(kind, new)| (*kind, new));
    has_bytes_for(draft, &reporter.unit, all, &BTreeSet::new())?;
    let mut changed = note_contact(draft, reporter);
    let mut late = 0;
    for (kind, new) in statuses {
        let (key, old) = draft.find(new.key_of(&reporter.unit, *kind));
        if is_late(draft, reporter, old.as_deref(), new) {
            late += 1;
        } else {
            changed |= set(draft, reporter, key, old, new, PlaceInSet::NONE);
        }
    }
    Ok(Outcome { changed, late, ..Outcome::default() })
}

/// Returns whether a report was observed before the stored one, such as one from a queue. It is
/// dropped then. A set has no such order: it is computed when it is sent, and its observation times
/// say when levels began.
fn is_late(draft: &Draft<'_>, reporter: &Reporter, old: Option<&Status>, new: &NewStatus) -> bool {
    let (Some(old), Some(observed)) = (old, new.observe_time) else { return false };
    // Most reports repeat the time or have a later one, and need no look at their unit.
    let observed = observed.min(draft.now);
    old.is_observed_after(observed)
        && old.is_of(incarnation_of(draft.unit(&reporter.unit), reporter))
}

/// Returns the incarnation that a report counts for: that of its sender, else the current one.
fn incarnation_of(unit: Option<&Unit>, reporter: &Reporter) -> u64 {
    reporter.incarnation.unwrap_or_else(|| unit.map_or(0, |unit| unit.incarnation))
}

/// Replaces the pull set of a unit, or of one of its components. A latch or damping may keep a
/// status that the new set does not contain.
pub fn replace(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    component: Option<&PartName>,
    set: &[NewStatus],
) -> Result<Outcome, ReportError> {
    admit(draft, reporter)?;
    let kept: BTreeSet<_> = set.iter().map(|new| (&new.component, &new.key)).collect();
    let mut gone = draft.keys_of(&reporter.unit, component);
    gone.retain(|key| key.kind == Kind::Pull && !kept.contains(&(&key.component, &key.key)));
    let keys = || set.iter().map(|new| new.key_of(&reporter.unit, Kind::Pull));
    let mut held = held_without(draft, &gone);
    let leaving: BTreeSet<_> = gone.difference(&held).cloned().collect();
    if check_quota(draft, &reporter.unit, keys(), &leaving).is_err() {
        // New reports have priority over statuses that a latch or damping keeps.
        check_quota(draft, &reporter.unit, keys(), &gone)?;
        held.clear();
    }
    has_bytes_for(draft, &reporter.unit, set.iter().map(|new| (Kind::Pull, new)), &gone)?;
    let mut changed = note_contact(draft, reporter);
    if component.is_none() {
        draft.contacts.answered(&reporter.unit);
    }
    let leaving = gone.into_iter().filter(|key| !held.contains(key));
    let removed = remove_all(draft, leaving, Cause::Replaced);
    for key in held {
        changed |= take_result(draft, key, None);
    }
    let place_of =
        |key: KeyParts<'_>| draft.status(&key).map_or(PlaceInSet::NONE, |status| status.place);
    let known: Vec<PlaceInSet> = keys().map(place_of).collect();
    for (new, place) in set.iter().zip(place::assign(&known, component.is_some())) {
        changed |= look_and_set(draft, reporter, Kind::Pull, new, place);
    }
    Ok(Outcome { changed: changed || 0 < removed, removed, ..Outcome::default() })
}

/// Confirms the pull set of a unit, or of one of its components: a worker answers that the stored
/// set is the current one. Statuses of an earlier incarnation become those of this one. No ttl
/// moves, because no report repeated the status, and a latch or damping counts no result.
pub fn confirm(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    component: Option<&PartName>,
) -> Result<Outcome, ReporterError> {
    check_known_reporter(draft, reporter)?;
    let mut changed = note_contact(draft, reporter);
    if component.is_none() {
        draft.contacts.answered(&reporter.unit);
    }
    let current = draft.unit(&reporter.unit).map_or(0, |unit| unit.incarnation);
    for key in draft.keys_of(&reporter.unit, component) {
        let is_older = |status: &Arc<Status>| status.incarnation < current;
        if key.kind != Kind::Pull || !draft.status(&key).is_some_and(is_older) {
            continue;
        }
        let Some(old) = draft.latest(&key) else { continue };
        draft.contacts.remove_swings(&key);
        let status = Status { incarnation: current, expire_time_written: old.expire_time, ..old };
        draft.put_status(key, Some(Arc::new(status)));
        changed = true;
    }
    Ok(Outcome { changed, ..Outcome::default() })
}

/// Removes the statuses that match; `None` matches all.
pub fn clear(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    component: Option<&PartName>,
    key: Option<&PartName>,
    kind: Option<Kind>,
) -> Result<Outcome, ReporterError> {
    check_known_reporter(draft, reporter)?;
    let mut matching = draft.keys_of(&reporter.unit, component);
    matching.retain(|found| {
        key.is_none_or(|k| found.key == *k) && kind.is_none_or(|k| found.kind == k)
    });
    if matching.is_empty() && !is_contact(draft, reporter) {
        return Ok(Outcome::default());
    }
    check_return(draft, reporter, draft.unit(&reporter.unit))?;
    let mut changed = note_contact(draft, reporter);
    let removed = remove_all(draft, matching, Cause::Cleared);
    changed |= 0 < removed;
    Ok(Outcome { changed, removed, ..Outcome::default() })
}

fn look_and_set(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    kind: Kind,
    new: &NewStatus,
    place: PlaceInSet,
) -> bool {
    let (key, old) = draft.find(new.key_of(&reporter.unit, kind));
    set(draft, reporter, key, old, new, place)
}

/// Sets one status, given its state in the draft so far, so that each report looks it up only
/// once. A repeat moves only the deadline. Returns whether a visible value changed.
fn set(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    key: Arc<StatusKey>,
    old: Option<Arc<Status>>,
    new: &NewStatus,
    place: PlaceInSet,
) -> bool {
    let mut report = new.report.clone();
    if report.ttl.is_none() && draft.head.config.default_ttl.is_some() {
        Arc::make_mut(&mut report).ttl = draft.head.config.default_ttl;
    }
    let unit = draft.unit(&reporter.unit);
    let while_stopping = unit.is_some_and(Unit::is_stopping);
    let incarnation = incarnation_of(unit, reporter);
    let observe_time = new.observe_time.map(|at| at.min(draft.now));
    if old.as_ref().is_some_and(|old| may_hold(draft, &key, old)) {
        let latest = Reported { report, observe_time, incarnation };
        let changed = take_result(draft, key.clone(), Some(latest));
        return changed | put_place(draft, &key, place);
    }
    let is_repeat =
        |s: &Arc<Status>| s.report == report && !s.stale && s.incarnation == incarnation;
    if let Some(old) = old.as_ref().filter(|old| is_repeat(old)) {
        repeat(draft, &key, old);
        return put_place(draft, &key, place);
    }
    let status = Status::reported(old.as_deref(), report, observe_time, draft.now);
    let status = Status { incarnation, place, while_stopping, ..status };
    draft.log_status(&key, old.as_deref(), Some(&status), Cause::Reported);
    draft.put_status_over(key, old, Some(Arc::new(status)));
    true
}

/// Moves the deadlines of a repeated status. No reader of the status of the application sees that.
/// A moved end is always written: it removes the status, so no replica may judge an earlier one.
pub fn repeat(draft: &mut Draft<'_>, key: &Arc<StatusKey>, old: &Arc<Status>) {
    let now = draft.now;
    let expire_time = old.report.ttl.map(|ttl| now.after(ttl));
    let end_time = old.report.end_after().map(|after| now.after(after)).max(old.end_time);
    if end_time == old.end_time {
        expire_time.into_iter().for_each(|until| draft.refresh(key, old, until));
        return;
    }
    let Some(latest) = draft.latest(key) else { return };
    let expire_time = expire_time.max(latest.expire_time);
    let moved = Status { expire_time, expire_time_written: expire_time, end_time, ..latest };
    draft.put_status_quietly(key.clone(), Arc::new(moved));
}

/// Moves a status to a place in its set. Returns whether that is another one. A status that a latch
/// or damping holds stays where it is, so that its results stay invisible.
fn put_place(draft: &mut Draft<'_>, key: &Arc<StatusKey>, place: PlaceInSet) -> bool {
    let is_moved = |status: &Arc<Status>| status.place != place && status.held.is_none();
    let Some(old) = draft.status(key).filter(|s| is_moved(s)).and_then(|_| draft.latest(key))
    else {
        return false;
    };
    draft.contacts.remove_swings(key);
    let moved = Status { place, expire_time_written: old.expire_time, ..old };
    draft.put_status(key.clone(), Some(Arc::new(moved)));
    true
}
