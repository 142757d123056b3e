//! Faults in a draft: opened, repeated, resolved, released, and moved by time.

use std::sync::Arc;

use crate::domain::classify::finding::{Class, Finding};
use crate::domain::draft::Draft;
use crate::domain::model::fault::{Fault, FaultKey, Intermittent, NewError, Resolution};
use crate::domain::model::history::{Cause, Change, StatusEvent, Subject};
use crate::domain::model::limits::LimitExceeded;
use crate::domain::model::message::same_text;
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::request::Outcome;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Reporter;
use crate::domain::model::unit::refused::{IdentityError, LookupError};
use crate::domain::rules::callback::{add_callback, cancel_callback};
use crate::domain::rules::contact::{admit, check_reporter, is_contact, note_contact};
use crate::domain::rules::lookup::unit_exists;
use crate::domain::rules::quota::{Total, check_total, check_unit_quota, has_bytes, within};
use crate::domain::rules::status::ReportError;

/// Returns the change of a hold for the history. An operator may retry a fault that held nothing.
fn hold_change(old: Option<&Fault>, new: Option<&Fault>, cause: Cause) -> Option<Change> {
    let word = |fault: Option<&Fault>| match fault.and_then(|fault| fault.held_since) {
        Some(_) => "held",
        None => "",
    };
    let (before, after) = (word(old), word(new));
    match cause {
        Cause::HoldRetried => Some(Change::new("hold", before, "to be retried")),
        Cause::HoldSkipped => Some(Change::new("hold", before, "skipped")),
        _ if before != after => Some(Change::new("hold", before, after)),
        _ => None,
    }
}

impl Fault {
    /// Returns whether a success ends the fault. A success of any incarnation does, but a halting
    /// fault needs a newer incarnation or another generation of the configuration.
    fn ends_with_success_of(&self, incarnation: u64, generation: &str) -> bool {
        let is_halted = self.held_since.is_some() && self.class() != Class::Blocked;
        !is_halted || self.incarnation < incarnation || self.is_of_another(generation)
    }

    /// Returns whether the fault keeps holding its component after another error of the same
    /// target: an error of a weaker class is no success. An error of another generation always
    /// replaces it.
    fn outlasts(&self, error: &NewError) -> bool {
        let says = |found: &Finding| match found.class {
            _ if !found.holds() => 0,
            Class::Gone | Class::Fatal => 2,
            _ => 1,
        };
        self.held_since.is_some()
            && says(&error.finding) < says(&self.error.finding)
            && !self.is_of_another(&error.generation)
    }

    fn is_of_another(&self, generation: &str) -> bool {
        let known = &*self.error.generation;
        !generation.is_empty() && !known.is_empty() && generation != known
    }
}

/// Records an error that a unit met.
pub fn report_error(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    component: &PartName,
    target: &Arc<str>,
    error: &NewError,
) -> Result<Outcome, ReportError> {
    admit(draft, reporter)?;
    let (component, target) = (component.clone(), target.clone());
    let key = FaultKey { unit: reporter.unit.clone(), component, target };
    let mut old = draft.faults.get(&key).cloned();
    if old.is_none() {
        check_fault_quota(draft, &key.unit)?;
    }
    has_bytes(draft, error.size(), || old.as_ref().map_or(0, |old| old.size()))?;
    if note_contact(draft, reporter) {
        // The contact of a new incarnation may have ended the fault.
        old = draft.faults.get(&key).cloned();
    }
    let unit = draft.unit(&key.unit);
    let (current, stops) = unit.map_or((0, false), |unit| (unit.incarnation, unit.is_stopping()));
    let incarnation = reporter.incarnation.unwrap_or(current);
    let fault = match old.as_deref().filter(|old| old.outlasts(error)) {
        // One more error is counted while the hold continues.
        Some(held) => {
            Fault { count: held.count.saturating_add(1), last: draft.now, ..held.clone() }
        }
        None => {
            let (settings, met) = (&draft.limits.faults, (incarnation, draft.now));
            let (old, whose) = (old.as_deref(), (&draft.base.name, &key));
            let new = Fault::after_error(old, whose, error.clone(), settings, met);
            let new = match draft.base.relapses.since(&key, settings, draft.now) {
                Some(since) if old.is_none() && new.class().counts_as_attempt() => {
                    new.alternating(&key, since, settings)
                }
                _ => new,
            };
            let while_stopping = old.map_or(stops, |old| old.while_stopping);
            with_place(draft, Fault { while_stopping, ..new }, old)
        }
    };
    let key = Arc::new(key);
    log_fault(draft, &key, old.as_deref(), Some(&fault), Cause::ErrorReported, "");
    // The report answers the request to retry.
    cancel_callback(draft, &key.unit, &key.topic());
    draft.put_fault(key, Some(Arc::new(fault)));
    Ok(Outcome { changed: true, ..Outcome::default() })
}

/// Resolves the faults of a target that works again, except holds that this success may not
/// end. `None`: every target, every component.
pub fn resolve_error(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    component: Option<&PartName>,
    target: Option<&str>,
    generation: &str,
) -> Result<Outcome, IdentityError> {
    check_reporter(draft, reporter)?;
    let meant = |draft: &Draft<'_>| {
        let mut faults = draft.faults.of(&reporter.unit, component);
        faults.retain(|key, _| target.is_none_or(|target| *target == *key.target));
        faults
    };
    let is_known = draft.unit(&reporter.unit).is_some();
    if !is_known || meant(draft).is_empty() && !is_contact(draft, reporter) {
        // An unknown unit has no open faults.
        return Ok(Outcome::default());
    }
    let mut changed = note_contact(draft, reporter);
    let current = draft.unit(&reporter.unit).map_or(0, |unit| unit.incarnation);
    let incarnation = reporter.incarnation.unwrap_or(current);
    let mut resolved = 0;
    for (key, fault) in meant(draft) {
        if !fault.ends_with_success_of(incarnation, generation) {
            continue;
        }
        resolved += 1;
        match fault.intermittent {
            None => end_fault(draft, &key, &fault, Cause::ErrorResolved, ""),
            // One more success is no news.
            Some(_) if fault.has_recovered() => continue,
            Some(intermittent) => recover(draft, key, &fault, intermittent),
        }
        changed = true;
    }
    Ok(Outcome { changed, removed: resolved, ..Outcome::default() })
}

/// Keeps an intermittent fault after a success, until no error came for a while.
fn recover(draft: &mut Draft<'_>, key: Arc<FaultKey>, old: &Fault, intermittent: Intermittent) {
    let new = old.recovered(&key, intermittent, &draft.limits.faults, draft.now);
    log_fault(draft, &key, Some(old), Some(&new), Cause::ErrorResolved, "");
    cancel_callback(draft, &key.unit, &key.topic());
    draft.put_fault(key, Some(Arc::new(new)));
}

/// Releases a held component on behalf of an operator.
pub fn resolve_hold(
    draft: &mut Draft<'_>,
    unit: &UnitName,
    component: &PartName,
    resolution: Resolution,
    why: &str,
) -> Result<Outcome, LookupError> {
    unit_exists(draft, unit)?;
    let faults = draft.faults.of(unit, Some(component));
    let removed = faults.len() as u32;
    for (key, fault) in faults {
        let cause = match resolution {
            Resolution::Retry => Cause::HoldRetried,
            Resolution::Skip => Cause::HoldSkipped,
        };
        // What works again needs no retry.
        if resolution == Resolution::Skip || fault.has_recovered() {
            end_fault(draft, &key, &fault, cause, why);
            continue;
        }
        let retried = fault.retried(&key, &draft.limits.faults, draft.now);
        let retried = Fault { ask_time: Some(draft.now), ..retried };
        let event = fault_event(draft, &key, Some(&fault), Some(&retried), cause);
        draft.log(StatusEvent { message: why.into(), ..event });
        draft.put_fault(key, Some(Arc::new(retried)));
    }
    Ok(Outcome { changed: 0 < removed, removed, ..Outcome::default() })
}

/// Moves a fault whose time has come: to its next stage, or to a new request to retry.
pub fn move_fault(draft: &mut Draft<'_>, key: &Arc<FaultKey>) {
    let (now, deadlines) = (draft.now, draft.deadlines());
    let is_over = |fault: &Fault| deadlines.of_stage(fault).is_some_and(|at| at <= draft.judged);
    let is_asked = |fault: &Fault| fault.ask_time.is_some_and(|at| at <= now);
    let Some(old) = draft.faults.get(key).cloned() else { return };
    if !is_over(&old) && !is_asked(&old) {
        return;
    }
    if is_over(&old) && old.has_recovered() {
        end_fault(draft, key, &old, Cause::ErrorResolved, "");
        return;
    }
    let mut fault = (*old).clone();
    if is_over(&old) {
        fault = old.after_time(key, &draft.limits.faults, now);
    }
    if is_asked(&fault) {
        fault.ask_time = ask_to_retry(draft, key, &fault);
    }
    log_fault(draft, key, Some(&old), Some(&fault), Cause::FaultPersists, "");
    draft.put_fault(key.clone(), Some(Arc::new(fault)));
}

/// Asks the worker to retry. Returns when to ask again, or `None` if the unit has no session.
fn ask_to_retry(draft: &mut Draft<'_>, key: &FaultKey, fault: &Fault) -> Option<Timestamp> {
    draft.unit(&key.unit).filter(|unit| unit.session().is_some())?;
    // Refused if the unit has as many other callbacks as it may have. The next request may pass.
    let _ = add_callback(draft, &key.unit, &key.topic(), draft.now, &fault.error.operation_id);
    Some(place(draft, draft.now.after(draft.limits.faults.retry_max), None))
}

/// Plans requests to retry, after a session opens, for faults that the unit or an earlier
/// incarnation left open.
pub fn ask_new_session_to_retry(draft: &mut Draft<'_>, unit: &UnitName) {
    for (key, fault) in draft.faults.of(unit, None) {
        let is_idle = fault.ask_time.is_none() && fault.held_since.is_none();
        let Some(at) = fault.retry_time.filter(|_| is_idle) else { continue };
        let ask_time = Some(place(draft, at.max(draft.now), None));
        draft.put_fault(key, Some(Arc::new(Fault { ask_time, ..(*fault).clone() })));
    }
}

/// Removes the open faults of a unit. The removal of the unit is the only event.
pub fn remove_faults(draft: &mut Draft<'_>, unit: &UnitName) {
    for (key, _) in draft.faults.of(unit, None) {
        draft.put_fault(key, None);
    }
}

/// Returns the first moment from `at` on whose second is within the limit for one more retry.
pub fn place(draft: &Draft<'_>, at: Timestamp, own: Option<Timestamp>) -> Timestamp {
    draft.faults.place(at, own, draft.limits.faults.retries_per_second_max)
}

fn end_fault(draft: &mut Draft<'_>, key: &Arc<FaultKey>, fault: &Fault, cause: Cause, why: &str) {
    log_fault(draft, key, Some(fault), None, cause, why);
    cancel_callback(draft, &key.unit, &key.topic());
    draft.put_fault(key.clone(), None);
}

fn check_fault_quota(draft: &Draft<'_>, unit: &UnitName) -> Result<(), LimitExceeded> {
    if draft.unit(unit).is_none() {
        check_unit_quota(draft)?;
    }
    let all = draft.head.open_faults.count as usize + 1;
    within("faults_max", draft.limits.faults_max, all, "open faults of the application")?;
    check_total(draft, Total::Faults, all as u64)?;
    let own = draft.faults.of(unit, None).len() + 1;
    let what = format_args!("open faults of unit {unit}");
    within("faults_per_unit_max", draft.limits.faults_per_unit_max, own, what)
}

/// Returns the fault with its times to retry and to ask, in seconds within the limit. An
/// interrupted target has no planned request; the unit is asked when it opens a session again.
fn with_place(draft: &Draft<'_>, fault: Fault, old: Option<&Fault>) -> Fault {
    let Some(at) = fault.retry_time.filter(|_| fault.class() != Class::Interrupted) else {
        return fault;
    };
    // The second that the fault occupies itself counts as free.
    let own = old.and_then(Fault::next_try);
    let at = place(draft, at, own);
    Fault { retry_time: Some(at), ask_time: Some(at), ..fault }
}

/// Adds an event to the history if the visible level or text changed.
fn log_fault(
    draft: &mut Draft<'_>,
    key: &FaultKey,
    old: Option<&Fault>,
    new: Option<&Fault>,
    cause: Cause,
    why: &str,
) {
    let level = |fault: Option<&Fault>| fault.and_then(Fault::level);
    let text = |fault: Option<&Fault>| fault.map_or("", |fault| &*fault.shown).to_string();
    let is_shown = level(old).is_some() || level(new).is_some();
    let is_same = level(old) == level(new) && same_text(&text(old), &text(new));
    if !is_shown || is_same {
        return;
    }
    let event = fault_event(draft, key, old, new, cause);
    let message = if why.is_empty() { event.message.clone() } else { why.into() };
    draft.log(StatusEvent { message, ..event });
}

fn fault_event(
    draft: &Draft<'_>,
    key: &FaultKey,
    old: Option<&Fault>,
    new: Option<&Fault>,
    cause: Cause,
) -> StatusEvent {
    let shown = new.filter(|fault| fault.level().is_some());
    StatusEvent {
        subject: Some(Subject {
            unit: key.unit.clone(),
            component: key.component.clone(),
            target: (*key.target).into(),
            ..Subject::default()
        }),
        changes: hold_change(old, new, cause).into_iter().collect(),
        from: old.and_then(Fault::level),
        to: new.and_then(Fault::level),
        message: shown.map_or_else(|| "".into(), |fault| fault.shown.clone()),
        reason: shown.map_or("", Fault::reason).into(),
        ..draft.event(cause)
    }
}
