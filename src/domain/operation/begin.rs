//! T1 to T4, T24 and T25: the one call that looks at what else there is.

use super::order::NewOperation;
use super::refused::Refused;
use super::transition::Call;
use super::{Kind, Operation, Reason, State};

/// What becomes of a begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// There is nothing in its way.
    Begun,
    /// It takes the place of the one before.
    Supersedes,
    /// The one before comes first, and remembers the target as the next.
    Refused(Refused),
}

/// Whether another operation may begin beside the one that was last to be done. `before` is that
/// one, as its own call names it.
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
    /// T1: a record before the first side effect. `fence` is above every one that was ever given
    /// under this id.
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
        };
        if is_held {
            operation.hold(call);
        }
        operation.remember(call, None, state, Reason::Begun);
        operation
    }
}
