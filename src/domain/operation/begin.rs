//! T1 to T4, T24 and T25: `begin`, the one call that depends on other operations.

use crate::domain::operation::command::NewOperation;
use crate::domain::operation::refused::Refused;
use crate::domain::operation::transition::Call;
use crate::domain::operation::{Kind, Operation, Reason, State};

/// The decision about a `begin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// No other operation is in the way.
    Begun,
    /// The new operation supersedes the previous one.
    Supersedes,
    /// The previous operation comes first, and stores the target as its next one.
    Refused(Refused),
}

/// Decides whether a new operation may begin beside the latest one. `before` is the latest one,
/// with a call in its own name.
pub fn may_begin(before: Option<(Call<'_>, &Operation)>, new: &NewOperation) -> Begin {
    let Some((call, before)) = before else {
        return Begin::Begun;
    };
    if let Err(held) = before.is_free(call) {
        return Begin::Refused(held);
    }
    let is_rollback = new.kind == Kind::Rollback;
    let target = || before.target_version.clone();
    let not_reversible = || Refused::NotReversible { id: call.id.clone(), target: target() };
    let resume_first =
        || Refused::ResumeFirst { id: call.id.clone(), target: target(), state: before.state };
    match before.state {
        State::Failed | State::Succeeded if is_rollback && !before.reversible => {
            Begin::Refused(not_reversible())
        }
        State::Failed | State::Blocked if new.supersede => Begin::Supersedes,
        State::Failed if is_rollback => Begin::Begun,
        State::Succeeded | State::Superseded | State::Abandoned => Begin::Begun,
        _ => Begin::Refused(resume_first()),
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
            reason: Reason::Begun,
            fence,
            lease: None,
            lease_duration: new.lease_duration,
            attempts_failed: 0,
            attempts_max: new.attempts_max,
            interruptions: 0,
            interruptions_max: new.interruptions_max,
            touched: false,
            cut_off: false,
            checkpoint: super::Bytes::default(),
            progress: "".into(),
            create_time: call.now,
            update_time: call.now,
            deadline: new.deadline,
            time_allowed: new.deadline.map(|deadline| deadline.since(call.now)),
            deadline_exceeded: false,
            retry_time: None,
            waits: 0,
            last_error: None,
            next_target: "".into(),
            note: "".into(),
            unclaimed_since: (!is_held).then_some(call.now),
            neglected: false,
            turn,
            history: Vec::new(),
            unit: new.unit.clone(),
        };
        if is_held {
            operation.hold(call);
        }
        operation.remember(call, None, state, Reason::Begun);
        operation
    }
}
