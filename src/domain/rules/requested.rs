//! Callbacks that a worker requests, in a draft.

use std::time::Duration;

use crate::domain::draft::Draft;
use crate::domain::model::request::Outcome;
use crate::domain::model::unit::refused::{CallbackError, IdentityError};
use crate::domain::model::unit::{Callback, CallbackRequest, Reporter, Topic};
use crate::domain::rules::callback::{cancel_callback, has_place, put_callback};
use crate::domain::rules::contact::{admit, check_reporter, is_contact, note_contact};
use crate::domain::rules::quota::check_unit_quota;

/// Requests a callback for the sending unit after a time; it replaces an earlier one with the same
/// topic. Without a time the callback is cancelled.
pub fn request_callback(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    topic: &Topic,
    after: Option<Duration>,
    reason: &str,
) -> Result<Outcome, CallbackError> {
    let Some(after) = after else { return Ok(cancel_request(draft, reporter, topic)?) };
    let name = &reporter.unit;
    admit(draft, reporter)?;
    match draft.unit(name) {
        Some(unit) => has_place(name, unit, topic)?,
        None => check_unit_quota(draft)?,
    }
    let is_contact = note_contact(draft, reporter);
    let request = Some(CallbackRequest { time: draft.now, reason: reason.into() });
    let at = draft.now.after(after);
    let callback = Callback { at, operation_id: "".into(), due: false, request };
    // The same request in the same millisecond changes nothing.
    if draft.unit(name).is_some_and(|unit| unit.callbacks.get(topic) == Some(&callback)) {
        return Ok(Outcome { changed: is_contact, ..Outcome::default() });
    }
    put_callback(draft, name, topic, Some(callback));
    Ok(Outcome { changed: true, ..Outcome::default() })
}

/// Cancels a callback that the sending unit requested.
fn cancel_request(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    topic: &Topic,
) -> Result<Outcome, IdentityError> {
    check_reporter(draft, reporter)?;
    let Some(unit) = draft.unit(&reporter.unit) else { return Ok(Outcome::default()) };
    if !unit.callbacks.contains_key(topic) && !is_contact(draft, reporter) {
        return Ok(Outcome::default());
    }
    let is_contact = note_contact(draft, reporter);
    let cancelled = cancel_callback(draft, &reporter.unit, topic);
    Ok(Outcome { changed: is_contact || cancelled.changed, ..cancelled })
}
