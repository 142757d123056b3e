//! The rows of the error table for operations.

use super::{ApiError, Reason};
use crate::domain::operation::refused::Refused;
use crate::service::protobuf::timestamp;

/// Converts a refusal of an operation.
pub(super) fn problem(refused: &Refused) -> ApiError {
    let text = refused.to_string();
    let about = |reason, id| ApiError::new(reason, &text).with("operation_id", id);
    match refused {
        Refused::NotFound { id } => about(Reason::OperationNotFound, id),
        Refused::StaleFence { id, given, current } => {
            about(Reason::StaleFence, id).with("given", given).with("current", current)
        }
        Refused::Held { id, target, holder, expire_time, now } => about(Reason::OperationHeld, id)
            .with("target_version", target)
            .with("holder", holder)
            .with("expires", timestamp(*expire_time))
            .retry_after(expire_time.since(*now)),
        Refused::ResumeFirst { id, target, state } => about(Reason::ResumeFirst, id)
            .with("target_version", target)
            .with("state", state.word()),
        Refused::NotReversible { id, target } => {
            about(Reason::OperationState, id).with("target_version", target)
        }
        Refused::NotDue { id, retry_time, now } => about(Reason::OperationState, id)
            .with("state", "RETRY_WAIT")
            .with("retry_time", timestamp(*retry_time))
            .retry_after(retry_time.since(*now)),
        Refused::PayloadLost { id, state, reason } | Refused::State { id, state, reason, .. } => {
            about(Reason::OperationState, id)
                .with("state", state.word())
                .with("operation_reason", reason.word())
        }
        Refused::DeadlinePassed { .. } => {
            ApiError::of_value("deadline", text.trim_start_matches("deadline "))
        }
    }
}
