//! A status: level, texts, and validity.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::damping::decide::Damped;
use super::damping::flapping::Swings;
use super::name::{PartName, UnitName};
use super::time::Timestamp;

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

/// How a status is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Recomputed at each pull; a new set replaces the last one.
    Pull,
    /// Stored until cleared, replaced or expired.
    Push,
}

/// Validity of the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Freshness {
    /// Within its ttl, or without a ttl.
    Fresh,
    /// Past its ttl: only the last known state.
    Stale,
    /// Its unit is lost.
    Lost,
    /// The store may have lost the unit's last reports.
    Uncertain,
}

/// Identity of a status: at most one is stored for each key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StatusKey {
    /// The unit.
    pub unit: UnitName,
    /// The component of the unit.
    pub component: PartName,
    /// The key within the component.
    pub key: PartName,
    /// How the status is updated.
    pub kind: Kind,
}

impl StatusKey {
    /// Returns the least key of a unit: the start of its statuses.
    pub fn first_of(unit: &UnitName) -> StatusKey {
        StatusKey {
            unit: unit.clone(),
            component: PartName::default(),
            key: PartName::default(),
            kind: Kind::Pull,
        }
    }
}

/// The content of a report. Two reports are equal if every field is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The level.
    pub level: Level,
    /// One line for a person.
    pub message: Box<str>,
    /// The message for narrow places.
    pub short_message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// The check that was made.
    pub check: Box<str>,
    /// The action that a person must take.
    pub action: Box<str>,
    /// Higher wins among equal levels.
    pub priority: i32,
    /// Higher wins over any level.
    pub precedence: i32,
    /// Labels that the reporter gave.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// How long the report is valid without a repeat.
    pub ttl: Option<Duration>,
}

/// A stored status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The visible report. Shared, so that copies and changes of a status are cheap.
    pub report: Arc<Report>,
    /// Observation time of the report that began this level, by the reporter's clock.
    pub observe_time: Option<Timestamp>,
    /// When the level began.
    pub since: Timestamp,
    /// When the record last changed.
    pub update_time: Timestamp,
    /// When the status becomes stale without a repeat.
    pub expire_time: Option<Timestamp>,
    /// Incarnation of the reporting unit; 0 if not given.
    pub incarnation: u64,
    /// Whether the status is past its ttl.
    pub stale: bool,
    /// The stored value of `expire_time`: repeats move the one in memory, and are written at most
    /// every third of the ttl.
    #[serde(skip)]
    pub expire_time_written: Option<Timestamp>,
    /// The level changes among the last results, if the component is damped. Results without a
    /// change are written only together with other changes, so a restart may lose some.
    #[serde(default)]
    pub swings: Swings,
    /// Present while `report` is not the last report, or may not be.
    #[serde(default)]
    pub held: Option<Box<Damped>>,
}

impl Status {
    /// Returns how long the last report is valid without a repeat.
    pub fn ttl(&self) -> Option<Duration> {
        let latest = self.held.as_ref().and_then(|held| held.latest.as_ref());
        latest.map_or(self.report.ttl, |latest| latest.report.ttl)
    }

    /// Returns by how much the deadline may be later than the stored one: a repeat is written only
    /// if it moves the deadline by this much.
    pub fn unwritten_max(&self) -> Duration {
        self.ttl().unwrap_or_default() / 3
    }
}

/// Returns possible improvements of a report, for the author of the worker.
pub fn advice(report: &Report) -> Vec<String> {
    let mut advice = Vec::new();
    let blocked = report.level == Level::Blocked;
    if blocked && report.action.is_empty() {
        advice.push(
            "blocked means that a person must act: say what they must do in `action`".to_string(),
        );
    }
    if matches!(report.level, Level::Blocked | Level::Error) && report.message.is_empty() {
        advice.push(format!(
            "a status of level {} without a message does not show what is wrong: set `message`",
            report.level.word()
        ));
    }
    let mut letters = report.reason.chars();
    let is_camel = letters.next().is_none_or(|c| c.is_ascii_uppercase())
        && letters.all(|c| c.is_ascii_alphanumeric());
    if !is_camel {
        advice.push(format!("`reason` is for programs: write {:?} in CamelCase", report.reason));
    }
    advice
}
