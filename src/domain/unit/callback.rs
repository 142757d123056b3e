//! Callbacks in a draft: requested, cancelled, due.

use crate::domain::draft::Draft;
use crate::domain::limits::CALLBACKS_PER_UNIT_MAX;
use crate::domain::name::UnitName;
use crate::domain::quota::within;
use crate::domain::request::Outcome;
use crate::domain::time::Timestamp;
use crate::domain::unit::lookup::unit_exists;
use crate::domain::unit::refused::CallbackError;
use crate::domain::unit::{Callback, Topic};

/// Adds a callback for a unit; it replaces an earlier one with the same topic.
pub fn add_callback(
    draft: &mut Draft<'_>,
    name: &UnitName,
    topic: &Topic,
    at: Timestamp,
    operation_id: &str,
) -> Result<Outcome, CallbackError> {
    unit_exists(draft, name)?;
    let mut unit = draft.unit(name).cloned().unwrap_or_default();
    let callback = Callback { at, operation_id: operation_id.into(), due: at <= draft.now };
    if unit.callbacks.insert(topic.clone(), callback.clone()) == Some(callback) {
        return Ok(Outcome::default());
    }
    let what = format_args!("callbacks of unit {name}");
    let count = unit.callbacks.len();
    within("callbacks_per_unit_max", CALLBACKS_PER_UNIT_MAX, count, what)?;
    draft.put_unit(name.clone(), Some(unit));
    Ok(Outcome { changed: true, ..Outcome::default() })
}

/// Cancels the callback with this topic.
pub fn cancel_callback(draft: &mut Draft<'_>, name: &UnitName, topic: &Topic) -> Outcome {
    let promised = draft.unit(name).filter(|unit| unit.callbacks.contains_key(topic));
    let Some(mut unit) = promised.cloned() else { return Outcome::default() };
    unit.callbacks.remove(topic);
    draft.put_unit(name.clone(), Some(unit));
    Outcome { changed: true, ..Outcome::default() }
}

/// Marks the callbacks whose time has come as due.
pub fn mark_callbacks_due(draft: &mut Draft<'_>, name: &UnitName) {
    let now = draft.now;
    let Some(mut unit) = draft.unit(name).cloned() else { return };
    for callback in unit.callbacks.values_mut().filter(|callback| callback.at <= now) {
        callback.due = true;
    }
    draft.put_unit(name.clone(), Some(unit));
}
