//! Who wins: the one place where two contributions are compared.
//!
//! The first of these that differs decides: precedence (higher), severity of the level under the
//! policy, priority (higher), the leader's unit, unit in natural order, component, key, older
//! since. The order in which statuses were reported never does.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fault::FaultKey;
use super::status::{Kind, Level, Status, StatusKey};
use super::time::Timestamp;

/// Where a contribution comes from. The order decides between two that are equal in all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Origin {
    /// Set by the leader for the whole application.
    Leader,
    /// The unit is lost.
    Lost,
    /// The store may have lost what the unit said last.
    Uncertain,
    /// An error that is open.
    Fault,
    /// Reported by the unit.
    Reported(Kind),
    /// Work in flight on the whole application.
    Operation,
}

/// Which comparison decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Criterion {
    /// Higher precedence.
    Precedence,
    /// Worse level under the policy.
    Level,
    /// Higher priority.
    Priority,
    /// The leader's unit first.
    Leader,
    /// Natural order of units.
    Unit,
    /// Order of components.
    Component,
    /// Order of keys.
    Key,
    /// Older since.
    Since,
    /// Pull before push.
    Kind,
}

/// What decides about one contribution. Less is stronger.
#[derive(Debug, Clone)]
pub struct Rank {
    /// Beats the level.
    pub precedence: i32,
    /// Place of the level under the policy, 0 the worst.
    pub severity: u8,
    /// Within one level.
    pub priority: i32,
    /// Whether its unit leads.
    pub leads: bool,
    /// Unit, component and key.
    pub key: Arc<StatusKey>,
    /// When the level began.
    pub since: Timestamp,
    /// Where it comes from.
    pub origin: Origin,
    /// The level; follows from `severity`, so it is not compared.
    pub level: Level,
    /// Whether it asks a person to act; not compared.
    pub asks: bool,
    /// Whether it is the worst of a status that flaps; not compared.
    pub flaps: bool,
    /// Which fault it comes from, if from one.
    pub fault: Option<Arc<FaultKey>>,
}

/// How two contributions are compared by one of the criteria; less is stronger.
type Step = fn(&Rank, &Rank) -> Ordering;

/// The rule.
const STEPS: [(Criterion, Step); 9] = [
    (Criterion::Precedence, |a, b| b.precedence.cmp(&a.precedence)),
    (Criterion::Level, |a, b| a.severity.cmp(&b.severity)),
    (Criterion::Priority, |a, b| b.priority.cmp(&a.priority)),
    (Criterion::Leader, |a, b| b.leads.cmp(&a.leads)),
    (Criterion::Unit, |a, b| a.key.unit.cmp(&b.key.unit)),
    (Criterion::Component, |a, b| a.key.component.cmp(&b.key.component)),
    (Criterion::Key, |a, b| a.key.key.cmp(&b.key.key)),
    (Criterion::Since, |a, b| a.since.cmp(&b.since)),
    // Two faults of a component that began together differ in their targets.
    (Criterion::Kind, |a, b| (a.origin, &a.fault).cmp(&(b.origin, &b.fault))),
];

/// Compares two contributions; less is stronger. Says what decided, `None` if they are the same.
pub fn compare(a: &Rank, b: &Rank) -> (Ordering, Option<Criterion>) {
    for (criterion, step) in STEPS {
        let ordering = step(a, b);
        if ordering.is_ne() {
            return (ordering, Some(criterion));
        }
    }
    (Ordering::Equal, None)
}

impl Status {
    /// Whether another status of the same key says all that a rank is made of: as long as policy,
    /// leader and what is believed of the unit are the same, it stands where this one does.
    pub(super) fn ranks_as(&self, other: &Status) -> bool {
        let said = |status: &Status| {
            let report = &status.report;
            (report.precedence, report.level, report.priority, report.action.is_empty())
        };
        said(self) == said(other)
            && self.since == other.since
            && self.flapping().is_some() == other.flapping().is_some()
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> Ordering {
        compare(self, other).0
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Rank) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rank {}
