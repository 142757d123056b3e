//! What marks mean for a draft: they end with what they cover, and the head says what they say.

use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::draft::summary::Reranked;
use crate::domain::level::Level;
use crate::domain::model::contribution::override_status;
use crate::domain::model::history::{Cause, Change, StatusEvent, Subject};
use crate::domain::model::mark::head::MarkSummary;
use crate::domain::model::mark::tally::Tally;
use crate::domain::model::mark::{Cover, Mark, MarkEnd, MarkId, MarkKind};
use crate::domain::model::name::UnitName;
use crate::domain::model::quorum::Turnout;
use crate::domain::model::rank::Rank;
use crate::domain::model::status::{Freshness, StatusKey};
use crate::domain::model::summary::{Summary, Totals};
use crate::domain::model::unit::Unit;

/// What a mark covers, after a draft.
struct Covered {
    /// The worst level; active if nothing is worse.
    worst: Level,
    /// Whether everything is fresh, and active or terminated.
    is_well: bool,
}

/// What a draft does to a unit that has marks. Each mark is asked at each report, so nothing is
/// ranked for the answer.
struct Touched<'b> {
    reranked: &'b Reranked,
    /// Whether more than some statuses changed, such as how far the unit is believed.
    whole: bool,
    /// The statuses that the draft writes or removes.
    keys: Vec<&'b StatusKey>,
}

impl Touched<'_> {
    /// Returns whether the draft can have changed how bad it is what a cover has of the unit.
    fn has(&self, cover: &Cover) -> bool {
        self.whole || self.keys.iter().any(|key| cover.has(key))
    }
}

impl Draft<'_> {
    /// Writes or removes a mark.
    pub(in crate::domain) fn put_mark(&mut self, id: MarkId, mark: Option<Arc<Mark>>) {
        let size = |mark: Option<&Arc<Mark>>| mark.map_or(0, |mark| mark.size());
        self.usage.count_bytes(size(self.marks.get(&id)), size(mark.as_ref()));
        self.head.mark_visible();
        self.marks.put(id, mark);
    }

    /// Ends a mark, and adds that to the history.
    pub(in crate::domain) fn end_mark(&mut self, id: &MarkId, why: MarkEnd) {
        let Some(mark) = self.marks.get(id).cloned() else { return };
        self.log_mark(id, &mark, Cause::MarkEnded, mark.state(), why.word());
        self.put_mark(id.clone(), None);
    }

    /// Adds an event for a mark that changed its state.
    pub(in crate::domain) fn log_mark(
        &mut self,
        id: &MarkId,
        mark: &Mark,
        cause: Cause,
        from: &str,
        to: &str,
    ) {
        let Cover { unit, component, key } = mark.cover.clone();
        let place = |part: Option<_>| part.unwrap_or_default();
        let subject =
            Subject { unit, component: place(component), key: place(key), ..Subject::default() };
        let changes = vec![
            Change::new("mark", from, to),
            Change::new("mark_id", if from.is_empty() { "" } else { id }, id),
        ];
        self.log(StatusEvent {
            subject: Some(subject),
            message: mark.reason.clone(),
            reason: mark.kind.reason().into(),
            changes,
            ..self.event(cause)
        });
    }

    /// Ends the marks of a unit that is removed.
    pub(in crate::domain) fn end_marks_of(&mut self, unit: &UnitName) {
        if self.marks.is_empty() {
            return;
        }
        let of_unit = self.marks.iter().filter(|(_, mark)| mark.cover.unit == *unit);
        let ids: Vec<MarkId> = of_unit.map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.end_mark(id, MarkEnd::Removed));
    }

    /// Ends the acknowledgements of what got worse, and notes since when it is well what a mark
    /// covers that ends for it. Marks of units that the draft does not touch stay as they are.
    pub(super) fn judge_marks(&mut self, reranked: &[Reranked], totals: &Totals) {
        if self.marks.is_empty() {
            return;
        }
        let mut changes: Vec<(MarkId, Option<Arc<Mark>>)> = Vec::new();
        let mut last: Option<(&UnitName, Option<Touched<'_>>)> = None;
        for (id, mark) in self.marks.iter().filter(|(_, mark)| mark.begun && mark.ends_when_well) {
            let unit = &mark.cover.unit;
            // Marks of one unit often follow each other.
            let touched = match last.take() {
                Some((of, touched)) if of == unit => touched,
                _ => self.touched_unit(unit, reranked),
            };
            let (_, touched) = last.insert((unit, touched));
            let covered = match mark.cover.is_all() {
                true => Some(self.covered_by_all(totals)),
                false => self.covered(id, mark, touched.as_ref()),
            };
            let Some(covered) = covered else { continue };
            let severity = |level| self.head.config.policy.severity(level);
            let is_worse = severity(covered.worst) < severity(mark.acknowledged_level);
            if mark.kind == MarkKind::Acknowledged && is_worse {
                changes.push((id.clone(), None));
            } else if covered.is_well != mark.well_since.is_some() {
                let well_since = covered.is_well.then_some(self.now);
                changes.push((id.clone(), Some(Arc::new(Mark { well_since, ..(**mark).clone() }))));
            }
        }
        for (id, mark) in changes {
            match mark {
                Some(_) => self.put_mark(id, mark),
                None => self.end_mark(&id, MarkEnd::Worse),
            }
        }
    }

    /// Returns how bad it is what a mark covers, as far as the draft can have changed it; `None`:
    /// as before.
    fn covered(&self, id: &MarkId, mark: &Mark, touched: Option<&Touched<'_>>) -> Option<Covered> {
        let unit = &mark.cover.unit;
        let is_new = self.marks.contains(id);
        let own;
        let reranked = match touched {
            Some(touched) if is_new || touched.has(&mark.cover) => touched.reranked,
            None if is_new => {
                own = self.rerank(unit.clone(), false);
                &own
            }
            _ => return None,
        };
        let covers = |rank: &&Rank| mark.cover.has(&rank.key);
        let changed = reranked.after().filter(covers);
        let worst = match is_new {
            true => self.worst(changed.clone().chain(self.untouched(reranked).filter(covers))),
            // Others were no worse before, and did not change.
            false => self.worst(changed.clone()),
        };
        let is_bad = |rank: &Rank| !rank.level.is_well() || self.is_stale(&rank.key);
        // A new incarnation of the unit makes statuses stale that the draft does not write.
        let has_outlived = self.unit(unit).is_some_and(|unit| unit.outlived_count != 0);
        let was_well = mark.well_since.is_some() && !is_new && !has_outlived;
        let is_well = self.is_fresh(&mark.cover)
            && !changed.clone().any(is_bad)
            && (was_well || !self.untouched(reranked).filter(covers).any(is_bad));
        Some(Covered { worst, is_well })
    }

    /// Returns what the draft does to a unit; `None`: nothing.
    fn touched_unit<'b>(
        &'b self,
        unit: &UnitName,
        reranked: &'b [Reranked],
    ) -> Option<Touched<'b>> {
        let place = reranked.binary_search_by(|reranked| reranked.unit.cmp(unit)).ok()?;
        let reranked = &reranked[place];
        let believed = |unit: &Unit| (unit.freshness(), unit.outlived_count);
        let (before, after) = (self.base.unit(unit), self.unit(unit));
        let whole = reranked.is_more_than_statuses() || before.map(believed) != after.map(believed);
        let keys = self.statuses.of(&reranked.unit).map(|(key, _)| &**key).collect();
        Some(Touched { reranked, whole, keys })
    }

    /// Returns how bad the application is with all its units.
    fn covered_by_all(&self, totals: &Totals) -> Covered {
        let order = self.head.config.policy.order();
        let has = |level: Level| 0 < totals.contributions[level as usize];
        let worst = order.into_iter().find(|level| *level == Level::Active || has(*level));
        let mut unwell = Level::ALL.into_iter().filter(|level| !level.is_well());
        let silent = totals.stale_units + totals.lost_units + totals.uncertain_units;
        let is_well = silent == 0 && !unwell.any(has);
        Covered { worst: worst.unwrap_or(Level::Active), is_well }
    }

    /// Returns the worst level of some contributions under the policy, at least active.
    fn worst<'r>(&self, ranks: impl Iterator<Item = &'r Rank>) -> Level {
        let policy = &self.head.config.policy;
        let levels = ranks.map(|rank| rank.level).chain([Level::Active]);
        levels.min_by_key(|level| policy.severity(*level)).unwrap_or(Level::Active)
    }

    /// Returns whether the unit of a cover can be believed, and nothing that the draft wrote there
    /// is stale.
    fn is_fresh(&self, cover: &Cover) -> bool {
        let Some(unit) = self.unit(&cover.unit) else { return true };
        let is_fresh = match cover.component {
            None => unit.freshness() == Freshness::Fresh,
            Some(_) => unit.is_believed(),
        };
        let written = || self.statuses.of(&cover.unit).filter(|(key, _)| cover.has(key));
        is_fresh && !written().any(|(key, _)| self.is_stale(key))
    }

    fn is_stale(&self, key: &StatusKey) -> bool {
        self.status(key).is_some_and(|status| {
            let has_outlived = |unit: &Unit| unit.has_outlived(key, status);
            status.stale || self.unit(&key.unit).is_some_and(has_outlived)
        })
    }

    /// Returns the worst level of what a cover has after the draft so far, at least active.
    pub(in crate::domain) fn worst_covered(&self, cover: &Cover) -> Level {
        let units: Vec<UnitName> = match cover.is_all() {
            true => {
                let units = self.units.matching(|_| true).map(|(name, _)| name.clone());
                units.chain([UnitName::application()]).collect()
            }
            false => vec![cover.unit.clone()],
        };
        let reranks = self.reranks();
        let worst = units.into_iter().map(|unit| {
            let reranked = self.rerank(unit, reranks);
            let after = reranked.after().chain(self.untouched(&reranked));
            self.worst(after.filter(|rank| cover.has(&rank.key)))
        });
        let policy = &self.head.config.policy;
        worst.min_by_key(|level| policy.severity(*level)).unwrap_or(Level::Active)
    }

    /// Returns what the head says of the marks after the draft.
    pub(super) fn mark_summary(
        &self,
        reranked: &[Reranked],
        winner: Option<&Rank>,
        summary: &Summary,
    ) -> Option<Arc<MarkSummary>> {
        let bad = winner.filter(|winner| winner.level.is_unwell());
        let mut says = MarkSummary::default();
        for (_, mark) in self.marks.iter() {
            says.count += 1;
            let covers = || bad.is_some_and(|winner| mark.cover.has(&winner.key));
            if mark.is_acknowledged() {
                says.acknowledged_count += 1;
                says.acknowledged = says.acknowledged || covers();
            } else if mark.is_planned() {
                says.planned_count += 1;
                says.planned = says.planned || covers();
            }
        }
        if says.count == 0 {
            return None;
        }
        let without = self.level_without_marks(reranked, &summary.totals);
        says.level_without = without.filter(|level| *level != summary.level);
        Some(Arc::new(says))
    }

    /// Returns the level that the application has without planned work, if some covers a part.
    fn level_without_marks(&self, reranked: &[Reranked], totals: &Totals) -> Option<Level> {
        if self.marks.planned().is_empty() || override_status(&self.head).is_some() {
            return None;
        }
        let tally = match self.base.index.tally().filter(|_| !self.reranks()) {
            Some(before) => {
                let mut tally = before.clone();
                for unit in reranked {
                    self.each_before(unit, |rank| tally.subtract(rank));
                    unit.after().for_each(|rank| tally.add(rank));
                }
                tally
            }
            // Every unit is ranked again.
            None => {
                let mut tally = Tally::default();
                reranked.iter().flat_map(Reranked::after).for_each(|rank| tally.add(rank));
                tally
            }
        };
        let strongest = tally.strongest(&self.head.config.policy);
        Some(match self.head.config.quorum {
            Some(quorum) => self.level_by_quorum(quorum.turnout(totals), strongest, reranked),
            None => strongest.map_or(Level::Unknown, |(_, level)| level),
        })
    }

    /// Returns the level under a quorum and without planned work: whether a unit counts for the
    /// quorum does not depend on marks.
    fn level_by_quorum(
        &self,
        turnout: Turnout,
        strongest: Option<(i32, Level)>,
        reranked: &[Reranked],
    ) -> Level {
        let policy = &self.head.config.policy;
        if turnout.outdoes(policy, strongest.map(|(_, level)| level)) {
            return Level::Waiting;
        }
        let Some((precedence, level)) = strongest else { return Level::Unknown };
        if !turnout.is_met() {
            return level;
        }
        let own = reranked.iter().find(|unit| unit.unit.is_application());
        let own = own.into_iter().flat_map(|own| own.after().chain(self.untouched(own)));
        let own = own.filter(|rank| rank.precedence == precedence).map(|rank| rank.level);
        let own = own.min_by_key(|level| policy.severity(*level));
        if own == Some(level) {
            return level;
        }
        // A unit decides by the ordinary rules, so those within the quorum decide instead.
        let active = self.has_active_within(precedence, reranked).then_some(Level::Active);
        let within = own.into_iter().chain(active);
        within.min_by_key(|level| policy.severity(*level)).unwrap_or(level)
    }
}
