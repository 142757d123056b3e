//! The derived status after a draft, from the contributions that the draft affects and the index of
//! all others. This file determines the cost of an incremental change.

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexSet;

use crate::domain::draft::Draft;
use crate::domain::draft::status::Drafted;
use crate::domain::level::Level;
use crate::domain::model::contribution::{
    fault_rank, override_status, own_ranks, status_rank, unit_ranks, words,
};
use crate::domain::model::fault::FaultKey;
use crate::domain::model::leadership::status::ApplicationStatus;
use crate::domain::model::name::UnitName;
use crate::domain::model::operation::winning::WinningOperation;
use crate::domain::model::quorum::Turnout;
use crate::domain::model::rank::{Origin, Rank};
use crate::domain::model::status::{ByKey, Status, StatusKey};
use crate::domain::model::summary::{Rule, Summary, Totals, Winner};
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;

/// The ranks of one unit before and after a draft: those of all its statuses if the unit as a whole
/// is affected, else those of the drafted statuses whose rank changed.
pub(super) struct Reranked {
    pub(super) unit: UnitName,
    keys: IndexSet<Arc<StatusKey>, ByKey>,
    faults: BTreeSet<Arc<FaultKey>>,
    /// Whether the unit as a whole is affected, including contributions without a status: of a lost
    /// unit, or of the leader.
    whole: bool,
    /// The ranks before the draft of `keys`; empty if the unit as a whole is affected.
    before: Vec<Rank>,
    after: Ranks,
}

impl Reranked {
    /// Returns whether the draft affects more of the unit than some of its statuses.
    pub(super) fn is_more_than_statuses(&self) -> bool {
        self.whole || !self.faults.is_empty()
    }

    /// Returns the drafted ranks after the draft, in no order.
    pub(super) fn after(&self) -> std::slice::Iter<'_, Rank> {
        self.after.0.iter()
    }
}

/// The ranks of one unit after a draft, in no order: only the two strongest are asked for, and a
/// batch of a whole unit would be sorted for them.
#[derive(Default)]
struct Ranks(Vec<Rank>);

impl Ranks {
    /// Returns the strongest rank and the next one.
    fn strongest_two(&self) -> [Option<&Rank>; 2] {
        self.0.iter().fold([None, None], |[first, second], rank| {
            if first.is_none_or(|first| rank < first) {
                [Some(rank), first]
            } else if second.is_none_or(|second| rank < second) {
                [first, Some(rank)]
            } else {
                [first, second]
            }
        })
    }

    fn strongest(&self) -> Option<&Rank> {
        self.0.iter().min()
    }
}

impl Draft<'_> {
    /// Returns the ranks of the units that the draft affects, by unit.
    pub(super) fn reranked(&self) -> Vec<Reranked> {
        let reranks = self.reranks();
        let touched = self.touched(reranks || self.recounts_quorum()).into_iter();
        touched.map(|unit| self.rerank(unit, reranks)).collect()
    }

    /// Returns the derived status, and the contribution that wins for what the marks say of it;
    /// boxed, because most applications have none.
    pub(super) fn summary(&self, reranked: &[Reranked]) -> (Summary, Option<Box<Rank>>) {
        let old = &self.head.base().summary;
        let mut totals = old.totals.clone();
        for unit in reranked {
            self.count(&mut totals, unit);
        }
        let (winner, second) = self.strongest_two(reranked);
        if let Some(status) = override_status(&self.head) {
            return (self.overridden(status, old, totals), None);
        }
        let turnout = self.head.config.quorum.map(|quorum| quorum.turnout(&totals));
        let level = winner.as_ref().map(Rank::counts_as);
        let lacks = |turnout: &Turnout| turnout.outdoes(&self.head.config.policy, level);
        if let Some(turnout) = turnout.filter(lacks) {
            return (self.lacking(turnout, old, totals), None);
        }
        let Some(first) = winner else {
            let since = self.level_began(old, Level::Unknown, self.now, None);
            return (Summary { since, totals, ..Summary::default() }, None);
        };
        let met = turnout.filter(Turnout::is_met);
        let within = met.and_then(|met| Some((self.within_quorum(&first, reranked)?, met)));
        let (winner, rule) = match within {
            Some((winner, turnout)) => (winner, Rule::Quorum(turnout)),
            None => {
                let rule = Rule::between(&first, second.as_ref());
                (first, rule)
            }
        };
        let (unit, status) = (self.unit(&winner.key.unit), self.status(&winner.key));
        let fault = winner.fault.as_ref().and_then(|key| self.faults.get(key));
        let status = status.map(|status| &**status);
        let says = words(&self.head, &winner, unit, status, fault.map(|fault| &**fault));
        let level = winner.counts_as();
        // The level of what planned work covers began with the work, not with the contribution.
        let before = if level == winner.level { self.level_before(&winner) } else { Some(level) };
        let summary = Summary {
            level,
            message: says.message,
            reason: says.reason,
            action: says.action,
            short_message: says.short_message,
            since: self.level_began(old, level, winner.since, before),
            rule,
            winner: Some(Winner {
                operation: self.winning_operation(&winner),
                ..Winner::of(&winner)
            }),
            totals,
        };
        (summary, (!self.marks.is_empty()).then(|| Box::new(winner)))
    }

    /// Returns what the operation that contributes `winner` does; `None` if none contributes it.
    fn winning_operation(&self, winner: &Rank) -> Option<Box<WinningOperation>> {
        if winner.origin != Origin::Operation {
            return None;
        }
        let status = match winner.key.unit.is_application() {
            true => self.head.operation.as_ref(),
            false => self.unit(&winner.key.unit)?.operation.as_ref(),
        };
        let id = &status?.id;
        Some(Box::new(WinningOperation::of(id, self.operations.get(id)?)))
    }

    /// Returns the status of an application whose leader overrides it.
    fn overridden(&self, status: &ApplicationStatus, old: &Summary, totals: Totals) -> Summary {
        let before = self.leaders_level_before();
        Summary {
            level: status.level,
            message: status.message.clone(),
            reason: status.reason.clone(),
            action: status.action.clone(),
            since: self.level_began(old, status.level, status.since, before),
            winner: Some(Winner::application()),
            rule: Rule::Override,
            totals,
            short_message: Box::default(),
        }
    }

    /// Returns when the level of the application began. If the deciding contribution had another
    /// level `before`, or is new, that is its own start; if it only decides now, that is now.
    pub(super) fn level_began(
        &self,
        old: &Summary,
        level: Level,
        since: Timestamp,
        before: Option<Level>,
    ) -> Timestamp {
        match old.level == level && !self.base.head.deleted {
            true => old.since,
            false if before == Some(level) => self.now,
            false => since,
        }
    }

    /// Returns the level of a contribution before the draft, if it existed.
    fn level_before(&self, rank: &Rank) -> Option<Level> {
        let unit = self.base.unit(&rank.key.unit);
        match rank.origin {
            Origin::Reported(_) => self.base.status(&rank.key).map(|s| s.report.level),
            // The configuration alone gives their level.
            Origin::Lost => unit?.lost_since.map(|_| rank.level),
            Origin::Uncertain => unit?.uncertain_since.map(|_| rank.level),
            Origin::Fault => self.base.faults.get(rank.fault.as_ref()?)?.level(),
            Origin::Leader => self.leaders_level_before(),
            // No contribution of a draft has it.
            Origin::Quorum => None,
            Origin::Operation => {
                let of_application = rank.key.unit.is_application();
                let status =
                    if of_application { &self.base.head.operation } else { &unit?.operation };
                status.as_ref().map(|s| s.level)
            }
        }
    }

    fn leaders_level_before(&self) -> Option<Level> {
        self.base.head.application_status.as_ref().map(|s| s.level)
    }

    fn touched(&self, all: bool) -> BTreeSet<UnitName> {
        let mut touched: BTreeSet<UnitName> = self.units.names().cloned().collect();
        touched.extend(self.statuses.units().cloned());
        touched.extend(self.faults.units().cloned());
        touched.insert(UnitName::application());
        if all {
            touched.extend(self.base.units.keys().cloned());
        }
        touched
    }

    pub(super) fn rerank(&self, unit: UnitName, reranks: bool) -> Reranked {
        let (then, now) = (self.base.unit(&unit), self.unit(&unit));
        let whole = reranks || then.is_some_and(Unit::has_rank) || now.is_some_and(Unit::has_rank);
        let rank = |key: &Arc<StatusKey>, status: &Arc<Status>| {
            status_rank(self.ranking(), now, key, status)
        };
        let (mut keys, mut before, mut after) = (IndexSet::default(), Vec::new(), Vec::new());
        for (key, Drafted { before: old, after: status }) in self.statuses.of(&unit) {
            let pair = old.as_ref().zip(status.as_ref());
            if !whole && pair.is_some_and(|(old, status)| old.ranks_as(status)) {
                // Its rank is unchanged in the index.
                continue;
            }
            keys.insert(key.clone());
            if !whole {
                before.extend(old.as_ref().and_then(|old| self.base.rank_as(key, old)));
            }
            after.extend(status.as_ref().and_then(|status| rank(key, status)));
        }
        if whole {
            let kept = self.base.statuses.of(&unit, None);
            for (key, status) in kept.filter(|(key, _)| !self.statuses.contains(key)) {
                keys.insert(key.clone());
                after.extend(rank(key, status));
            }
        }
        let faults = self.reranked_faults(&unit, whole, &mut after);
        after.extend(now.into_iter().flat_map(|u| unit_ranks(self.ranking(), &unit, u)));
        if unit.is_application() {
            after.extend(own_ranks(self.ranking()));
        }
        Reranked { unit, keys, faults, whole, before, after: Ranks(after) }
    }

    /// Returns the faults of a unit whose ranks are drafted, and adds their new ranks to `after`.
    fn reranked_faults(
        &self,
        unit: &UnitName,
        whole: bool,
        after: &mut Vec<Rank>,
    ) -> BTreeSet<Arc<FaultKey>> {
        let mut keys = BTreeSet::new();
        if self.faults.is_empty() {
            return keys;
        }
        keys.extend(self.faults.written_of(unit).map(|(key, _)| key.clone()));
        if whole {
            keys.extend(self.base.faults.of(unit, None).map(|(key, _)| key.clone()));
        }
        let now = self.unit(unit);
        let rank = |key| fault_rank(self.ranking(), now, key, self.faults.get(key)?);
        after.extend(keys.iter().filter_map(rank));
        keys
    }

    /// Returns the strongest contribution of one unit after the draft.
    pub(in crate::domain) fn strongest_of(&self, unit: &UnitName) -> Option<Rank> {
        self.strongest_in(&self.rerank(unit.clone(), self.reranks())).cloned()
    }

    /// Does the same for a unit whose drafted ranks are known.
    pub(super) fn strongest_in<'b>(&'b self, unit: &'b Reranked) -> Option<&'b Rank> {
        let drafted = unit.after.strongest();
        drafted.into_iter().chain(self.untouched(unit).next()).min()
    }

    /// Returns the ranks of a unit that the draft does not affect, the strongest first.
    pub(super) fn untouched<'b>(&'b self, unit: &'b Reranked) -> impl Iterator<Item = &'b Rank> {
        let ranks = self.base.index.of_unit(&unit.unit);
        ranks.filter(|rank| match rank.origin {
            Origin::Reported(_) => !unit.keys.contains(&rank.key),
            Origin::Fault => rank.fault.as_ref().is_none_or(|key| !unit.faults.contains(key)),
            _ => !unit.whole && !unit.unit.is_application(),
        })
    }

    /// Visits the drafted ranks of a unit before the draft.
    pub(super) fn each_before(&self, unit: &Reranked, mut visit: impl FnMut(&Rank)) {
        if unit.whole {
            self.base.index.of_unit(&unit.unit).for_each(visit);
            return;
        }
        // Only the drafted keys instead of every rank of the unit.
        unit.before.iter().for_each(&mut visit);
        let old = unit.faults.iter().filter_map(|key| self.base.rank_of_fault(key));
        old.for_each(|rank| visit(&rank));
        if unit.unit.is_application() {
            own_ranks(self.base.ranking()).for_each(|rank| visit(&rank));
        }
    }

    fn count(&self, totals: &mut Totals, unit: &Reranked) {
        let add: fn(&mut u32) = |count| *count += 1;
        let subtract: fn(&mut u32) = |count| *count -= 1;
        self.each_before(unit, |rank| totals.count(rank, subtract));
        unit.after.0.iter().for_each(|rank| totals.count(rank, add));
        if unit.unit.is_application() {
            return;
        }
        let (old, new) = (self.base.unit(&unit.unit), self.unit(&unit.unit));
        let old_strongest = old.and_then(|_| self.base.strongest_of(&unit.unit));
        let new_strongest = new.and_then(|_| self.strongest_in(unit));
        if let Some(old) = old {
            totals.count_unit(old, old_strongest, subtract);
        }
        if let Some(new) = new {
            totals.count_unit(new, new_strongest, add);
        }
        self.count_for_quorum(totals, (old, old_strongest), (new, new_strongest));
    }

    /// Returns the strongest contribution after the draft, and the next one.
    fn strongest_two(&self, reranked: &[Reranked]) -> (Option<Rank>, Option<Rank>) {
        let mut candidates: Vec<&Rank> = Vec::new();
        for unit in reranked {
            candidates.extend(unit.after.strongest_two().into_iter().flatten());
            candidates.extend(self.untouched(unit).take(2));
        }
        let strongest = self.base.index.strongest();
        let others = strongest.filter(|rank| !is_touched(reranked, &rank.key.unit));
        let others: Vec<&Rank> = others.take(2).collect();
        if let Some(first) = others.first() {
            candidates.extend(self.base.index.of_unit(&first.key.unit).take(2));
        }
        candidates.extend(others.get(1));
        candidates.sort();
        let mut candidates = candidates.into_iter().cloned();
        (candidates.next(), candidates.next())
    }
}

/// Returns whether the draft affects contributions of a unit.
pub(super) fn is_touched(reranked: &[Reranked], unit: &UnitName) -> bool {
    reranked.binary_search_by(|r| r.unit.cmp(unit)).is_ok()
}
