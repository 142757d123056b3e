//! Commands on operations in a draft.

use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::bytes::Bytes;
use crate::domain::model::history::{Cause, Change, StatusEvent, Subject};
use crate::domain::model::limits::{
    OPERATION_KEPT, OPERATIONS_FINISHED_MAX, UNIT_OPERATIONS_FINISHED_MAX,
};
use crate::domain::model::name::{OperationId, PartName, UnitName};
use crate::domain::model::operation::command::{NewOperation, OperationAction, OperationCommand};
use crate::domain::model::operation::refused::{OperateError, Refused};
use crate::domain::model::operation::transition::Call;
use crate::domain::model::operation::words::OperationStatus;
use crate::domain::model::operation::{Operation, Reason, State};
use crate::domain::model::request::Outcome;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::{Reporter, Topic, Unit};
use crate::domain::rules::begin_operation::{Begin, may_begin};
use crate::domain::rules::callback::{add_callback, cancel_callback};
use crate::domain::rules::contact::note_contact;
use crate::domain::rules::quota::{check_operation_quota, check_unit_quota};

/// Applies a command to an operation. Changes by time are stored even if the command is
/// refused, and so is the requested next target.
pub fn operate(draft: &mut Draft<'_>, command: &OperationCommand) -> Result<Outcome, OperateError> {
    lapse_operations(draft);
    let call = Call { id: &command.id, by: &command.by, now: draft.now };
    check_operation_quota(draft, command)?;
    if let OperationAction::Begin(new) = &command.action
        && !new.unit.is_application()
        && draft.unit(&new.unit).is_none()
    {
        check_unit_quota(draft)?;
    }
    let known = draft.operations.get(&command.id).cloned();
    let known = known.filter(|o| {
        // An operation that was removed with its application or unit may be begun again.
        !(matches!(command.action, OperationAction::Begin(_)) && o.reason == Reason::Orphaned)
    });
    let outcome = match (&command.action, known) {
        (OperationAction::Begin(_), Some(known)) => {
            Outcome { fence: known.fence, ..Outcome::default() }
        }
        (OperationAction::Begin(new), None) => {
            begin_operation(draft, call, new).map_err(|refused| with_outages(draft, refused))?
        }
        (_, None) => return Err(Refused::NotFound { id: command.id.clone() }.into()),
        (what, Some(known)) => change_operation(draft, call, what, &known)
            .map_err(|refused| with_outages(draft, refused))?,
    };
    if draft.unit(&command.by).is_some_and(|unit| !unit.has_departed()) {
        // Any call that names a unit is contact with it.
        note_contact(draft, &Reporter::new(command.by.clone(), None));
    }
    Ok(outcome)
}

/// Returns the refusal with the end of the lease that is in force.
fn with_outages(draft: &Draft<'_>, mut refused: Refused) -> Refused {
    if let Refused::Held { id, expire_time, .. } = &mut refused
        && let Some(held) = draft.operations.get(id)
    {
        *expire_time = draft.deadlines().of_holder(held).unwrap_or(*expire_time);
    }
    refused
}

fn begin_operation(
    draft: &mut Draft<'_>,
    call: Call<'_>,
    new: &NewOperation,
) -> Result<Outcome, Refused> {
    let now = draft.now;
    if let Some(deadline) = new.deadline.filter(|deadline| *deadline <= now) {
        return Err(Refused::DeadlinePassed { deadline, now });
    }
    let before = draft.operations.last_of(&new.unit).map(|(id, o)| (id.clone(), o.clone()));
    let before_call = before.as_ref().map(|(id, o)| (Call { id, ..call }, &**o));
    match may_begin(before_call, new) {
        Ok(Begin::Begun) => {}
        Ok(Begin::Supersedes) => {
            if let Some((id, before)) = &before {
                let mut superseded = (**before).clone();
                superseded.supersede(Call { id, ..call }, &new.note);
                put_operation(draft, id, superseded);
            }
        }
        Err(refused) => {
            let is_next = matches!(refused, Refused::Held { .. } | Refused::ResumeFirst { .. });
            if let Some((id, before)) = before.filter(|_| is_next) {
                let next_target = new.target_version.clone();
                put_operation(draft, &id, Operation { next_target, ..(*before).clone() });
            }
            return Err(refused);
        }
    }
    let fence = draft.next_count(draft.operations.get(call.id).map_or(0, |orphan| orphan.fence));
    let turn = draft.operations.newest_turn() + 1;
    if !new.unit.is_application() && draft.unit(&new.unit).is_none() {
        // A unit that begins its own work exists, as one that reports does.
        note_contact(draft, &Reporter::new(new.unit.clone(), None));
    }
    put_operation(draft, call.id, Operation::begin(call, new, fence, turn));
    if let Some(bytes) = &new.bytes {
        put_payload(draft, call.id, Some(bytes.clone()));
    }
    forget_operations(draft);
    Ok(Outcome { changed: true, fence, ..Outcome::default() })
}

fn change_operation(
    draft: &mut Draft<'_>,
    call: Call<'_>,
    what: &OperationAction,
    known: &Arc<Operation>,
) -> Result<Outcome, Refused> {
    let last = draft.operations.last_of(&known.unit).map(|(id, o)| (id.clone(), o.clone()));
    if let Some((id, last)) = last.filter(|(id, _)| id != call.id) {
        // This operation is over, and may be retried only once the later one is over too.
        if !matches!(what, OperationAction::Retry) {
            return Err(known.refuses(call, "another operation has begun since"));
        }
        last.is_free(Call { id: &id, ..call })?;
        if last.is_open() {
            let (target, state) = (last.target_version.clone(), last.state);
            return Err(Refused::ResumeFirst { id, target, state });
        }
    }
    // A caller that knows the fence acts for the holder.
    let is_fenced = !matches!(
        what,
        OperationAction::Acquire { .. } | OperationAction::Cancel | OperationAction::Retry
    );
    let holder = known.holder().filter(|_| is_fenced && call.by.is_application()).cloned();
    let call = Call { by: holder.as_ref().unwrap_or(call.by), ..call };
    let is_acquire = matches!(what, OperationAction::Acquire { .. });
    if is_acquire && !known.unit.is_application() && known.unit != *call.by {
        return Err(known.refuses(call, "it is the work of another unit, which has to acquire it"));
    }
    let mut operation = (**known).clone();
    let answer = match what {
        OperationAction::Begin(_) => Ok(()),
        OperationAction::Acquire { verify, payload } => {
            operation.acquire(call, *verify, *payload, draft.next_count(known.fence))
        }
        OperationAction::Heartbeat { fence, checkpoint, progress } => {
            operation.heartbeat(call, *fence, checkpoint.as_ref(), progress.as_deref())
        }
        OperationAction::Release { fence } => operation.release(call, *fence),
        OperationAction::Complete { fence } => operation.complete(call, *fence),
        OperationAction::Fail { fence, failure, touched, retry_after } => {
            operation.fail(call, *fence, failure, *touched, *retry_after)
        }
        OperationAction::Verify { fence, observed } => operation.verify(call, *fence, *observed),
        OperationAction::Cancel => operation.cancel(call),
        OperationAction::Retry => operation.retry(call),
    };
    // Its deadline may have passed while it was held.
    operation.lapse(call.id, draft.deadlines(), draft.judged);
    if matches!(what, OperationAction::Retry) && operation != **known {
        operation.turn = draft.operations.newest_turn() + 1;
    }
    let changed = operation != **known;
    let fence = operation.fence;
    put_operation(draft, call.id, operation);
    answer?;
    Ok(Outcome { changed, fence, ..Outcome::default() })
}

/// Adds a callback for the unit whose attempt failed, at the time of the next attempt; cancels
/// it once the operation no longer waits.
fn promise_retry(
    draft: &mut Draft<'_>,
    id: &OperationId,
    old: Option<&Operation>,
    new: &Operation,
) {
    let topic = Topic::retry(PartName::default(), id.as_str());
    let promised = |o: &Operation| {
        let failed = o.history.last().filter(|_| o.state == State::RetryWait)?;
        Some((failed.by.clone(), o.retry_time?))
    };
    let (before, now) = (old.and_then(promised), promised(new));
    if before == now {
        return;
    }
    if let Some((unit, _)) = before {
        cancel_callback(draft, &unit, &topic);
    }
    if let Some((unit, at)) = now {
        // An absent unit, or one at its limit of callbacks, gets the operation in its next
        // welcome.
        let _ = add_callback(draft, &unit, &topic, at, id.as_str());
    }
}

/// Applies the changes of operations by time alone.
pub fn lapse_operations(draft: &mut Draft<'_>) {
    let deadlines = draft.deadlines();
    let is_due = |o: &Operation| deadlines.of_operation(o).is_some_and(|at| at <= draft.judged);
    let due = draft.operations.all_open().filter(|(_, open)| is_due(open));
    let due: Vec<_> = due.map(|(id, open)| (id.clone(), (**open).clone())).collect();
    for (id, mut operation) in due {
        operation.lapse(&id, draft.deadlines(), draft.judged);
        put_operation(draft, &id, operation);
    }
}

/// Gives up the open work of a unit that is removed, and forgets what else it began.
pub fn abandon_operations_of(draft: &mut Draft<'_>, unit: &UnitName) {
    let nobody = UnitName::application();
    let of_unit = draft.operations.iter().filter(|(_, o)| o.unit == *unit);
    let of_unit: Vec<_> = of_unit.map(|(id, o)| (id.clone(), (**o).clone())).collect();
    for (id, mut operation) in of_unit {
        if operation.is_open() {
            operation.orphan(Call { id: &id, by: &nobody, now: draft.now });
            put_operation(draft, &id, operation);
        } else if operation.reason != Reason::Orphaned {
            forget(draft, &id);
        }
    }
}

/// Handles a data loss of the store. Returns whether an operation is open.
pub fn reacquire_operations_after_loss(draft: &mut Draft<'_>) -> bool {
    let open = draft.operations.all_open();
    let open: Vec<_> = open.map(|(id, open)| (id.clone(), (**open).clone())).collect();
    let is_any = !open.is_empty();
    for (id, mut operation) in open {
        operation.invalidate_fence(&id, draft.next_count(operation.fence), draft.now);
        put_operation(draft, &id, operation);
    }
    is_any
}

/// Returns whether a former master of the store assigned the fence of an open operation.
pub fn has_former_fence(draft: &Draft<'_>) -> bool {
    draft.operations.all_open().any(|(_, open)| open.fence <= draft.base.epoch_floor)
}

/// Writes a record if it changed, and an event if the change is visible.
fn put_operation(draft: &mut Draft<'_>, id: &OperationId, new: Operation) {
    let old = draft.operations.get(id).cloned();
    if old.as_deref() == Some(&new) {
        return;
    }
    let has_payload = !matches!(new.state, State::Succeeded | State::Superseded | State::Abandoned);
    if !has_payload && draft.operations.payload(id).is_some() {
        put_payload(draft, id, None);
    }
    let moved = old.as_ref().is_none_or(|old| {
        old.history.last() != new.history.last() || old.next_target != new.next_target
    });
    promise_retry(draft, id, old.as_deref(), &new);
    log_operation(draft, id, old.as_deref(), &new);
    draft.usage.count_operation(old.is_some(), true);
    draft.usage.count_bytes(old.as_ref().map_or(0, |old| old.size()), new.size());
    let unit = new.unit.clone();
    draft.operations.put(id, Some(Arc::new(new)));
    match show(draft, &unit) || moved {
        true => draft.head.mark_visible(),
        // A renewal of the lease is not visible, but other replicas must not overwrite it.
        false => draft.head.mark_quiet(),
    }
}

/// Puts the status that the last operation of a unit, or with `""` of the application, contributes.
/// Returns whether it changed.
fn show(draft: &mut Draft<'_>, unit: &UnitName) -> bool {
    let known = draft.unit(unit).cloned();
    let old = match &known {
        Some(known) => &known.operation,
        None if unit.is_application() => &draft.head.operation,
        None => return false,
    };
    let last = draft.operations.last_of(unit);
    let new = last.and_then(|(id, last)| last.status(id, draft.now)).map(|new| {
        let same = old.as_deref().filter(|old| old.id == new.id && old.level == new.level);
        let since = same.map_or(new.since, |old| old.since);
        Box::new(OperationStatus { since, ..new })
    });
    if new == *old {
        return false;
    }
    match known {
        Some(known) => draft.put_unit(unit.clone(), Some(Unit { operation: new, ..known })),
        None => draft.head.set_operation(new),
    }
    true
}

fn put_payload(draft: &mut Draft<'_>, id: &OperationId, payload: Option<Bytes>) {
    let size = |payload: Option<&Bytes>| payload.map_or(0, |payload| payload.len() as u64);
    draft.usage.count_bytes(size(draft.operations.payload(id)), size(payload.as_ref()));
    draft.operations.put_payload(id, payload);
}

fn log_operation(
    draft: &mut Draft<'_>,
    id: &OperationId,
    old: Option<&Operation>,
    new: &Operation,
) {
    if old.is_some_and(|old| old.state == new.state) {
        return;
    }
    let state = |operation: Option<&Operation>| operation.map_or("", |o| o.state.word());
    let holder = |operation: Option<&Operation>| {
        operation.and_then(Operation::holder).map_or("", UnitName::as_str).to_string()
    };
    let mut changes = vec![Change::new("state", state(old), state(Some(new)))];
    let (before, after) = (holder(old), holder(Some(new)));
    if before != after {
        changes.push(Change::new("holder", &before, &after));
    }
    draft.log(StatusEvent {
        changes,
        subject: Some(Subject::operation(&new.unit, id)),
        from: old.and_then(Operation::level),
        to: new.level(),
        message: new.message().into(),
        reason: new.reason.word().into(),
        ..draft.event(Cause::Operation)
    });
}

/// Drops finished operations over the limits, or past their age, the oldest first. Those of the
/// units have a limit of their own, so that they displace none of the application.
fn forget_operations(draft: &mut Draft<'_>) {
    forget_finished(draft, UnitName::is_application, OPERATIONS_FINISHED_MAX);
    forget_finished(draft, |unit| !unit.is_application(), UNIT_OPERATIONS_FINISHED_MAX);
}

fn forget_finished(draft: &mut Draft<'_>, is_meant: fn(&UnitName) -> bool, max: usize) {
    let finished = draft.operations.iter().filter(|(_, o)| is_meant(&o.unit) && !o.is_open());
    let mut finished: Vec<_> =
        finished.map(|(id, o)| (o.update_time, o.turn, id.clone())).collect();
    finished.sort();
    let too_many = finished.len().saturating_sub(max);
    let is_old = |at: Timestamp| OPERATION_KEPT <= draft.now.since(at);
    let gone: Vec<OperationId> = finished
        .into_iter()
        .enumerate()
        .filter(|(n, (at, _, _))| *n < too_many || is_old(*at))
        .map(|(_, (_, _, id))| id)
        .collect();
    for id in gone {
        forget(draft, &id);
    }
}

/// Drops one operation, and what it contributes.
fn forget(draft: &mut Draft<'_>, id: &OperationId) {
    let Some(gone) = draft.operations.get(id).cloned() else { return };
    draft.usage.count_operation(true, false);
    draft.usage.count_bytes(gone.size(), 0);
    draft.operations.put(id, None);
    if draft.operations.payload(id).is_some() {
        put_payload(draft, id, None);
    }
    show(draft, &gone.unit);
}
