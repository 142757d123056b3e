//! T1 to T4, T24 and T25: `begin`, the one call that depends on other operations.

use crate::domain::model::operation::command::NewOperation;
use crate::domain::model::operation::refused::Refused;
use crate::domain::model::operation::transition::Call;
use crate::domain::model::operation::{Kind, Operation, Reason, State};

/// The decision about a `begin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// No other operation is in the way.
    Begun,
    /// The new operation supersedes the previous one.
    Supersedes,
}

/// Decides whether a new operation may begin beside the latest one. `before` is the latest one,
/// with a call in its own name; if it comes first, it stores the target as its next one.
pub fn may_begin(
    before: Option<(Call<'_>, &Operation)>,
    new: &NewOperation,
) -> Result<Begin, Refused> {
    let Some((call, before)) = before else { return Ok(Begin::Begun) };
    before.is_free(call)?;
    let is_rollback = new.kind == Kind::Rollback;
    let (id, target) = (call.id.clone(), before.target_version.clone());
    match before.state {
        State::Failed | State::Succeeded if is_rollback && !before.reversible => {
            Err(Refused::NotReversible { id, target })
        }
        State::Failed | State::Blocked if new.supersede => Ok(Begin::Supersedes),
        State::Failed if is_rollback => Ok(Begin::Begun),
        State::Succeeded | State::Superseded | State::Abandoned => Ok(Begin::Begun),
        state => Err(Refused::ResumeFirst { id, target, state }),
    }
}

impl Operation {
    /// T1: creates the record before the first side effect. `fence` is greater than every earlier
    /// fence of this id.
    pub fn begin(call: Call<'_>, new: &NewOperation, fence: u64, turn: u64) -> Operation {
        let is_held = !call.by.is_application();
        let state = if is_held { State::Running } else { State::Ready };
        let mut operation = Operation {
            kind: new.kind,
            from_version: new.from_version.clone(),
            target_version: new.target_version.clone(),
            payload: new.payload.clone(),
            deterministic: new.deterministic,
            reversible: new.reversible,
            state,
            fence,
            lease_duration: new.lease_duration,
            attempts_max: new.attempts_max,
            interruptions_max: new.interruptions_max,
            create_time: call.now,
            update_time: call.now,
            deadline: new.deadline,
            time_allowed: new.deadline.map(|deadline| deadline.since(call.now)),
            unclaimed_since: (!is_held).then_some(call.now),
            turn,
            unit: new.unit.clone(),
            ..Operation::default()
        };
        if is_held {
            operation.hold(call);
        }
        operation.remember(call, None, state, Reason::Begun);
        operation
    }
}
