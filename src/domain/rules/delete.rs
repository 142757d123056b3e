//! Deletion of an application. Its revision stays, and the records that keep late requests from
//! creating it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::model::app::{AppState, Head};
use crate::domain::model::data::DataHead;
use crate::domain::model::history::{Cause, StatusEvent};
use crate::domain::model::leadership::risen;
use crate::domain::model::limits::FENCES_PER_DELETION_MAX;
use crate::domain::model::name::{ApplicationNotFound, OperationId, UnitName};
use crate::domain::model::operation::set::Operations;
use crate::domain::model::operation::transition::Call;
use crate::domain::model::operation::{Operation, Reason};
use crate::domain::model::request::{IdReused, Outcome, Remembered, RequestId, fence_id};
use crate::domain::model::revision::Revision;
use crate::domain::model::time::Timestamp;
use crate::domain::model::transition::{MemoryOnly, Transition, Write};
use crate::domain::model::usage::StoredCounts;

/// The reason for which an application is not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum Error {
    /// There is no such application.
    Application(#[from] ApplicationNotFound),
    /// The id of the request was used before.
    IdReused(#[from] IdReused),
}

/// Deletes an application: a separate transition, never part of a draft. The revision stays, so
/// that a new application of the same name continues the count. The answer stays too.
pub fn delete(
    state: &AppState,
    id: Option<&RequestId>,
    now: Timestamp,
) -> Result<(Option<Transition>, Outcome), Error> {
    if let Some(id) = id
        && let Some(answer) = state.requests.answer(&id.id, state.answer_expiry(now))
    {
        return Ok((None, answer.repeat(id)?));
    }
    if !state.exists() {
        return Err(ApplicationNotFound.into());
    }
    let old = state.head();
    // Readers of the old data must not mistake their version for a later one.
    let version = old.data.version + 1;
    let fences = state.operations.iter().map(|(_, operation)| operation.fence);
    let highest = fences.fold(old.lease_epoch.max(version), u64::max);
    // The revision outlives the tombstone, and counts of a later application begin above it.
    let revision = old.revision.next().max(Revision(risen(highest, old.losses, state.epoch_floor)));
    let removed = state.status_count() as u32;
    let outcome = Outcome { revision, changed: true, removed, ..Outcome::default() };
    let event = StatusEvent::new(now, revision, Cause::Deleted);
    let message = match state.is_abandoned(now) {
        true => format!("without units since {}", old.update_time.to_utc()).into(),
        false => "".into(),
    };
    let event = StatusEvent { from: Some(old.summary.level), message, ..event };
    let orphans = orphans(&state.operations, now);
    let head = Head {
        update_time: now,
        next_event: old.next_event + 1,
        own_events: old.own_events + u64::from(event.is_own()),
        lease_epoch: old.lease_epoch,
        quiet_commits: old.quiet_commits,
        data: DataHead { version, counts_above: old.data.counts_above, ..DataHead::default() },
        // What remains: the history, and the operations that leave a record.
        counts: Some(StoredCounts {
            operations: orphans.len() as u64,
            record_bytes: orphans.iter().map(|(_, orphan)| orphan.size()).sum(),
            history_bytes: old.counts.map_or(0, |counts| counts.history_bytes),
            ..StoredCounts::default()
        }),
        ..Head::empty(revision)
    };
    let mut answers = remembered(state, now);
    answers.extend(id.map(|id| {
        let fingerprint = id.fingerprint.clone();
        (id.id.clone(), Remembered { fingerprint, ..Remembered::of(now, outcome) })
    }));
    let answers = answers.into_iter().map(|(id, answer)| Write::Request(id, Some(answer.into())));
    let orphans = orphans.into_iter().map(|(id, orphan)| Write::Operation(id, Some(orphan)));
    let transition = Transition {
        app: state.name.clone(),
        base: old.revision,
        base_quiet: old.quiet_commits,
        epoch_floor: state.epoch_floor,
        head: Arc::new(head),
        writes: answers.chain(orphans).collect(),
        events: vec![event],
        memory_only: MemoryOnly::default(),
        time: now,
    };
    Ok((Some(transition), outcome))
}

/// Returns the answers that outlive the application: the valid ones, so that a late duplicate does
/// not create it again, and a fence for each unit that has an incarnation, for the same reason. If
/// there are too many units, those with the most recent contact get fences: they are the most
/// likely to report again.
fn remembered(state: &AppState, now: Timestamp) -> BTreeMap<Arc<str>, Remembered> {
    let standing = state.requests.standing(state.answer_expiry(now));
    let mut kept: BTreeMap<_, _> =
        standing.map(|(id, answer)| (id.clone(), answer.clone())).collect();
    let mut units: Vec<_> = state.units.iter().filter(|(_, unit)| unit.incarnation != 0).collect();
    units.sort_by_key(|(_, unit)| std::cmp::Reverse(unit.last_seen));
    kept.extend(units.into_iter().take(FENCES_PER_DELETION_MAX).map(|(name, unit)| {
        let outcome = Outcome { incarnation: unit.incarnation, ..Outcome::default() };
        (fence_id(name), Remembered::of(now, outcome))
    }));
    kept
}

/// Returns the records that outlive the application: each operation that is open, or was orphaned
/// before. So its holder is refused, and its fences are not assigned again.
fn orphans(operations: &Operations, now: Timestamp) -> Vec<(OperationId, Arc<Operation>)> {
    let nobody = UnitName::application();
    let kept = operations.iter().filter(|(_, o)| o.is_open() || o.reason == Reason::Orphaned);
    let orphan = |(id, operation): (&OperationId, &Arc<Operation>)| {
        let mut operation = (**operation).clone();
        if operation.is_open() {
            operation.orphan(Call { id, by: &nobody, now });
        }
        (id.clone(), Arc::new(operation))
    };
    kept.map(orphan).collect()
}
