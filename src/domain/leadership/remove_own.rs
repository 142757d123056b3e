//! The end of statuses that the leader kept for the application itself, in a draft.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::history::Cause;
use crate::domain::name::UnitName;
use crate::domain::status::StatusKey;

/// Removes statuses with an event for each. Returns their number.
pub(in crate::domain) fn remove_own(
    draft: &mut Draft<'_>,
    keys: BTreeSet<Arc<StatusKey>>,
    cause: Cause,
) -> u32 {
    let removed = keys.len() as u32;
    for key in keys {
        let old = draft.status(&key).cloned();
        draft.log_status(&key, old.as_deref(), None, cause);
        draft.put_status(key, None);
    }
    removed
}

/// Removes the whole set.
pub(in crate::domain) fn drop_own_set(draft: &mut Draft<'_>, cause: Cause) {
    let own = draft.keys_of(&UnitName::application(), None);
    remove_own(draft, own, cause);
}
