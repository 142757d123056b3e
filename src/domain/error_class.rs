//! What an error means for who met it.

use serde::{Deserialize, Serialize};

/// What an error means for who met it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum ErrorClass {
    /// In no table: retried within bounds, never terminal.
    #[default]
    Unclassified,
    /// The path or the moment was bad; the target may be well.
    Transient,
    /// Asked to slow down.
    Throttled,
    /// Somebody else was faster.
    Conflict,
    /// Our own shutdown cut it off.
    Interrupted,
    /// Something it needs is not there yet.
    Dependency,
    /// A person must act.
    Blocked,
    /// The target is gone, says its owner.
    Gone,
    /// It will not work, however often it is tried.
    Fatal,
}

impl ErrorClass {
    /// Every class, in the order of the wire.
    pub const ALL: [ErrorClass; 9] = [
        ErrorClass::Unclassified,
        ErrorClass::Transient,
        ErrorClass::Throttled,
        ErrorClass::Conflict,
        ErrorClass::Interrupted,
        ErrorClass::Dependency,
        ErrorClass::Blocked,
        ErrorClass::Gone,
        ErrorClass::Fatal,
    ];

    /// The word for it, UPPER_SNAKE.
    pub fn word(self) -> &'static str {
        match self {
            ErrorClass::Unclassified => "UNCLASSIFIED",
            ErrorClass::Transient => "TRANSIENT",
            ErrorClass::Throttled => "THROTTLED",
            ErrorClass::Conflict => "CONFLICT",
            ErrorClass::Interrupted => "INTERRUPTED",
            ErrorClass::Dependency => "DEPENDENCY",
            ErrorClass::Blocked => "BLOCKED",
            ErrorClass::Gone => "GONE",
            ErrorClass::Fatal => "FATAL",
        }
    }
}
