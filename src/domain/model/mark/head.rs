//! What the head of an application says of its marks, so that lists and watchers need no record.

use serde::{Deserialize, Serialize};

use crate::domain::level::Level;
use crate::domain::model::mark::MarkKind;

/// The marks of an application in short. An application without marks has none of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkSummary {
    /// Number of marks, in force or not.
    pub count: u32,
    /// Number of marks of kind acknowledged that are in force.
    pub acknowledged_count: u32,
    /// Number of marks of kind planned that are in force.
    pub planned_count: u32,
    /// Whether the winner is worse than active and acknowledged.
    pub acknowledged: bool,
    /// Whether planned work covers the winner.
    pub planned: bool,
    /// The level that the application would have without marks, if it is another one.
    pub level_without: Option<Level>,
}

impl MarkSummary {
    /// Returns whether a mark of this kind is in force.
    pub fn has(&self, kind: MarkKind) -> bool {
        0 < match kind {
            MarkKind::Acknowledged => self.acknowledged_count,
            MarkKind::Planned => self.planned_count,
        }
    }
}
