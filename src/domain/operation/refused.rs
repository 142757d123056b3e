//! Why an operation refuses what is asked of it.

use super::{Reason, State};
use crate::domain::name::{OperationId, UnitName};
use crate::domain::time::Timestamp;

/// Why an operation refuses what is asked of it. The operation is as it was, unless it says
/// otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The application has no such operation.
    #[error("operation {id} is not known; begin it, or ask ListOperations what there is")]
    NotFound {
        /// The operation asked for.
        id: OperationId,
    },
    /// Somebody has taken it up since.
    #[error(
        "fence {given} of operation {id} is not the newest, {current}: somebody else has taken it \
         up; stop working on it"
    )]
    StaleFence {
        /// The operation.
        id: OperationId,
        /// The fence that was given.
        given: u64,
        /// The newest.
        current: u64,
    },
    /// Somebody works on it. A target asked for is remembered as the next.
    #[error("{} holds operation {id} to {target}; wait until it is done", who(holder))]
    Held {
        /// The operation that is held.
        id: OperationId,
        /// Where it leads.
        target: Box<str>,
        /// Who holds it.
        holder: UnitName,
        /// Until when without a word.
        expire_time: Timestamp,
        /// When this was decided.
        now: Timestamp,
    },
    /// Another one is not finished. The target asked for is remembered as the next.
    #[error("{}", resume_first(id, target, *state))]
    ResumeFirst {
        /// The operation that comes first.
        id: OperationId,
        /// Where it leads.
        target: Box<str>,
        /// Where it stands.
        state: State,
    },
    /// What is to be rolled back cannot be undone.
    #[error("operation {id} to {target} was not begun as reversible; retry or supersede it")]
    NotReversible {
        /// The operation that cannot be undone.
        id: OperationId,
        /// Where it led.
        target: Box<str>,
    },
    /// It is not yet time for the next attempt.
    #[error("operation {id} waits for its next attempt; acquire it when that is due")]
    NotDue {
        /// The operation.
        id: OperationId,
        /// When it is.
        retry_time: Timestamp,
        /// When this was decided.
        now: Timestamp,
    },
    /// What stands under its payload is not what was recorded; it has moved to this state.
    #[error("operation {id} is {} now: {}", state.word(), payload(*reason))]
    PayloadLost {
        /// The operation.
        id: OperationId,
        /// Where it stands now.
        state: State,
        /// Why.
        reason: Reason,
    },
    /// It cannot be asked that in this state.
    #[error("operation {id} is {} ({}); {hint}", state.word(), reason.word())]
    State {
        /// The operation.
        id: OperationId,
        /// Where it stands.
        state: State,
        /// Why.
        reason: Reason,
        /// What can be asked instead.
        hint: &'static str,
    },
    /// It would have to be done before it is begun.
    #[error("deadline is {} ms in the past; give one that is still to come", late(*deadline, *now))]
    DeadlinePassed {
        /// The deadline given.
        deadline: Timestamp,
        /// The store's clock.
        now: Timestamp,
    },
}

fn late(deadline: Timestamp, now: Timestamp) -> u128 {
    now.since(deadline).as_millis()
}

fn who(holder: &UnitName) -> String {
    match holder.as_str() {
        "" => "somebody".to_string(),
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
