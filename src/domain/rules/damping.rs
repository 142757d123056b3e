//! Results of latched or damped components in a draft: the visible report changes only when
//! necessary, and the last report is stored by a quiet commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::history::Cause;
use crate::domain::model::policy::Config;
use crate::domain::model::status::damping::Reported;
use crate::domain::model::status::flapping::Swings;
use crate::domain::model::status::{Status, StatusKey};
use crate::domain::model::unit::Unit;

/// Returns whether a result changed only the deadlines, the time of observation and the number of
/// results.
fn is_repeat(old: &Status, new: &Status) -> bool {
    let Status { expire_time, expire_time_written, observe_time, swings, end_time, .. } =
        old.clone();
    let same = Status { expire_time, expire_time_written, observe_time, swings, ..new.clone() };
    Status { end_time, ..same } == *old
}

/// Returns whether this status may be latched or damped.
pub fn may_hold(draft: &Draft<'_>, key: &StatusKey, status: &Status) -> bool {
    let config = &draft.head.config;
    status.held.is_some() || config.latch_of(key).is_some() || config.damping_of(key).is_some()
}

/// Applies one more result to an existing status. Returns whether a visible value changed.
pub fn take_result(draft: &mut Draft<'_>, key: Arc<StatusKey>, latest: Option<Reported>) -> bool {
    let Some(old) = draft.latest(&key) else { return false };
    let incarnation = draft.unit(&key.unit).map_or(0, |unit| unit.incarnation);
    let new = old.after_result(&draft.head.config, &key, latest, incarnation, draft.now);
    if let Some(new) = &new
        && is_repeat(&old, new)
    {
        let (before, swings) = (old.swings, new.swings);
        if new.end_time != old.end_time {
            // As `repeat` does.
            let expire_time = new.expire_time.max(old.expire_time);
            let times = Status { expire_time, expire_time_written: expire_time, ..old };
            draft.contacts.remove_swings(&key);
            let moved = Status { end_time: new.end_time, swings, ..times };
            draft.put_status_quietly(key, Arc::new(moved));
            return false;
        }
        if let Some(until) = new.expire_time {
            draft.refresh(&key, &Arc::new(old), until);
        }
        if swings != before {
            // In the drafted status if there is one, else in memory.
            match draft.statuses.written_mut(&key) {
                Some(status) => Arc::make_mut(status).swings = swings,
                None => draft.contacts.put_swings(&key, swings),
            }
        }
        return false;
    }
    let while_stopping = draft.unit(&key.unit).is_some_and(Unit::is_stopping);
    let new = new.map(|new| Status { while_stopping: old.while_stopping || while_stopping, ..new });
    let cause = if new.is_some() { Cause::Reported } else { Cause::Replaced };
    put_result(draft, key, &old, new, cause)
}

/// Returns the statuses, missing from a pull set, that a latch or damping keeps.
pub fn held_without(
    draft: &Draft<'_>,
    keys: &BTreeSet<Arc<StatusKey>>,
) -> BTreeSet<Arc<StatusKey>> {
    let stays = |key: &&Arc<StatusKey>| {
        let may = draft.status(*key).is_some_and(|status| may_hold(draft, key, status));
        let status = may.then(|| draft.latest(key)).flatten();
        let config = &draft.head.config;
        status.is_some_and(|s| s.after_result(config, key, None, 0, draft.now).is_some())
    };
    keys.iter().filter(stays).cloned().collect()
}

/// Ends flapping once the level has not changed for long enough: the last report becomes
/// visible.
pub fn calm(draft: &mut Draft<'_>, key: &Arc<StatusKey>) {
    let deadlines = draft.deadlines();
    let is_over = |s: &Status| deadlines.of_calm(s).is_some_and(|at| at <= draft.judged);
    let Some(old) = draft.latest(key).filter(is_over) else { return };
    let new = old.settled(&draft.head.config, key, true, draft.now);
    put_result(draft, key.clone(), &old, new, Cause::FlappingEnded);
}

/// Applies a changed configuration: statuses that are no longer latched or damped show their
/// last report.
pub fn release(draft: &mut Draft<'_>, before: &Config) {
    let config = &draft.head.config;
    let same = config.latches == before.latches
        && config.damping == before.damping
        && config.policy == before.policy;
    if same {
        return;
    }
    let is_of_interest = |s: &Status| s.held.is_some() || s.swings != Swings::default();
    let known = draft.base.statuses.iter().chain(draft.statuses.written());
    let keys: BTreeSet<Arc<StatusKey>> =
        known.filter(|(_, status)| is_of_interest(status)).map(|(k, _)| k.clone()).collect();
    for key in keys {
        let Some(old) = draft.latest(&key) else { continue };
        let new = old.settled(&draft.head.config, &key, false, draft.now);
        if new.as_ref() != Some(&old) {
            put_result(draft, key, &old, new, Cause::Configured);
        }
    }
}

/// Writes a status that is or was latched or damped; quietly if readers see no difference.
fn put_result(
    draft: &mut Draft<'_>,
    key: Arc<StatusKey>,
    old: &Status,
    new: Option<Status>,
    cause: Cause,
) -> bool {
    draft.contacts.remove_swings(&key);
    let new = new.map(|new| Status { expire_time_written: new.expire_time, ..new });
    if let Some(new) = &new
        && new.looks_like(old)
    {
        draft.put_status_quietly(key, Arc::new(new.clone()));
        return false;
    }
    let new = new.map(|new| Status { update_time: draft.now, ..new });
    let flaps = new.as_ref().is_some_and(|new| new.flapping().is_some());
    match (old.flapping().is_some(), flaps) {
        (false, true) => draft.log_always(&key, Some(old), new.as_ref(), Cause::FlappingBegan),
        (true, false) => draft.log_always(&key, Some(old), new.as_ref(), Cause::FlappingEnded),
        _ => draft.log_status(&key, Some(old), new.as_ref(), cause),
    }
    draft.put_status(key, new.map(Arc::new));
    true
}
