//! Faults: errors that are open. One record for each thing that a component asks or acts on.
//!
//! ```text
//!            error                3 in a row or 30 s        10 in a row or 10 min
//!   (none) --------> Quiet ---------------------> Waiting ----------------------> Unreachable
//!      ^      nothing is shown            waiting is shown             error is shown
//!      '----------------------- first success, from any of them -----------------'
//! ```
//!
//! So go those that count as attempts. A class that says more of itself shows at once what
//! [`Class::level_at_once`] says, and what [`holds`](Class::holds) stands still until it is let go.
//! What a fault shows stands beside the statuses of its component, never in their place.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::classify::{Class, Evidence, Finding};
use super::name::{PartName, UnitName};
use super::status::Level;
use super::time::Timestamp;

mod course;
mod kept;
mod record;
mod retry;

pub use self::kept::Faults;
pub(super) use self::kept::{fault_rank, fault_words};
pub use self::retry::Settings;

/// Identity of a fault: at most one is open for each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FaultKey {
    /// Who met it.
    pub unit: UnitName,
    /// Which part of the unit.
    pub component: PartName,
    /// What was asked or acted on; without control characters.
    pub target: Arc<str>,
}

impl FaultKey {
    /// The least key of a unit, or of one of its components.
    pub fn first_of(unit: &UnitName, component: Option<&PartName>) -> FaultKey {
        FaultKey {
            unit: unit.clone(),
            component: component.cloned().unwrap_or_default(),
            target: Arc::from(""),
        }
    }
}

/// An error as it was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewError {
    /// What decides what it means, and what everybody may read.
    pub evidence: Evidence,
    /// For operators.
    pub internal_detail: InternalDetail,
    /// What a person must do, in the worker's words; empty if it does not say.
    pub action: Box<str>,
    /// The operation it happened in; empty if in none.
    pub operation_id: Box<str>,
    /// Which attempt it was, counted by the worker; 0 if it does not count.
    pub attempt: u32,
    /// Which generation of its configuration the work was about; empty if the worker does not say.
    pub generation: Box<str>,
    /// What it means, by the rules of who took it.
    pub finding: Finding,
}

/// What only who asks for it may read: not even a log that prints its owner shows it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InternalDetail(pub Box<str>);

impl std::fmt::Debug for InternalDetail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// How far a fault that counts has gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// Nobody is shown anything.
    #[default]
    Quiet,
    /// Past the soft threshold.
    Waiting,
    /// Past the hard one.
    Unreachable,
}

/// How an operator lets a component go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// It tries again, with a fresh budget; what is shown stays until it is known how that went.
    Retry,
    /// It goes on without what failed.
    Skip,
}

/// A fault as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The error as it was met last.
    pub error: NewError,
    /// How often it was met, whether or not that counts.
    pub count: u32,
    /// How often in a way that counts.
    pub attempts: u32,
    /// Attempts left within the budget; with none left it is tried at the slowest pace.
    pub attempts_left: u32,
    /// When it was met first.
    pub first: Timestamp,
    /// When last.
    pub last: Timestamp,
    /// Since when what counts has been met without anything between.
    pub failing_since: Option<Timestamp>,
    /// How far it has gone.
    pub stage: Stage,
    /// When it goes further without a word.
    pub stage_ends: Option<Timestamp>,
    /// When what is shown got its level.
    pub since: Timestamp,
    /// What is shown; a text that differs only in numbers and ids does not replace it.
    pub shown: Box<str>,
    /// When to try next, as of when it was met.
    pub retry_time: Option<Timestamp>,
    /// When the worker is asked to try, if it has said nothing until then.
    pub ask_time: Option<Timestamp>,
    /// Incarnation of the unit that met it last; 0 if it gave none.
    pub incarnation: u64,
    /// Since when it holds its component.
    pub held_since: Option<Timestamp>,
}

impl Fault {
    /// What it means.
    pub fn class(&self) -> Class {
        self.error.finding.class
    }

    /// What it shows; `None`: nothing.
    pub fn level(&self) -> Option<Level> {
        let at_once = self.class().level_at_once();
        at_once.or(match self.stage {
            Stage::Quiet => None,
            Stage::Waiting => Some(Level::Waiting),
            Stage::Unreachable => Some(Level::Error),
        })
    }

    /// Why, for programs: CamelCase.
    pub fn reason(&self) -> &'static str {
        match (self.class(), self.stage) {
            (Class::Interrupted, _) => "Interrupted",
            (Class::Dependency, _) => "DependencyMissing",
            (Class::Blocked, _) => "ActionRequired",
            (Class::Gone, _) => "TargetGone",
            (Class::Fatal, _) => "Fatal",
            (_, Stage::Unreachable) => "Unreachable",
            _ => "Retrying",
        }
    }

    /// What a person must do, if that is known.
    pub fn action(&self) -> &str {
        match self.class() {
            Class::Blocked if self.error.action.is_empty() => &self.error.finding.remedy,
            _ => &self.error.action,
        }
    }

    /// How long to wait, as of when it was met last.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_time.map(|at| at.since(self.last))
    }

    /// When it will be tried next, as far as is known: after its time has passed that is when the
    /// worker is asked again.
    pub fn next_try(&self) -> Option<Timestamp> {
        self.ask_time.or(self.retry_time)
    }

    /// When time alone changes something.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.stage_ends.into_iter().chain(self.ask_time).min()
    }
}
