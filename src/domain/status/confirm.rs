//! The confirmation of a pull set: a worker answers that the stored set is the current one.

use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::name::PartName;
use crate::domain::rejected::Rejected;
use crate::domain::request::Outcome;
use crate::domain::status::{Kind, Status};
use crate::domain::unit::Reporter;
use crate::domain::unit::contact::{check_known_reporter, note_contact};

/// Confirms the pull set of a unit, or of one of its components: statuses of an earlier incarnation
/// become those of this one. No ttl moves, because no report repeated the status, and a latch or
/// damping counts no result.
pub fn confirm(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    component: Option<&PartName>,
) -> Result<Outcome, Rejected> {
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
        let Some(old) = draft.latest(&key) else {
            continue;
        };
        draft.contacts.remove_swings(&key);
        let status = Status { incarnation: current, expire_time_written: old.expire_time, ..old };
        draft.put_status(key, Some(Arc::new(status)));
        changed = true;
    }
    Ok(Outcome { changed, ..Outcome::default() })
}
