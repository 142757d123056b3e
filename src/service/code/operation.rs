//! The rows of the error table for operations.

use super::{ApiError, Reason, Violation};
use crate::domain::operation::refused::Refused;
use crate::domain::time::Timestamp;

/// Converts a refusal of an operation.
pub(super) fn problem(refused: &Refused) -> ApiError {
    let text = refused.to_string();
    match refused {
        Refused::NotFound { id } => {
            ApiError::new(Reason::OperationNotFound, text).with("operation_id", id)
        }
        Refused::StaleFence { id, given, current } => ApiError::new(Reason::StaleFence, text)
            .with("operation_id", id)
            .with("given", given)
            .with("current", current),
        Refused::Held { id, target, holder, expire_time, now } => {
            ApiError::new(Reason::OperationHeld, text)
                .with("operation_id", id)
                .with("target_version", target)
                .with("holder", holder)
                .with("expires", moment(*expire_time))
                .retry_after(expire_time.since(*now))
        }
        Refused::ResumeFirst { id, target, state } => ApiError::new(Reason::ResumeFirst, text)
            .with("operation_id", id)
            .with("target_version", target)
            .with("state", state.word()),
        Refused::NotReversible { id, target } => ApiError::new(Reason::OperationState, text)
            .with("operation_id", id)
            .with("target_version", target),
        Refused::NotDue { id, retry_time, now } => ApiError::new(Reason::OperationState, text)
            .with("operation_id", id)
            .with("state", "RETRY_WAIT")
            .with("retry_time", moment(*retry_time))
            .retry_after(retry_time.since(*now)),
        Refused::PayloadLost { id, state, reason } | Refused::State { id, state, reason, .. } => {
            ApiError::new(Reason::OperationState, text)
                .with("operation_id", id)
                .with("state", state.word())
                .with("operation_reason", reason.word())
        }
        Refused::DeadlinePassed { .. } => {
            let text = text.trim_start_matches("deadline ");
            ApiError::of_fields(vec![Violation::new("deadline", Reason::InvalidValue, text)])
        }
    }
}

/// Formats a time as google.protobuf.Timestamp in JSON.
fn moment(time: Timestamp) -> String {
    let seconds = i64::try_from(time.millis() / 1000).unwrap_or(i64::MAX);
    let nanos = (time.millis() % 1000) as i32 * 1_000_000;
    prost_types::Timestamp { seconds, nanos }.to_string()
}
