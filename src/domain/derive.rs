//! Derivation of the status of an application: the winning contribution, the deciding rule, and the
//! beaten contributions.

use serde::{Deserialize, Serialize};

use super::app::{AppState, ApplicationStatus, Head, Mode, Unit};
use super::fault::fault_words;
use super::name::{PartName, UnitName};
use super::operation::words::SUCCESS_PRECEDENCE;
use super::policy::Policy;
use super::rank::{Criterion, Origin, Rank, compare};
use super::status::{Freshness, LEVELS, Level, Status};
use super::time::Timestamp;

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
    /// The unit; `""` for the leader's own status.
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
            level: rank.level,
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
    pub units_by_level: [u32; LEVELS],
    /// Units with a status past its ttl.
    pub stale_units: u32,
    /// Lost units.
    pub lost_units: u32,
    /// Contributions by level.
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
        let Some(other) = other else {
            return Rule::Only;
        };
        let by = compare(winner, other).1.unwrap_or(Criterion::Kind);
        Rule::Beat { by, winner: Side::of(winner), other: Side::of(other) }
    }

    /// Returns the rule as text.
    pub fn words(&self, policy: &Policy) -> String {
        match self {
            Rule::Nothing => "nothing contributes".to_string(),
            Rule::Override => "set by the leader with mode override".to_string(),
            Rule::Only => "the only contribution".to_string(),
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
        Criterion::Leader => {
            "same level and priority; the leader's unit before the others".to_string()
        }
        Criterion::Unit => format!(
            "same level and priority; first in the order of units: {} before {}",
            name(&winner.unit),
            name(&other.unit)
        ),
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
        Criterion::Kind => "same in all else; pull before push".to_string(),
    }
}

/// Returns the reason why `other` lost against `winner`, as text.
pub fn beaten_by(winner: &Rank, other: &Rank) -> String {
    match compare(winner, other).1 {
        Some(Criterion::Precedence) if other.precedence == SUCCESS_PRECEDENCE => "done",
        Some(Criterion::Precedence) => "lower precedence",
        Some(Criterion::Level) => "lower level",
        Some(Criterion::Priority) => "lower priority",
        Some(Criterion::Leader) => "not the leader's unit",
        Some(Criterion::Unit) => "later unit",
        Some(Criterion::Component) => "later component",
        Some(Criterion::Key) => "later key",
        Some(Criterion::Since) => "newer",
        Some(Criterion::Kind) | None => "push after pull",
    }
    .to_string()
}

/// The texts of a contribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// One line for a person.
    pub message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// The action that a person must take.
    pub action: Box<str>,
    /// The message for narrow places; empty if none was given.
    pub short_message: Box<str>,
}

impl Words {
    /// Returns the texts of a contribution that no unit reported.
    fn derived(message: &str, reason: &str, action: &str) -> Words {
        Words {
            message: message.into(),
            reason: reason.into(),
            action: action.into(),
            short_message: Box::default(),
        }
    }
}

/// Returns the texts of a contribution of any origin. `status` is the reported status, if there is
/// one.
pub(super) fn words(
    head: &Head,
    rank: &Rank,
    unit: Option<&Unit>,
    status: Option<&Status>,
) -> Words {
    let nothing = || Words::derived("", "", "");
    match rank.origin {
        Origin::Lost => {
            let why = unit.map_or("", Unit::why_lost);
            let message = format!("unit {} lost: {why}", rank.key.unit);
            Words::derived(&message, "UnitLost", "")
        }
        Origin::Uncertain => {
            let unit = &rank.key.unit;
            let what = "the store may have lost its last reports";
            let message = format!("unit {unit} uncertain: {what}");
            Words::derived(&message, "Uncertain", "")
        }
        Origin::Leader => head
            .application_status
            .as_ref()
            .map_or_else(nothing, |s| Words::derived(&s.message, &s.reason, &s.action)),
        Origin::Operation => head
            .operation
            .as_ref()
            .map_or_else(nothing, |s| Words::derived(&s.message, &s.reason, &s.action)),
        // The texts of a fault come from the fault itself: see `fault_words`.
        Origin::Fault => nothing(),
        Origin::Reported(_) => status.map_or_else(nothing, |s| Words {
            message: s.report.message.clone(),
            reason: s.report.reason.clone(),
            action: s.report.action.clone(),
            short_message: s.report.short_message.clone(),
        }),
    }
}

/// Returns the leader's status, if its mode is override.
pub fn override_status(head: &Head) -> Option<&ApplicationStatus> {
    let status = head.application_status.as_ref()?;
    (status.mode == Mode::Override).then_some(status)
}

/// One contribution with its explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contribution {
    /// The values that rank it.
    pub rank: Rank,
    /// Its texts.
    pub words: Words,
    /// The check that the reporter named.
    pub check: Box<str>,
    /// Its freshness.
    pub freshness: Freshness,
    /// The reason why it lost against the winner; empty for the winner.
    pub beaten_by: String,
    /// The reason why it shows a worse level than the last report; empty if it does not.
    pub held: String,
}

/// The explanation of an application's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// The winner; `None` if nothing contributes, or if the leader's status overrides.
    pub winner: Option<Contribution>,
    /// The beaten contributions, the strongest first, up to the requested number.
    pub others: Vec<Contribution>,
    /// The number of beaten contributions, listed or not.
    pub others_count: usize,
    /// The number of stored statuses that do not contribute.
    pub silent_count: usize,
}

/// Returns the winner and the first `others_max` beaten contributions, in order. The cost grows
/// with the size of the result.
pub fn derive(state: &AppState, others_max: usize) -> Derived {
    let overrides = override_status(&state.head).is_some();
    let mut ranked = state.ranked();
    let winner = if overrides { None } else { ranked.next() };
    let others = ranked.take(others_max).map(|rank| {
        let why =
            winner.map_or_else(|| "overridden by the leader".to_string(), |w| beaten_by(w, rank));
        contribution(state, rank, why)
    });
    let count: u32 = state.head.summary.totals.contributions.iter().sum();
    let reported = state.ranked_reported_count(count);
    Derived {
        winner: winner.map(|rank| contribution(state, rank, String::new())),
        others: others.collect(),
        others_count: count as usize - usize::from(winner.is_some()),
        silent_count: state.status_count().saturating_sub(reported),
    }
}

/// Returns the strongest contribution of one unit, which gives the unit's own level.
pub fn strongest_of(state: &AppState, unit: &UnitName) -> Option<Contribution> {
    let rank = state.strongest_of(unit)?;
    Some(contribution(state, rank, String::new()))
}

fn contribution(state: &AppState, rank: &Rank, beaten_by: String) -> Contribution {
    let status = match rank.origin {
        Origin::Reported(_) => state.status(&rank.key).map(|s| &**s),
        Origin::Leader | Origin::Lost | Origin::Uncertain | Origin::Fault | Origin::Operation => {
            None
        }
    };
    let fault = rank.fault.as_ref().and_then(|key| state.faults().get(key));
    let has_outlived = |status: &Status| {
        let unit = state.unit(&rank.key.unit);
        unit.is_some_and(|unit| unit.has_outlived(&rank.key, status))
    };
    Contribution {
        words: match fault {
            Some(fault) => fault_words(fault),
            None => words(&state.head, rank, state.unit(&rank.key.unit), status),
        },
        check: status.map_or_else(|| "".into(), |s| s.report.check.clone()),
        freshness: match (rank.origin, status) {
            (Origin::Lost, _) => Freshness::Lost,
            (Origin::Uncertain, _) => Freshness::Uncertain,
            (_, Some(status)) if status.stale || has_outlived(status) => Freshness::Stale,
            _ => Freshness::Fresh,
        },
        held: status.map_or_else(String::new, |s| s.held_words(&state.head.config, &rank.key)),
        rank: rank.clone(),
        beaten_by,
    }
}

impl AppState {
    /// Returns how many of `count` contributions are reported statuses, not derived ones.
    fn ranked_reported_count(&self, count: u32) -> usize {
        let totals = &self.head.summary.totals;
        let lost = match self.head.config.lost_units.level() {
            Some(_) => totals.lost_units,
            None => 0,
        };
        let silent = lost + totals.uncertain_units;
        let contributes = |s: &ApplicationStatus| s.mode == Mode::Contribute;
        let leader = self.head.application_status.as_ref().is_some_and(contributes);
        let own = u32::from(leader) + u32::from(self.head.operation.is_some());
        (count - silent - totals.faults - own) as usize
    }
}
