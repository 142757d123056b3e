//! How an application is, by its head alone: whether it serves, how severe it is, how fresh its
//! units are.

use crate::domain::model::app::Head;
use crate::domain::model::met::is_silent;
use crate::domain::model::policy::LostUnits;
use crate::domain::model::severity::{Severity, is_doubtful};
use crate::domain::model::status::Freshness;

/// Returns whether the level is one of the application's serving levels, and no silent unit makes
/// it doubtful.
pub fn serves(head: &Head) -> bool {
    let level = head.summary.level;
    head.config.serving_levels.contains(&level) && !is_doubtful(level, is_silent(head))
}

/// Returns the severity of an application.
pub fn severity(head: &Head) -> Severity {
    Severity::of(head.summary.level, is_silent(head), is_marked(head))
}

/// Returns whether an application has open errors or is flapping.
pub fn is_marked(head: &Head) -> bool {
    let summary = &head.summary;
    let flaps = summary.winner.as_ref().is_some_and(|winner| winner.flaps);
    flaps || 0 < summary.totals.flapping || 0 < head.open_faults.count
}

/// Returns the worst freshness of the units of an application: uncertain, lost unless the
/// application ignores that, stale, fresh.
pub fn freshness(head: &Head) -> Freshness {
    let totals = &head.summary.totals;
    let ignores_lost = head.config.lost_units == LostUnits::Ignore;
    match totals {
        totals if 0 < totals.uncertain_units => Freshness::Uncertain,
        totals if 0 < totals.lost_units && !ignores_lost => Freshness::Lost,
        totals if 0 < totals.stale_units => Freshness::Stale,
        _ => Freshness::Fresh,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::level::Level;
    use crate::domain::model::fault::open::OpenFaults;
    use crate::domain::model::policy::Config;
    use crate::domain::model::summary::{Summary, Totals};

    fn mk_head(level: Level, [stale, lost, uncertain]: [u32; 3], lost_units: LostUnits) -> Head {
        let totals = Totals {
            stale_units: stale,
            lost_units: lost,
            uncertain_units: uncertain,
            ..Totals::default()
        };
        Head {
            summary: Arc::new(Summary { level, totals, ..Summary::default() }),
            config: Arc::new(Config { lost_units, ..Config::default() }),
            ..Head::default()
        }
    }

    #[test]
    fn silence_takes_a_good_level_back_and_counts_once() {
        use Freshness::{Fresh, Lost, Stale, Uncertain};
        use LostUnits::{Ignore, Waiting};
        for (level, silent, lost_units, is_serving, severity_of, freshness_of) in [
            (Level::Active, [0, 0, 0], Waiting, true, Severity::Active, Fresh),
            (Level::Active, [1, 0, 0], Waiting, false, Severity::Silent, Stale),
            (Level::Active, [1, 2, 0], Waiting, false, Severity::Silent, Lost),
            (Level::Active, [0, 2, 0], Ignore, true, Severity::Active, Fresh),
            (Level::Active, [1, 2, 0], Ignore, false, Severity::Silent, Stale),
            (Level::Active, [1, 2, 1], Ignore, false, Severity::Silent, Uncertain),
            (Level::Waiting, [0, 0, 0], Waiting, false, Severity::Waiting, Fresh),
            (Level::Error, [0, 0, 1], Waiting, false, Severity::Error, Uncertain),
        ] {
            let head = mk_head(level, silent, lost_units);
            let found = (serves(&head), severity(&head), freshness(&head));
            assert_eq!(found, (is_serving, severity_of, freshness_of), "{level:?} {silent:?}");
        }
        let open_faults = OpenFaults { count: 1, next_retry: None };
        let marked = Head { open_faults, ..mk_head(Level::Active, [0; 3], Waiting) };
        assert_eq!((serves(&marked), severity(&marked)), (true, Severity::Marked));
    }
}
