//! What is said of one thing: level, words, and how long to believe them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::flapping::Swings;
use super::held::Held;
use super::name::{PartName, UnitName};
use super::time::Timestamp;

/// How well something is, in Juju's words. The order here is that of the wire, not of severity.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum Level {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Ended on purpose.
    Terminated,
    /// Works.
    Active,
    /// Waits for somebody else.
    Waiting,
    /// Is busy with itself.
    Maintenance,
    /// A person must act.
    Blocked,
    /// Failed.
    Error,
}

/// How many levels there are.
pub const LEVELS: usize = 7;

impl Level {
    /// Every level, in the order of the wire.
    pub const ALL: [Level; LEVELS] = [
        Level::Unknown,
        Level::Terminated,
        Level::Active,
        Level::Waiting,
        Level::Maintenance,
        Level::Blocked,
        Level::Error,
    ];

    /// The word for it.
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

    /// Whether somebody may want to look: waiting, maintenance, blocked, error.
    pub fn is_unwell(self) -> bool {
        Level::Waiting <= self
    }
}

/// How a status is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Recomputed at each look; a new set replaces the last one.
    Pull,
    /// Kept until cleared, replaced or expired.
    Push,
}

/// How much can still be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Freshness {
    /// Within its ttl, or it has none.
    Fresh,
    /// Past its ttl: the last known.
    Stale,
    /// Its unit is lost.
    Lost,
    /// The store may have lost what its unit said last.
    Uncertain,
}

/// Identity of a status: at most one is kept for each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StatusKey {
    /// Who it is about.
    pub unit: UnitName,
    /// Which part of the unit.
    pub component: PartName,
    /// Which of several of the component.
    pub key: PartName,
    /// How it is kept.
    pub kind: Kind,
}

impl StatusKey {
    /// The least key of a unit: where its statuses start.
    pub fn first_of(unit: &UnitName) -> StatusKey {
        StatusKey {
            unit: unit.clone(),
            component: PartName::default(),
            key: PartName::default(),
            kind: Kind::Pull,
        }
    }
}

/// What was said. Two are equal if every field that is shown is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// How well it is.
    pub level: Level,
    /// One line for a person.
    pub message: Box<str>,
    /// The same for narrow places.
    pub short_message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// What was looked at.
    pub check: Box<str>,
    /// What a person must do.
    pub action: Box<str>,
    /// Higher wins among equal levels.
    pub priority: i32,
    /// Higher wins over any level.
    pub precedence: i32,
    /// Words of the reporter's own.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// How long to believe it without a repeat.
    pub ttl: Option<Duration>,
}

/// A status as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// What was said. Shared, so that a status costs little to copy and change.
    pub report: Arc<Report>,
    /// When the reporter saw it, by its own clock: of the report that began this level.
    pub observe_time: Option<Timestamp>,
    /// When the level began.
    pub since: Timestamp,
    /// When the record last changed.
    pub update_time: Timestamp,
    /// When it goes stale without a repeat.
    pub expire_time: Option<Timestamp>,
    /// Incarnation of the unit that said it; 0 if it gave none.
    pub incarnation: u64,
    /// Past its ttl.
    pub stale: bool,
    /// `expire_time` as the store has it: repeats move the one in memory, and are written at most
    /// every third of the ttl.
    #[serde(skip)]
    pub expire_time_written: Option<Timestamp>,
    /// Which of the last results had another level, if the component is damped. Those that had not
    /// are written only beside something else, so a restart may forget some.
    #[serde(default)]
    pub swings: Swings,
    /// Present while `report` is not what was said last, or may not be.
    #[serde(default)]
    pub held: Option<Box<Held>>,
}

impl Status {
    /// How long what was said last is to be believed without a repeat.
    pub fn ttl(&self) -> Option<Duration> {
        let latest = self.held.as_ref().and_then(|held| held.latest.as_ref());
        latest.map_or(self.report.ttl, |latest| latest.report.ttl)
    }

    /// By how much a deadline may be later than the one written: a repeat is written only once it
    /// moves the deadline by this much.
    pub fn unwritten_max(&self) -> Duration {
        self.ttl().unwrap_or_default() / 3
    }
}

/// What could be said better, for the author of the worker.
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
            "a status of level {} without a message tells nobody what is wrong: set `message`",
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
