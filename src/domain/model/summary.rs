//! The derived status of an application, as its head stores it: the winner, the rule that decided,
//! and the counts.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::domain::level::{LEVELS, Level};
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::operation::winning::WinningOperation;
use crate::domain::model::operation::words::SUCCESS_PRECEDENCE;
use crate::domain::model::policy::Policy;
use crate::domain::model::quorum::Turnout;
use crate::domain::model::rank::{Criterion, Origin, Rank, compare};
use crate::domain::model::status::Freshness;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;

/// The derived status of an application, stored with its head so that lists and watchers need no
/// other record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Level of the winner; unknown if nothing contributes.
    pub level: Level,
    /// Its message.
    pub message: Box<str>,
    /// Its reason.
    pub reason: Box<str>,
    /// The action that a person must take.
    pub action: Box<str>,
    /// Since when the application has this level.
    pub since: Timestamp,
    /// The winning contribution; `None` if nothing contributes.
    pub winner: Option<Winner>,
    /// The rule that decided.
    pub rule: Rule,
    /// Counts over units and contributions.
    pub totals: Totals,
    /// Its message for narrow places. Not written if empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub short_message: Box<str>,
}

/// The winning contribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Winner {
    /// The unit; `""` for the application itself.
    pub unit: UnitName,
    /// The component.
    pub component: PartName,
    /// The key.
    pub key: PartName,
    /// Its origin.
    pub origin: Origin,
    /// Whether the status flaps and this is the worst report of that time.
    #[serde(default)]
    pub flaps: bool,
    /// For a fault: the target that the component asked or acted on.
    #[serde(default)]
    pub target: Box<str>,
    /// For an operation: what it does, and how far it is. Not written for anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Box<WinningOperation>>,
}

/// The rule that decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// Nothing contributes.
    #[default]
    Nothing,
    /// The leader's status overrides.
    Override,
    /// There is only one contribution.
    Only,
    /// The winner beat the next strongest contribution by this criterion.
    Beat {
        /// The deciding criterion.
        by: Criterion,
        /// The winner's values.
        winner: Side,
        /// The values of the beaten contribution.
        other: Side,
    },
    /// The quorum: stronger contributions are not within it, or it is not met.
    Quorum(Turnout),
}

/// The values of one contribution that the text of a rule needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    level: Level,
    priority: i32,
    precedence: i32,
    unit: UnitName,
    component: PartName,
    key: PartName,
}

impl Side {
    fn of(rank: &Rank) -> Side {
        Side {
            level: rank.counts_as(),
            priority: rank.priority,
            precedence: rank.precedence,
            unit: rank.key.unit.clone(),
            component: rank.key.component.clone(),
            key: rank.key.key.clone(),
        }
    }
}

/// Counts over the units and contributions of an application. Counts by level are in wire order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Units.
    pub units: u32,
    /// Units by their own level.
    #[serde(deserialize_with = "by_level")]
    pub units_by_level: [u32; LEVELS],
    /// Stale units: with a status that is past its ttl or of an earlier incarnation, or with a
    /// missed contact. Lost and uncertain ones do not count.
    pub stale_units: u32,
    /// Lost units.
    pub lost_units: u32,
    /// Contributions by level.
    #[serde(deserialize_with = "by_level")]
    pub contributions: [u32; LEVELS],
    /// Contributions that ask a person to act.
    pub asking: u32,
    /// Uncertain units: the store may have lost their last reports.
    #[serde(default)]
    pub uncertain_units: u32,
    /// Contributions of statuses that flap.
    #[serde(default)]
    pub flapping: u32,
    /// Contributions of open faults.
    #[serde(default)]
    pub faults: u32,
    /// Contributions of operations of units.
    #[serde(default)]
    pub operations: u32,
    /// With a quorum: units that are fresh and active. Not written if 0, as without a quorum.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub active_units: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Reads counts in wire order. A record from before a level has no count for it.
fn by_level<'de, D: Deserializer<'de>>(record: D) -> Result<[u32; LEVELS], D::Error> {
    let known = Vec::<u32>::deserialize(record)?;
    let mut counts = [0; LEVELS];
    let places = counts.get_mut(..known.len());
    let places = places.ok_or_else(|| D::Error::custom("a level of a later version"))?;
    places.copy_from_slice(&known);
    Ok(counts)
}

impl Totals {
    /// Returns the number of contributions that are waiting, maintenance, blocked or error.
    pub fn unwell(&self) -> u32 {
        let levels = Level::ALL.iter().filter(|l| l.is_unwell());
        levels.map(|l| self.contributions[*l as usize]).sum()
    }
}

impl Rule {
    /// Returns the rule that put `winner` before `other`, the strongest that it beat.
    pub fn between(winner: &Rank, other: Option<&Rank>) -> Rule {
        let Some(other) = other else { return Rule::Only };
        let by = compare(winner, other).1.unwrap_or(Criterion::Kind);
        Rule::Beat { by, winner: Side::of(winner), other: Side::of(other) }
    }

    /// Returns the rule as text.
    pub fn words(&self, policy: &Policy) -> String {
        match self {
            Rule::Nothing => "nothing contributes".to_string(),
            Rule::Override => "set by the leader with mode override".to_string(),
            Rule::Only => "the only contribution".to_string(),
            Rule::Quorum(turnout) => format!("quorum: {}", turnout.words()),
            Rule::Beat { by, winner, other } => decided(*by, winner, other, policy),
        }
    }
}

fn decided(by: Criterion, winner: &Side, other: &Side, policy: &Policy) -> String {
    let name = |unit: &UnitName| match unit.as_str() {
        "" => "the application itself".to_string(),
        unit => unit.to_string(),
    };
    let part = |text: &PartName| match text.as_str() {
        "" => "none".to_string(),
        text => text.to_string(),
    };
    match by {
        Criterion::Precedence if other.precedence == SUCCESS_PRECEDENCE => {
            "the success of an operation counts only where nothing else does".to_string()
        }
        Criterion::Precedence => format!(
            "highest precedence: {} over {}, whatever the level",
            winner.precedence, other.precedence
        ),
        Criterion::Level => format!(
            "highest level under policy {}: {} over {}",
            policy.name(),
            winner.level.word(),
            other.level.word()
        ),
        Criterion::Priority => {
            format!("same level; higher priority: {} over {}", winner.priority, other.priority)
        }
        Criterion::Application => {
            "same level and priority; the application itself before its units".to_string()
        }
        Criterion::Leader => {
            "same level and priority; the leader's unit before the others".to_string()
        }
        Criterion::Unit => format!(
            "same level and priority; first in the order of units: {} before {}",
            name(&winner.unit),
            name(&other.unit)
        ),
        Criterion::Place if winner.unit.is_application() => {
            "same level and priority; the order of the set that the leader set".to_string()
        }
        Criterion::Place => {
            "same level, priority and unit; the order of the set that the unit reported".to_string()
        }
        Criterion::Component => format!(
            "same level, priority and unit; first component by name: {} before {}",
            part(&winner.component),
            part(&other.component)
        ),
        Criterion::Key => format!(
            "same level, priority, unit and component; first key by name: {} before {}",
            part(&winner.key),
            part(&other.key)
        ),
        Criterion::Since => "same in all else; the older level first".to_string(),
        Criterion::Kind => "same in all else; pull before push, errors by target".to_string(),
    }
}

impl Winner {
    /// Returns the leader's status as the winner.
    pub fn application() -> Winner {
        Winner {
            unit: UnitName::application(),
            component: PartName::default(),
            key: PartName::default(),
            origin: Origin::Leader,
            flaps: false,
            target: "".into(),
            operation: None,
        }
    }

    /// Returns the lack of a quorum as the winner.
    pub(in crate::domain) fn quorum() -> Winner {
        Winner { origin: Origin::Quorum, ..Winner::application() }
    }

    pub(in crate::domain) fn of(rank: &Rank) -> Winner {
        Winner {
            unit: rank.key.unit.clone(),
            component: rank.key.component.clone(),
            key: rank.key.key.clone(),
            origin: rank.origin,
            flaps: rank.flaps,
            target: rank.fault.as_ref().map_or("", |fault| &fault.target).into(),
            operation: None,
        }
    }
}

impl Totals {
    /// Counts a contribution with `step`, which adds one or subtracts one.
    pub(in crate::domain) fn count(&mut self, rank: &Rank, step: fn(&mut u32)) {
        step(&mut self.contributions[rank.level as usize]);
        let is_work_of_unit = rank.origin == Origin::Operation && !rank.key.unit.is_application();
        let counts = [
            (rank.asks, &mut self.asking),
            (rank.flaps, &mut self.flapping),
            (rank.fault.is_some(), &mut self.faults),
            (is_work_of_unit, &mut self.operations),
        ];
        counts.into_iter().filter(|(counts, _)| *counts).for_each(|(_, count)| step(count));
    }

    pub(in crate::domain) fn count_unit(
        &mut self,
        unit: &Unit,
        strongest: Option<&Rank>,
        step: fn(&mut u32),
    ) {
        step(&mut self.units);
        step(&mut self.units_by_level[strongest.map_or(Level::Unknown, |r| r.level) as usize]);
        match unit.freshness() {
            Freshness::Fresh => {}
            Freshness::Stale => step(&mut self.stale_units),
            Freshness::Lost => step(&mut self.lost_units),
            Freshness::Uncertain => step(&mut self.uncertain_units),
        }
    }
}
