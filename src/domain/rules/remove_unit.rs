//! Removal of a unit.

use crate::domain::draft::Draft;
use crate::domain::model::history::{Cause, StatusEvent};
use crate::domain::model::name::UnitName;
use crate::domain::model::request::Outcome;
use crate::domain::model::unit::refused::LookupError;
use crate::domain::rules::fault::remove_faults;
use crate::domain::rules::lookup::unit_exists;
use crate::domain::rules::operation::abandon_operations_of;
use crate::domain::rules::succession::leave_lease;

/// Removes a unit with its statuses and faults, and fences its incarnation.
pub fn remove_unit(draft: &mut Draft<'_>, name: &UnitName) -> Result<Outcome, LookupError> {
    unit_exists(draft, name)?;
    Ok(remove(draft, name))
}

/// Removes a unit that exists.
pub fn remove(draft: &mut Draft<'_>, name: &UnitName) -> Outcome {
    remove_because(draft, name, "")
}

/// Removes a unit that exists; the history has the reason.
pub fn remove_because(draft: &mut Draft<'_>, name: &UnitName, why: &str) -> Outcome {
    let keys = draft.keys_of(name, None);
    let removed = keys.len() as u32;
    let level = draft.strongest_of(name).map(|rank| rank.level);
    for key in keys {
        draft.put_status(key, None);
    }
    remove_faults(draft, name);
    draft.end_marks_of(name);
    abandon_operations_of(draft, name);
    let incarnation = draft.unit(name).map_or(0, |unit| unit.incarnation);
    draft.requests.put_fence(name, incarnation);
    draft.put_unit(name.clone(), None);
    draft.contacts.unanswered(name);
    let event = draft.event(Cause::UnitRemoved).of_unit(name);
    draft.log(StatusEvent { from: level, message: why.into(), ..event });
    leave_lease(draft, name);
    Outcome { changed: true, removed, ..Outcome::default() }
}
