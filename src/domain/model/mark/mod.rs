//! Marks: statements of operators about an application, or a part of it. A problem that is
//! acknowledged stays as bad as it is, and is known. What planned work covers
//! counts as maintenance at worst.

pub mod head;
pub mod refused;
pub mod set;
pub mod tally;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::level::Level;
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::status::StatusKey;
use crate::domain::model::time::Timestamp;
use crate::domain::word::worded;

/// The id of a mark, within its application.
pub type MarkId = Arc<str>;

/// How long everything that a mark covers must be well before the mark ends for it: a problem that
/// returns within this time is still the same problem.
pub const WELL_FOR: Duration = Duration::from_secs(600);

worded! {
    /// The kind of a mark.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    pub enum MarkKind {
        /// The problem is known. No level changes.
        Acknowledged = "acknowledged",
        /// The problem is on purpose: it counts as maintenance at worst.
        Planned = "planned",
    }
}

worded! {
    /// The reason for the end of a mark, in the words of the history.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum MarkEnd {
        /// Its end time has come.
        Expired = "expired",
        /// Something that it covers is worse than the level that was acknowledged.
        Worse = "worse",
        /// Everything that it covers has been well for [`WELL_FOR`].
        Well = "well",
        /// An operator removed it, or it ended with its unit.
        Removed = "removed",
    }
}

impl MarkKind {
    /// Returns the kind in the words of the history.
    pub fn reason(self) -> &'static str {
        match self {
            MarkKind::Acknowledged => "Acknowledged",
            MarkKind::Planned => "Planned",
        }
    }
}

/// The contributions that a mark covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cover {
    /// The unit; `""` for the application with all its units.
    pub unit: UnitName,
    /// The component; `None` for the unit as a whole.
    pub component: Option<PartName>,
    /// The key; `None` for the component as a whole.
    pub key: Option<PartName>,
}

impl Cover {
    /// Returns whether the mark covers the application with all its units.
    pub fn is_all(&self) -> bool {
        self.unit.is_application()
    }

    /// Returns whether a contribution is covered.
    pub fn has(&self, place: &StatusKey) -> bool {
        self.is_all()
            || self.unit == place.unit
                && self.component.as_ref().is_none_or(|component| *component == place.component)
                && self.key.as_ref().is_none_or(|key| *key == place.key)
    }
}

/// A mark. Its start, and its end as it was set, are times that an operator named: no outage of the
/// server moves them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Its kind.
    pub kind: MarkKind,
    /// What it covers.
    pub cover: Cover,
    /// From when it is in force.
    pub start: Timestamp,
    /// Until when it is in force, unless it ends before.
    pub end: Timestamp,
    /// Why it was set; at most 4,096 bytes.
    pub reason: Box<str>,
    /// Who set it; at most 253 bytes.
    pub author: Box<str>,
    /// For an acknowledged problem: the worst level that was covered when the mark was set, at
    /// least active.
    pub acknowledged_level: Level,
    /// Whether it also ends once everything that it covers has been well for [`WELL_FOR`].
    pub ends_when_well: bool,
    /// When it was set.
    pub create_time: Timestamp,
    /// Whether it is in force. A planned mark may begin later than it is set.
    pub begun: bool,
    /// Since when everything that it covers has been well, if the mark ends for that.
    pub well_since: Option<Timestamp>,
}

impl Mark {
    /// The state of a mark in force, in the words of the history.
    pub const IN_FORCE: &'static str = "in force";

    /// Returns whether planned work is under way.
    pub fn is_planned(&self) -> bool {
        self.begun && self.kind == MarkKind::Planned
    }

    /// Returns whether the mark acknowledges problems now.
    pub fn is_acknowledged(&self) -> bool {
        self.begun && self.kind == MarkKind::Acknowledged
    }

    /// Returns its state, in the words of the history.
    pub fn state(&self) -> &'static str {
        if self.begun { Mark::IN_FORCE } else { "waits" }
    }

    /// Returns the size of its texts in bytes.
    pub fn size(&self) -> u64 {
        (self.reason.len() + self.author.len()) as u64
    }
}

/// A mark as an operator sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMark {
    /// The id. A known one changes the reason and the end of its mark.
    pub id: MarkId,
    /// The kind.
    pub kind: MarkKind,
    /// What it covers.
    pub cover: Cover,
    /// From when; `None` and times in the past: from now on.
    pub start: Option<Timestamp>,
    /// Until when.
    pub until: Until,
    /// Why.
    pub reason: Box<str>,
    /// Who.
    pub author: Box<str>,
    /// Whether a planned mark ends once everything that it covers is well. An acknowledged one
    /// always does.
    pub ends_when_well: bool,
}

/// The end of a new mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At this time of the store's clock.
    Time(Timestamp),
    /// So long after its start.
    After(Duration),
}
