//! The ranking rule: the only place where two contributions are compared.
//!
//! The first criterion that differs decides: precedence (higher), severity of the level under the
//! policy, priority (higher), the application itself, the leader's unit, unit in natural order,
//! place in the unit's set, component, place in the component's set, key, older since, origin. The
//! order of separate reports does not matter.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::level::Level;
use crate::domain::model::fault::FaultKey;
use crate::domain::model::status::place::PlaceInSet;
use crate::domain::model::status::{Kind, Status, StatusKey};
use crate::domain::model::time::Timestamp;

/// The origin of a contribution. The order decides between two that are equal otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Origin {
    /// The leader's status of the whole application.
    Leader,
    /// The unit is lost.
    Lost,
    /// The unit is uncertain: the store may have lost its last reports.
    Uncertain,
    /// An open fault.
    Fault,
    /// A status that the unit reported.
    Reported(Kind),
    /// The operation of the application, or of the unit.
    Operation,
    /// The quorum that the application lacks. No unit contributes it.
    Quorum,
}

/// The criterion that decided.
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
    /// Origin: pull before push; faults in the order of their targets.
    Kind,
    /// The application itself before its units.
    Application,
    /// The order in the pull set.
    Place,
}

/// The values that rank one contribution. Less is stronger.
#[derive(Debug, Clone)]
pub struct Rank {
    /// Decides before the level.
    pub precedence: i32,
    /// Position of the level under the policy; 0 is the worst. What planned work covers has that of
    /// maintenance at least.
    pub severity: u8,
    /// Position of its own level, whatever covers it; not compared.
    pub own_severity: u8,
    /// Decides within one level.
    pub priority: i32,
    /// Whether the unit leads.
    pub leads: bool,
    /// Unit, component and key.
    pub key: Arc<StatusKey>,
    /// The place in the pull set.
    pub place: PlaceInSet,
    /// When the level began.
    pub since: Timestamp,
    /// The origin.
    pub origin: Origin,
    /// Its own level, which `own_severity` determines; not compared.
    pub level: Level,
    /// Whether the contribution asks a person to act; not compared.
    pub asks: bool,
    /// Whether the status flaps and this is its worst report; not compared.
    pub flaps: bool,
    /// The fault, if the contribution comes from one.
    pub fault: Option<Arc<FaultKey>>,
}

/// Returns the first ordering that is not equal, with its criterion.
macro_rules! decide {
    ($($criterion:ident: $ordering:expr;)*) => {
        $(
            let ordering = $ordering;
            if ordering.is_ne() {
                return (ordering, Some(Criterion::$criterion));
            }
        )*
    };
}

/// Compares two contributions; less is stronger. Returns the deciding criterion, or `None` if they
/// are equal.
pub fn compare(a: &Rank, b: &Rank) -> (Ordering, Option<Criterion>) {
    decide! {
        Precedence: b.precedence.cmp(&a.precedence);
        Level: a.severity.cmp(&b.severity);
        Priority: b.priority.cmp(&a.priority);
        Application: b.is_own().cmp(&a.is_own());
        Leader: b.leads.cmp(&a.leads);
        Unit: a.key.unit.cmp(&b.key.unit);
        Place: a.place.in_unit().cmp(&b.place.in_unit());
        Component: a.key.component.cmp(&b.key.component);
        Place: a.place.in_component().cmp(&b.place.in_component());
        Key: a.key.key.cmp(&b.key.key);
        Since: a.since.cmp(&b.since);
        // Two faults of a component that began together differ in their targets.
        Kind: (a.origin, &a.fault).cmp(&(b.origin, &b.fault));
    }
    (Ordering::Equal, None)
}

impl Rank {
    /// Returns the level as which it counts: maintenance, if planned work covers something worse.
    pub fn counts_as(&self) -> Level {
        match self.severity == self.own_severity {
            true => self.level,
            false => Level::Maintenance,
        }
    }

    /// Returns whether the contribution is of the application itself, not of a unit.
    fn is_own(&self) -> bool {
        self.key.unit.is_application()
    }
}

impl Status {
    /// Returns whether another status of the same key has the same values for its rank: with the
    /// same policy, leader and freshness of the unit, its rank is unchanged.
    pub(in crate::domain) fn ranks_as(&self, other: &Status) -> bool {
        let ranked = |status: &Status| {
            let (level, details) = (status.report.level, status.report.details());
            (details.precedence, level, details.priority, details.action.is_empty())
        };
        ranked(self) == ranked(other)
            && self.place == other.place
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
