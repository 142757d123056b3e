//! Faults: open errors, one record for each target of a component.
//!
//! ```text
//!            error                3 in a row or 30 s        10 in a row or 10 min
//!   (none) --------> Quiet ---------------------> Waiting ----------------------> Unreachable
//!      ^      nothing is shown            waiting is shown             error is shown
//!      '----------------------- first success, from any of them -----------------'
//! ```
//!
//! The diagram covers the classes that count as attempts. Those that a peer ends by itself
//! (`THROTTLED`, `CONFLICT`) take the same way by time alone, not before the time that the peer
//! named. Other classes give their level immediately, see [`Class::level_at_once`]; a class that
//! [`holds`](Class::holds) stops its component until an operator releases it. A fault contributes
//! beside the statuses of its component and never replaces them. A fault whose errors alternate
//! with successes shows waiting across them, see [`relapse`].

mod lifecycle;
pub mod open;
pub mod relapse;
pub(in crate::domain) mod retry;
pub(in crate::domain) mod set;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::classify::finding::{Class, ErrorOrigin, Evidence, Finding};
use crate::domain::level::Level;
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::need::Needs;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Topic;

pub use self::relapse::Intermittent;
pub use self::set::Faults;

/// Identity of a fault: at most one is open for each key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FaultKey {
    /// The unit that met the error.
    pub unit: UnitName,
    /// The component of the unit.
    pub component: PartName,
    /// The target that the component asked or acted on; without control characters.
    pub target: Arc<str>,
}

impl FaultKey {
    /// Returns the least key of a unit, or of one of its components.
    pub fn first_of(unit: &UnitName, component: Option<&PartName>) -> FaultKey {
        FaultKey {
            unit: unit.clone(),
            component: component.cloned().unwrap_or_default(),
            target: Arc::from(""),
        }
    }

    /// Returns the topic of the request to retry.
    pub(in crate::domain) fn topic(&self) -> Topic {
        Topic::retry(self.component.clone(), &self.target)
    }
}

/// An error as a unit reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewError {
    /// The facts that decide the class, and the public message.
    pub evidence: Evidence,
    /// Text for operators only.
    pub internal_detail: InternalDetail,
    /// The action that a person must take, in the worker's words; empty if not given.
    pub action: Box<str>,
    /// The operation during which the error happened; empty if there is none.
    pub operation_id: Box<str>,
    /// The worker's attempt number; 0 if the worker does not count.
    pub attempt: u32,
    /// Generation of the configuration that the work used; empty if not given.
    pub generation: Box<str>,
    /// The classification, by the rules of the replica that took the report.
    pub finding: Finding,
    /// The shortest wait that is useful to the worker. Not written if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortest_wait: Option<Duration>,
    /// What must be so before the work can succeed. Stored with the fault.
    #[serde(skip)]
    pub needs: Needs,
}

/// Text that only a specific request returns: the `Debug` form of its owner does not show it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InternalDetail(pub Box<str>);

impl std::fmt::Debug for InternalDetail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// The stage of a fault whose class counts as an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// Shows nothing.
    #[default]
    Quiet,
    /// Past the soft threshold.
    Waiting,
    /// Past the hard threshold.
    Unreachable,
}

/// How an operator releases a held component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The component retries with a fresh budget; the visible fault stays until the result is
    /// known.
    Retry,
    /// The component continues without the failed target.
    Skip,
}

/// A stored fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The last error.
    pub error: NewError,
    /// Number of errors, counted as attempts or not.
    pub count: u32,
    /// Number of errors that count as attempts.
    pub attempts: u32,
    /// Attempts left within the budget; at 0 the retries continue at the slowest pace.
    pub attempts_left: u32,
    /// Time of the first error.
    pub first: Timestamp,
    /// Time of the last error.
    pub last: Timestamp,
    /// Start of the uninterrupted series of errors that count.
    pub failing_since: Option<Timestamp>,
    /// The stage.
    pub stage: Stage,
    /// When the fault moves to the next stage unless the unit reports.
    pub stage_ends: Option<Timestamp>,
    /// When the visible level began.
    pub since: Timestamp,
    /// The visible text; a text that differs only in numbers and ids does not replace it.
    pub shown: Box<str>,
    /// When to retry, as of the last error.
    pub retry_time: Option<Timestamp>,
    /// When the worker is asked to retry unless it reports before.
    pub ask_time: Option<Timestamp>,
    /// Incarnation of the unit at the last error; 0 if not given.
    pub incarnation: u64,
    /// Since when the fault holds its component.
    pub held_since: Option<Timestamp>,
    /// Whether the unit had announced its stop when it met the first error: the fault then ends
    /// with the incarnation.
    #[serde(default)]
    pub while_stopping: bool,
    /// Present if the errors of the target alternate with successes.
    #[serde(default)]
    pub intermittent: Option<Intermittent>,
    /// What must be so before the work can succeed, as of the last error. Not written if nothing
    /// is.
    #[serde(default, skip_serializing_if = "Needs::is_empty")]
    pub needs: Needs,
}

impl Fault {
    /// Returns the class.
    pub fn class(&self) -> Class {
        self.error.finding.class
    }

    /// Returns the visible level; `None` if nothing is visible.
    pub fn level(&self) -> Option<Level> {
        let at_once = self.class().level_at_once();
        at_once.or(match self.stage {
            Stage::Quiet => None,
            Stage::Waiting => Some(Level::Waiting),
            Stage::Unreachable => Some(Level::Error),
        })
    }

    /// Returns the reason for programs, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match (self.class(), self.stage) {
            (Class::Interrupted, _) => "Interrupted",
            (Class::Dependency, _) => "DependencyMissing",
            (Class::Blocked, _) => "ActionRequired",
            (Class::Gone, _) => "TargetGone",
            (Class::Fatal, _) => "Fatal",
            (Class::Throttled, Stage::Unreachable) => "Throttled",
            (Class::Conflict, Stage::Unreachable) => "Conflict",
            (_, Stage::Unreachable) if self.has_no_answer() => "Unreachable",
            (_, Stage::Unreachable) => "Failing",
            _ if self.intermittent.is_some() => "Intermittent",
            _ => "Retrying",
        }
    }

    /// Returns whether a success ends the fault at once, so that another error may follow soon.
    pub(in crate::domain) fn may_relapse(&self) -> bool {
        self.class().counts_as_attempt()
    }

    /// Returns whether the last result of the target was a success, and the fault stays only
    /// because its errors alternate with successes.
    pub fn has_recovered(&self) -> bool {
        self.intermittent.is_some_and(|intermittent| intermittent.recovered)
    }

    /// Returns whether nothing answered the last call.
    fn has_no_answer(&self) -> bool {
        self.error.evidence.origin == ErrorOrigin::Transport
    }

    /// Returns the action that a person must take, if known.
    pub fn action(&self) -> &str {
        match self.class() {
            Class::Blocked if self.error.action.is_empty() => &self.error.finding.remedy,
            _ => &self.error.action,
        }
    }

    /// Returns the wait before the next retry, from the last error.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_time.map(|at| at.since(self.last))
    }

    /// Returns the planned time of the next retry. Once the retry time has passed, that is when the
    /// worker is asked again.
    pub fn next_try(&self) -> Option<Timestamp> {
        self.ask_time.or(self.retry_time)
    }

    /// Returns the bytes of the texts.
    pub(in crate::domain) fn size(&self) -> u64 {
        self.error.size() + (self.shown.len() + self.needs.size()) as u64
    }
}

impl NewError {
    /// Returns the bytes of the texts.
    pub(in crate::domain) fn size(&self) -> u64 {
        let evidence = &self.evidence;
        let found = &self.finding;
        let texts = [
            &evidence.system,
            &evidence.code,
            &evidence.domain,
            &evidence.reason,
            &evidence.message,
            &self.internal_detail.0,
            &self.action,
            &self.operation_id,
            &self.generation,
            &found.rule,
            &found.explanation,
            &found.remedy,
        ];
        texts.into_iter().map(|text| text.len()).sum::<usize>() as u64
    }
}
