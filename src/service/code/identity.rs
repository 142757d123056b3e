//! The rows of the error table for the sender of a command: its incarnation and its session.

use super::{ApiError, Reason};
use crate::domain::unit::refused::IdentityError;

/// Converts the refusal of a sender; the caller adds the application.
pub(super) fn problem(refused: &IdentityError) -> ApiError {
    let new = |reason| ApiError::new(reason, refused.to_string());
    match refused {
        IdentityError::StaleIncarnation { unit, given, current } => new(Reason::StaleIncarnation)
            .with("unit", unit)
            .with("given", given)
            .with("current", current),
        IdentityError::UnknownIncarnation { unit, given, current } => new(Reason::InvalidValue)
            .with("field", "incarnation")
            .with("unit", unit)
            .with("given", given)
            .with("current", current),
        IdentityError::UnitRemoved { unit, given } => {
            new(Reason::StaleIncarnation).with("unit", unit).with("given", given)
        }
        IdentityError::JustRemoved { unit, wait } => new(Reason::StaleIncarnation)
            .with("unit", unit)
            .with("retry_after_ms", wait.as_millis()),
        IdentityError::SessionOver { unit } => new(Reason::StaleIncarnation).with("unit", unit),
    }
}
