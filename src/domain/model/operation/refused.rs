//! The reasons for which an operation refuses a command.

use crate::domain::model::limits::LimitExceeded;
use crate::domain::model::name::{OperationId, UnitName};
use crate::domain::model::operation::{Reason, State};
use crate::domain::model::time::Timestamp;

/// The reason for which an operation refuses a command. The operation does not change, except where
/// a variant documents it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The application has no such operation.
    #[error("operation {id} is not known; begin it, or see ListOperations")]
    NotFound {
        /// The requested operation.
        id: OperationId,
    },
    /// The fence is not the newest one, or belongs to another worker.
    #[error("{}", stale_fence(id, *given, *current))]
    StaleFence {
        /// The operation.
        id: OperationId,
        /// The given fence.
        given: u64,
        /// The newest fence.
        current: u64,
    },
    /// A worker holds it. A requested target is stored as its next one.
    #[error("{} holds operation {id} to {target}; wait until it is done", who(holder))]
    Held {
        /// The held operation.
        id: OperationId,
        /// Its target.
        target: Box<str>,
        /// The holder.
        holder: UnitName,
        /// When its lease lapses.
        expire_time: Timestamp,
        /// Time of the refusal.
        now: Timestamp,
    },
    /// Another operation is unfinished. The requested target is stored as its next one.
    #[error("{}", resume_first(id, target, *state))]
    ResumeFirst {
        /// The operation that comes first.
        id: OperationId,
        /// Its target.
        target: Box<str>,
        /// Its state.
        state: State,
    },
    /// The operation to roll back cannot be undone.
    #[error("operation {id} to {target} was not begun as reversible; retry or supersede it")]
    NotReversible {
        /// The operation that cannot be undone.
        id: OperationId,
        /// Its target.
        target: Box<str>,
    },
    /// The next attempt is not due yet.
    #[error("operation {id} waits for its next attempt; acquire it when that is due")]
    NotDue {
        /// The operation.
        id: OperationId,
        /// When it is due.
        retry_time: Timestamp,
        /// Time of the refusal.
        now: Timestamp,
    },
    /// The payload is not the recorded one; the operation has moved to this state.
    #[error("operation {id} is {} now: {}", state.word(), payload(*reason))]
    PayloadLost {
        /// The operation.
        id: OperationId,
        /// The new state.
        state: State,
        /// The reason.
        reason: Reason,
    },
    /// The command is not possible in this state.
    #[error("operation {id} is {} ({}); {hint}", state.word(), reason.word())]
    State {
        /// The operation.
        id: OperationId,
        /// The state.
        state: State,
        /// The reason of the state.
        reason: Reason,
        /// The possible commands.
        hint: &'static str,
    },
    /// The deadline is in the past.
    #[error(
        "deadline is {} ms in the past; give one in the future",
        now.since(*deadline).as_millis()
    )]
    DeadlinePassed {
        /// The given deadline.
        deadline: Timestamp,
        /// The store's clock.
        now: Timestamp,
    },
}

fn stale_fence(id: &OperationId, given: u64, current: u64) -> String {
    match given == current {
        true => format!("fence {given} of operation {id} is of another worker; stop working on it"),
        false => format!(
            "fence {given} of operation {id} is not the newest, {current}: a worker has acquired \
             it since, or the store may have lost writes; stop working on it, or acquire it"
        ),
    }
}

fn who(holder: &UnitName) -> String {
    match holder.as_str() {
        "" => "a client".to_string(),
        unit => format!("unit {unit}"),
    }
}

fn resume_first(id: &OperationId, target: &str, state: State) -> String {
    let first = format!("operation {id} to {target} comes first: it is {}", state.word());
    match state {
        State::Failed | State::Blocked => {
            format!("{first}; retry or cancel it, or begin the other with supersede and a reason")
        }
        _ => format!("{first}; acquire and finish it, or cancel it"),
    }
}

fn payload(reason: Reason) -> &'static str {
    match reason {
        Reason::PayloadChanged => {
            "its payload is not the one that was recorded; restore it, \
                                   then retry, or supersede the operation"
        }
        _ => "its payload is missing or cannot be read; begin another operation",
    }
}

/// The reason for which a command on an operation is refused.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum OperateError {
    Refused(#[from] Refused),
    Quota(#[from] LimitExceeded),
}
