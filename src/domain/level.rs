//! The levels of a status, with their words for every layer.

use serde::{Deserialize, Serialize};

use crate::domain::word::worded;

worded! {
    /// The level of a status, in Juju's words. The order here is the wire order, not severity; a
    /// new level comes last.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
    )]
    pub enum Level {
        /// Unknown.
        #[default]
        Unknown = "unknown",
        /// Ended on purpose.
        Terminated = "terminated",
        /// Works.
        Active = "active",
        /// Waits for something else.
        Waiting = "waiting",
        /// Busy with work on itself.
        Maintenance = "maintenance",
        /// A person must act.
        Blocked = "blocked",
        /// Failed.
        Error = "error",
    }
}

/// Number of levels.
pub const LEVELS: usize = Level::ALL.len();

impl Level {
    /// Returns whether nothing is to be done: active, or terminated.
    pub fn is_well(self) -> bool {
        matches!(self, Level::Active | Level::Terminated)
    }

    /// Returns whether the level may interest a person: waiting, maintenance, blocked, error.
    pub fn is_unwell(self) -> bool {
        match self {
            Level::Unknown | Level::Terminated | Level::Active => false,
            Level::Waiting | Level::Maintenance | Level::Blocked | Level::Error => true,
        }
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
