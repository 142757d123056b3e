//! Callbacks in a draft: planned, cancelled, due.

use crate::domain::draft::Draft;
use crate::domain::model::limits::{CALLBACKS_PER_UNIT_MAX, LimitExceeded};
use crate::domain::model::name::UnitName;
use crate::domain::model::request::Outcome;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::refused::CallbackError;
use crate::domain::model::unit::{Callback, Topic, Unit};
use crate::domain::rules::lookup::unit_exists;
use crate::domain::rules::quota::within;

/// Adds a callback for a unit; it replaces an earlier one with the same topic.
pub fn add_callback(
    draft: &mut Draft<'_>,
    name: &UnitName,
    topic: &Topic,
    at: Timestamp,
    operation_id: &str,
) -> Result<Outcome, CallbackError> {
    unit_exists(draft, name)?;
    let due = at <= draft.now;
    let callback = Callback { at, operation_id: operation_id.into(), due, request: None };
    let unit = draft.unit(name);
    if unit.is_some_and(|unit| unit.callbacks.get(topic) == Some(&callback)) {
        return Ok(Outcome::default());
    }
    unit.map_or(Ok(()), |unit| has_place(name, unit, topic))?;
    put_callback(draft, name, topic, Some(callback));
    Ok(Outcome { changed: true, ..Outcome::default() })
}

/// Cancels the callback with this topic.
pub fn cancel_callback(draft: &mut Draft<'_>, name: &UnitName, topic: &Topic) -> Outcome {
    if !draft.unit(name).is_some_and(|unit| unit.callbacks.contains_key(topic)) {
        return Outcome::default();
    }
    put_callback(draft, name, topic, None);
    Outcome { changed: true, ..Outcome::default() }
}

/// Puts a callback of a unit, or removes it with `None`.
pub fn put_callback(draft: &mut Draft<'_>, name: &UnitName, topic: &Topic, new: Option<Callback>) {
    let mut unit = draft.unit(name).cloned().unwrap_or_default();
    match new {
        Some(new) => unit.callbacks.insert(topic.clone(), new),
        None => unit.callbacks.remove(topic),
    };
    draft.put_unit(name.clone(), Some(unit));
}

/// Checks that a unit may have one more callback of this topic's kind.
pub fn has_place(name: &UnitName, unit: &Unit, topic: &Topic) -> Result<(), LimitExceeded> {
    if unit.callbacks.contains_key(topic) {
        return Ok(());
    }
    let is_same_kind = |other: &&Topic| other.is_requested() == topic.is_requested();
    let count = unit.callbacks.keys().filter(is_same_kind).count() + 1;
    let what = format_args!("callbacks of unit {name}");
    within("callbacks_per_unit_max", CALLBACKS_PER_UNIT_MAX, count, what)
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
