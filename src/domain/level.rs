//! The levels of a status: one table of their words.

use serde::{Deserialize, Serialize};

/// The level of a status, in Juju's words. The order here is the wire order, not severity.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum Level {
    /// Unknown.
    #[default]
    Unknown,
    /// Ended on purpose.
    Terminated,
    /// Works.
    Active,
    /// Waits for something else.
    Waiting,
    /// Busy with work on itself.
    Maintenance,
    /// A person must act.
    Blocked,
    /// Failed.
    Error,
}

/// Number of levels.
pub const LEVELS: usize = 7;

impl Level {
    /// Every level, in wire order.
    pub const ALL: [Level; LEVELS] = [
        Level::Unknown,
        Level::Terminated,
        Level::Active,
        Level::Waiting,
        Level::Maintenance,
        Level::Blocked,
        Level::Error,
    ];

    /// Returns the word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Level::Unknown => "unknown",
            Level::Terminated => "terminated",
            Level::Active => "active",
            Level::Waiting => "waiting",
            Level::Maintenance => "maintenance",
            Level::Blocked => "blocked",
            Level::Error => "error",
        }
    }

    /// Returns whether the level may interest a person: waiting, maintenance, blocked, error.
    pub fn is_unwell(self) -> bool {
        Level::Waiting <= self
    }
}
