//! The end of statuses that the leader set for the application, in a draft.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::history::{Cause, StatusEvent};
use crate::domain::name::UnitName;
use crate::domain::status::StatusKey;

/// Removes statuses of the application itself, with an event for each. Returns their number.
pub fn remove_own(draft: &mut Draft<'_>, keys: BTreeSet<Arc<StatusKey>>, cause: Cause) -> u32 {
    let mut removed = 0;
    for key in keys {
        // The end of a lease in the same command may have removed the status.
        let Some(old) = draft.status(&key).cloned() else { continue };
        draft.log_status(&key, Some(&old), None, cause);
        draft.put_status(key, None);
        removed += 1;
    }
    removed
}

/// Withdraws the status of the application as a whole. Returns whether there was one.
pub fn withdraw(draft: &mut Draft<'_>, cause: Cause) -> bool {
    let Some(old) = draft.head.take_application_status() else {
        return false;
    };
    let event = draft.event(cause).of_unit(&UnitName::application());
    draft.log(StatusEvent { from: Some(old.level), ..event });
    true
}
