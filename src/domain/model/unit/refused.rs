//! The reasons for which a unit, or the sender of a command, is refused.

use std::time::Duration;

use crate::domain::model::limits::LimitExceeded;
use crate::domain::model::name::{ApplicationNotFound, UnitName};

/// The application has no such unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unit {unit} is not known")]
pub struct UnitNotFound {
    /// The requested unit.
    pub unit: UnitName,
}

/// The reason for which the sender of a command is not the valid incarnation and session of its
/// unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A newer incarnation of the unit has reported.
    #[error(
        "unit {unit} has been replaced: incarnation {given} is older than {current}; \
         stop reporting, or start again as a new incarnation"
    )]
    StaleIncarnation {
        /// The unit.
        unit: UnitName,
        /// The incarnation of the sender.
        given: u64,
        /// The valid incarnation.
        current: u64,
    },
    /// The incarnation was never assigned.
    #[error(
        "incarnation {given} of unit {unit} was never given out; the newest is {current}: give the \
         one that welcome or RegisterUnit answered, or none"
    )]
    UnknownIncarnation {
        /// The unit.
        unit: UnitName,
        /// The incarnation of the request.
        given: u64,
        /// The newest one known; 0 if none is.
        current: u64,
    },
    /// The unit was removed, and the command is from before the removal.
    #[error(
        "unit {unit} has been removed, and incarnation {given} with it; \
         stop reporting, or start again as a new incarnation"
    )]
    UnitRemoved {
        /// The unit.
        unit: UnitName,
        /// The incarnation of the sender.
        given: u64,
    },
    /// The unit was just removed, and the command, which names no incarnation, may be from before.
    #[error(
        "unit {unit} has just been removed; stop reporting. To begin it again, register it, \
         connect, or report in {} ms",
        wait.as_millis()
    )]
    JustRemoved {
        /// The unit.
        unit: UnitName,
        /// The time after which a report begins it again.
        wait: Duration,
    },
    /// The unit has opened a newer session, or lost this one.
    #[error("this session of unit {unit} is over; use the newest session, or connect again")]
    SessionOver {
        /// The unit.
        unit: UnitName,
    },
}

/// The record of the unit has the highest possible incarnation, which an earlier version took from
/// a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unit {unit} has the highest incarnation there is, and cannot begin another one; remove \
     the unit, and begin again after 10 minutes"
)]
pub struct IncarnationsUsedUp {
    /// The unit.
    pub unit: UnitName,
}

/// The reason for which a command on a unit is refused: there is no such unit.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum LookupError {
    Application(#[from] ApplicationNotFound),
    Unit(#[from] UnitNotFound),
}

/// The reason for which a command that a known unit sends is refused.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum ReporterError {
    Lookup(#[from] LookupError),
    Identity(#[from] IdentityError),
}

/// The reason for which an incarnation or a session does not begin.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum BeginError {
    Identity(#[from] IdentityError),
    Incarnations(#[from] IncarnationsUsedUp),
    Quota(#[from] LimitExceeded),
}

/// The reason for which a callback is not added.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum CallbackError {
    Lookup(#[from] LookupError),
    Identity(#[from] IdentityError),
    Quota(#[from] LimitExceeded),
}
