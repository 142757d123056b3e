//! Changes caused by time alone: a ttl passes, a status ends, a silent unit is lost, a flapping
//! status becomes calm, the leader's status expires, a lease lapses.

use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::app::Due;
use crate::domain::model::history::Cause;
use crate::domain::model::limits::EXPIRED_PER_COMMIT_MAX;
use crate::domain::model::status::{Status, StatusKey};
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;
use crate::domain::rules::callback::mark_callbacks_due;
use crate::domain::rules::damping::calm;
use crate::domain::rules::fault::move_fault;
use crate::domain::rules::mark::move_mark;
use crate::domain::rules::operation::lapse_operations;
use crate::domain::rules::remove_status::remove_all;
use crate::domain::rules::set_status::expire_application_status;
use crate::domain::rules::silence::{end_lost_unit, lose_unit, quieten_unit};
use crate::domain::rules::succession::expire_lease;

/// Drafts everything that is due, at most [`EXPIRED_PER_COMMIT_MAX`] records at once.
pub fn expire(draft: &mut Draft<'_>) {
    // First, regardless of the number of due records: an expired lease must not give any rights.
    expire_lease(draft);
    let (now, judged, deadlines) = (draft.now, draft.judged, draft.deadlines());
    let passed = |at: Option<Timestamp>| at.is_some_and(|at| at <= judged);
    let due = draft.base.due.iter().take_while(|(at, _)| *at <= now);
    let due: Vec<Due> = due.take(EXPIRED_PER_COMMIT_MAX).map(|(_, d)| d.clone()).collect();
    for due in due {
        match due {
            Due::Status(key) => expire_status(draft, key),
            Due::Unit(name) => {
                match draft.unit(&name).filter(|unit| passed(deadlines.of_silence(unit))) {
                    Some(unit) if unit.silence_ends.is_none() => quieten_unit(draft, &name),
                    Some(unit) if unit.lost_since.is_some() => end_lost_unit(draft, &name),
                    Some(_) => lose_unit(draft, &name),
                    None => {}
                }
                let callback = draft.unit(&name).and_then(Unit::next_callback);
                if callback.is_some_and(|at| at <= now) {
                    mark_callbacks_due(draft, &name);
                }
            }
            Due::Calm(key) => calm(draft, &key),
            Due::Fault(key) => move_fault(draft, &key),
            Due::ApplicationStatus => expire_application_status(draft),
            Due::Operation(_) => lapse_operations(draft),
            Due::Mark(id) => move_mark(draft, &id),
            // The lease has ended first of all, and a deletion is no part of a draft.
            Due::Lease | Due::Abandoned => {}
        }
    }
}

/// Ends a status, or marks it as stale.
fn expire_status(draft: &mut Draft<'_>, key: Arc<StatusKey>) {
    let Some(status) = draft.status(&key).cloned() else { return };
    let (judged, deadlines) = (draft.judged, draft.deadlines());
    if deadlines.of_end(&status).is_some_and(|at| at <= judged) {
        remove_all(draft, [key], Cause::Ended);
        return;
    }
    if deadlines.of_ttl(&status).is_none_or(|at| judged < at) {
        return;
    }
    if key.unit.is_application() {
        // No unit could repeat it.
        remove_all(draft, [key], Cause::Expired);
        return;
    }
    let stale = Status {
        stale: true,
        update_time: draft.now,
        expire_time_written: status.expire_time,
        ..(*status).clone()
    };
    draft.log_status(&key, Some(&status), Some(&stale), Cause::Expired);
    draft.put_status(key, Some(Arc::new(stale)));
}
