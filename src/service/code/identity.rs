//! Errors about the identity of the caller: incarnations, sessions and request ids.

use super::{ApiError, Reason};
use crate::domain::rejected::Rejected;

/// Converts a rejection; the caller adds the application.
pub(super) fn problem(rejected: &Rejected) -> ApiError {
    let new = |reason| ApiError::new(reason, rejected.to_string());
    match rejected {
        Rejected::StaleIncarnation { unit, given, current } => new(Reason::StaleIncarnation)
            .with("unit", unit)
            .with("given", given)
            .with("current", current),
        Rejected::UnknownIncarnation { unit, given, current } => new(Reason::InvalidValue)
            .with("field", "incarnation")
            .with("unit", unit)
            .with("given", given)
            .with("current", current),
        Rejected::IncarnationsUsedUp { unit } => new(Reason::LimitExceeded)
            .with("limit", "incarnation")
            .with("max", u64::MAX)
            .with("unit", unit),
        Rejected::UnitRemoved { unit, given } => {
            new(Reason::StaleIncarnation).with("unit", unit).with("given", given)
        }
        Rejected::SessionOver { unit } => new(Reason::StaleIncarnation).with("unit", unit),
        Rejected::RequestIdReused { id, method } => {
            new(Reason::RequestIdReused).with("request_id", id).with("method", method)
        }
        _ => new(Reason::InvalidValue),
    }
}
