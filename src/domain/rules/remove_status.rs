//! Removal of statuses in a draft.

use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::history::Cause;
use crate::domain::model::status::StatusKey;

/// Removes statuses, with an event for each. Returns their number.
pub fn remove_all(
    draft: &mut Draft<'_>,
    keys: impl IntoIterator<Item = Arc<StatusKey>>,
    cause: Cause,
) -> u32 {
    let mut removed = 0;
    for key in keys {
        // An earlier step of the command may have removed the status: the contact of a new
        // incarnation, or the end of a lease.
        let Some(old) = draft.status(&key).cloned() else { continue };
        let cause = match cause {
            Cause::Replaced if old.flapping().is_some() => Cause::FlappingEnded,
            cause => cause,
        };
        draft.log_status(&key, Some(&old), None, cause);
        draft.put_status(key, None);
        removed += 1;
    }
    removed
}
