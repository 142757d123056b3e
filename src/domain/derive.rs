//! Derivation of the status of an application: the winning contribution, the deciding rule, and the
//! beaten contributions.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::domain::model::app::AppState;
use crate::domain::model::contribution::{Words, lacking_rank, override_status, words};
use crate::domain::model::leadership::status::{ApplicationStatus, Mode};
use crate::domain::model::mark::MarkId;
use crate::domain::model::name::UnitName;
use crate::domain::model::operation::words::SUCCESS_PRECEDENCE;
use crate::domain::model::rank::{Criterion, Origin, Rank, compare};
use crate::domain::model::status::place::PlaceInSet;
use crate::domain::model::status::report::Report;
use crate::domain::model::status::{Freshness, Status};
use crate::domain::model::time::Timestamp;

/// Returns the reason why `other` lost against `winner`, as text.
pub fn beaten_by(winner: &Rank, other: &Rank) -> String {
    let (ordering, criterion) = compare(winner, other);
    if winner.origin == Origin::Quorum {
        return "the quorum is not met".to_string();
    }
    if ordering.is_gt() {
        // Only a quorum puts a weaker contribution first.
        return "within the quorum".to_string();
    }
    match criterion {
        Some(Criterion::Precedence) if other.precedence == SUCCESS_PRECEDENCE => "done",
        Some(Criterion::Precedence) => "lower precedence",
        Some(Criterion::Level) => "lower level",
        Some(Criterion::Priority) => "lower priority",
        Some(Criterion::Application) => "not the application's own",
        Some(Criterion::Leader) => "not the leader's unit",
        Some(Criterion::Unit) => "later unit",
        Some(Criterion::Place) if other.place == PlaceInSet::NONE => "not in the set",
        Some(Criterion::Place) => "later in the set",
        Some(Criterion::Component) => "later component",
        Some(Criterion::Key) => "later key",
        Some(Criterion::Since) => "newer",
        Some(Criterion::Kind) | None => match (winner.origin, other.origin) {
            (Origin::Reported(_), Origin::Reported(_)) => "push after pull",
            (Origin::Fault, Origin::Fault) => "later target",
            _ => "later origin",
        },
    }
    .to_string()
}

/// One contribution with its explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contribution {
    /// The values that rank it.
    pub rank: Rank,
    /// Its texts.
    pub words: Words,
    /// The report that it shows; `None` for what is not reported as a status.
    pub report: Option<Arc<Report>>,
    /// Its freshness.
    pub freshness: Freshness,
    /// The reason why it lost against the winner; empty for the winner.
    pub beaten_by: String,
    /// The reason why it shows a worse level than the last report; empty if it does not.
    pub held: String,
    /// Whether its unit had announced its stop when it reported this.
    pub while_stopping: bool,
    /// When it ends without a repeat.
    pub end_time: Option<Timestamp>,
    /// The mark that covers it: the planned one, if there are several.
    pub mark: Option<MarkId>,
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
    let lacking = lacking(state).filter(|_| !overrides);
    let mut ranked = ordered(state);
    let first = if overrides || lacking.is_some() { None } else { ranked.next() };
    let winner = lacking.as_ref().or(first);
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
        others_count: count as usize - usize::from(first.is_some()),
        silent_count: state.status_count().saturating_sub(reported),
    }
}

/// Returns every contribution, the strongest first: by the quorum, if one is met.
fn ordered(state: &AppState) -> Box<dyn Iterator<Item = &Rank> + '_> {
    if !state.head.turnout().is_some_and(|turnout| turnout.is_met()) {
        return Box::new(state.ranked());
    }
    let mut ranked: Vec<&Rank> = state.ranked().collect();
    // Stable: the order within the two parts stays.
    ranked.sort_by_key(|rank| (Reverse(rank.precedence), !state.is_within_quorum(rank)));
    Box::new(ranked.into_iter())
}

/// Returns the lack of a quorum as the winner, if the application waits for its quorum.
fn lacking(state: &AppState) -> Option<Rank> {
    let (head, strongest) = (&state.head, state.ranked().next());
    let level = strongest.map(Rank::counts_as);
    let waits = head.turnout()?.outdoes(&head.config.policy, level);
    waits.then(|| lacking_rank(head, head.summary.since))
}

/// Returns the strongest contribution of one unit, which gives the unit's own level.
pub fn strongest_of(state: &AppState, unit: &UnitName) -> Option<Contribution> {
    let rank = state.strongest_of(unit)?;
    Some(contribution(state, rank, String::new()))
}

fn contribution(state: &AppState, rank: &Rank, beaten_by: String) -> Contribution {
    let status = match rank.origin {
        Origin::Reported(_) => state.status(&rank.key).map(|s| &**s),
        _ => None,
    };
    let fault = rank.fault.as_ref().and_then(|key| state.faults().get(key));
    let has_outlived = |status: &Status| {
        let unit = state.unit(&rank.key.unit);
        unit.is_some_and(|unit| unit.has_outlived(&rank.key, status))
    };
    Contribution {
        words: words(
            &state.head,
            rank,
            state.unit(&rank.key.unit),
            status,
            fault.map(|fault| &**fault),
        ),
        report: status.map(|status| status.report.clone()),
        freshness: match (rank.origin, status) {
            (Origin::Lost, _) => Freshness::Lost,
            (Origin::Uncertain, _) => Freshness::Uncertain,
            (_, Some(status)) if status.stale || has_outlived(status) => Freshness::Stale,
            _ => Freshness::Fresh,
        },
        held: status.map_or_else(String::new, |s| s.held_words(&state.head.config, &rank.key)),
        while_stopping: status.is_some_and(|status| status.while_stopping)
            || fault.is_some_and(|fault| fault.while_stopping),
        end_time: status.and_then(|status| state.deadlines().of_end(status)),
        mark: state.marks().covering(&rank.key).cloned(),
        rank: rank.clone(),
        beaten_by,
    }
}

impl AppState {
    /// Returns the number of reported statuses among `count` contributions.
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
        (count - silent - totals.faults - totals.operations - own) as usize
    }
}
