//! How many units of an application count for its quorum, and what follows for its status.

use crate::domain::level::Level;
use crate::domain::model::app::{AppState, Head};
use crate::domain::model::policy::Policy;
use crate::domain::model::quorum::{Quorum, Turnout};
use crate::domain::model::rank::Rank;
use crate::domain::model::status::Freshness;
use crate::domain::model::summary::Totals;
use crate::domain::model::unit::Unit;

impl Quorum {
    /// Returns where the quorum stands with these counts.
    pub(in crate::domain) fn turnout(self, totals: &Totals) -> Turnout {
        let known = totals.units;
        Turnout { active: totals.active_units, known, needed: self.needed(known) }
    }
}

impl Turnout {
    /// Returns whether an application whose quorum stands so waits for it, given the level by the
    /// ordinary rules; `None` if nothing contributes.
    pub(in crate::domain) fn outdoes(&self, policy: &Policy, level: Option<Level>) -> bool {
        let severity = |level| policy.severity(level);
        let is_milder = |level| severity(Level::Waiting) < severity(level);
        !self.is_met() && level.is_none_or(|level| level == Level::Active || is_milder(level))
    }
}

/// Returns whether a unit counts for a quorum, given its strongest contribution.
pub(in crate::domain) fn counts(unit: &Unit, strongest: Option<&Rank>) -> bool {
    let is_active = strongest.is_some_and(|strongest| strongest.level == Level::Active);
    is_active && unit.freshness() == Freshness::Fresh
}

impl Head {
    /// Returns where the quorum stands; `None` without a quorum.
    pub fn turnout(&self) -> Option<Turnout> {
        self.config.quorum.map(|quorum| quorum.turnout(&self.summary.totals))
    }
}

impl AppState {
    /// Returns whether a contribution keeps its rank while the quorum is met: it is of the
    /// application itself, or of a unit that counts.
    pub(in crate::domain) fn is_within_quorum(&self, rank: &Rank) -> bool {
        let name = &rank.key.unit;
        let counted = |unit| counts(unit, self.strongest_of(name));
        name.is_application() || self.unit(name).is_some_and(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_quorum_is_no_worse_than_the_worst_unit_and_never_active() {
        let missed = Turnout { active: 1, known: 3, needed: 2 };
        let met = Turnout { active: 2, ..missed };
        let backwards = Level::ALL.into_iter().rev().collect::<Vec<_>>().try_into();
        let custom = Policy::Custom(backwards.unwrap());
        for (policy, level, waits) in [
            (&Policy::Juju, None, true),
            (&Policy::Juju, Some(Level::Unknown), true),
            (&Policy::Juju, Some(Level::Terminated), true),
            (&Policy::Juju, Some(Level::Active), true),
            (&Policy::Juju, Some(Level::Waiting), false),
            (&Policy::Juju, Some(Level::Error), false),
            (&Policy::OpenStack, Some(Level::Maintenance), true),
            (&Policy::Strict, Some(Level::Unknown), true),
            (&custom, Some(Level::Active), true),
        ] {
            assert_eq!(missed.outdoes(policy, level), waits, "{policy:?} {level:?}");
            assert!(!met.outdoes(policy, level));
        }
    }
}
