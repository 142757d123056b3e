//! The levels of a status: one table of their words, for every layer.

use serde::{Deserialize, Serialize};

/// The level of a status, in Juju's words. The order here is the wire order, not severity; a new
/// level comes last.
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

/// The levels in wire order: the word on the wire, and whether the level may interest a person.
const TABLE: [(Level, &str, bool); LEVELS] = [
    (Level::Unknown, "unknown", false),
    (Level::Terminated, "terminated", false),
    (Level::Active, "active", false),
    (Level::Waiting, "waiting", true),
    (Level::Maintenance, "maintenance", true),
    (Level::Blocked, "blocked", true),
    (Level::Error, "error", true),
];

/// Number of levels.
pub const LEVELS: usize = 7;

impl Level {
    /// Every level, in wire order.
    pub const ALL: [Level; LEVELS] = {
        let mut all = [Level::Unknown; LEVELS];
        let mut n = 0;
        while n < LEVELS {
            all[n] = TABLE[n].0;
            n += 1;
        }
        all
    };

    /// Returns the word on the wire.
    pub fn word(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Returns whether the level may interest a person: waiting, maintenance, blocked, error.
    pub fn is_unwell(self) -> bool {
        TABLE[self as usize].2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_wire_order() {
        for (n, level) in Level::ALL.into_iter().enumerate() {
            assert_eq!(level as usize, n);
        }
    }
}
