//! What a quorum makes of the contributions of a draft.

use crate::domain::draft::Draft;
use crate::domain::draft::summary::{Reranked, is_touched};
use crate::domain::level::Level;
use crate::domain::model::policy::Config;
use crate::domain::model::quorum::Turnout;
use crate::domain::model::rank::Rank;
use crate::domain::model::summary::{Rule, Summary, Totals, Winner};
use crate::domain::model::turnout::counts;
use crate::domain::model::unit::Unit;

/// Returns whether the units of an application are counted for a quorum.
fn is_counted(config: &Config) -> bool {
    config.quorum.is_some()
}

impl Draft<'_> {
    /// Returns whether the draft begins or ends the counting of units for a quorum: then every unit
    /// is counted again.
    pub(super) fn recounts_quorum(&self) -> bool {
        is_counted(&self.head.base().config) != is_counted(&self.head.config)
    }

    /// Counts a unit that was or is in the quorum.
    pub(super) fn count_for_quorum(
        &self,
        totals: &mut Totals,
        (old, old_strongest): (Option<&Unit>, Option<&Rank>),
        (new, new_strongest): (Option<&Unit>, Option<&Rank>),
    ) {
        let counted = |config: &Config, unit: Option<&Unit>, strongest| {
            is_counted(config) && unit.is_some_and(|unit| counts(unit, strongest))
        };
        let was = counted(&self.head.base().config, old, old_strongest);
        let is = counted(&self.head.config, new, new_strongest);
        totals.active_units = totals.active_units + u32::from(is) - u32::from(was);
    }

    /// Returns the winner under a quorum that is met, if it is another one than `first`, the
    /// strongest by the ordinary rules: the strongest of the same precedence that is within the
    /// quorum.
    pub(super) fn within_quorum(&self, first: &Rank, reranked: &[Reranked]) -> Option<Rank> {
        if self.is_within(first) {
            return None;
        }
        self.all_within(first.precedence, reranked).min().cloned()
    }

    /// Returns whether an active unit of this precedence counts for the quorum.
    pub(super) fn has_active_within(&self, precedence: i32, reranked: &[Reranked]) -> bool {
        let mut within = self.all_within(precedence, reranked);
        within.any(|rank| !rank.key.unit.is_application())
    }

    /// Returns contributions of this precedence that are within the quorum, the strongest among
    /// them.
    fn all_within<'b>(
        &'b self,
        precedence: i32,
        reranked: &'b [Reranked],
    ) -> impl Iterator<Item = &'b Rank> {
        // In a unit that counts, the strongest has the highest precedence, and is active.
        let may_win = move |rank: &&Rank| rank.precedence == precedence && self.is_within(rank);
        let drafted = reranked.iter().filter_map(|unit| self.strongest_in(unit));
        let active = self.head.config.policy.severity(Level::Active);
        let kept = self.base.index.strongest_from(precedence, active);
        let same = kept.take_while(move |r| (r.precedence, r.severity) == (precedence, active));
        let untouched = same.filter(|rank| !is_touched(reranked, &rank.key.unit)).find(may_win);
        drafted.filter(may_win).chain(untouched)
    }

    /// Returns whether the strongest contribution of a unit is within the quorum after the draft.
    fn is_within(&self, strongest: &Rank) -> bool {
        let name = &strongest.key.unit;
        let is_counted = |unit| counts(unit, Some(strongest));
        name.is_application() || self.unit(name).is_some_and(is_counted)
    }

    /// Returns the status of an application that waits for its quorum.
    pub(super) fn lacking(&self, turnout: Turnout, old: &Summary, totals: Totals) -> Summary {
        Summary {
            level: Level::Waiting,
            message: turnout.words().into(),
            reason: turnout.reason().into(),
            since: self.level_began(old, Level::Waiting, self.now, None),
            winner: Some(Winner::quorum()),
            rule: Rule::Quorum(turnout),
            totals,
            ..Summary::default()
        }
    }
}
