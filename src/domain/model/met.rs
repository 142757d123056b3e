//! Whether a need is met: the one predicate for readers, workers and those who wait.

use crate::domain::level::Level;
use crate::domain::model::app::Head;
use crate::domain::model::policy::LostUnits;

/// Returns whether an application has one of these levels reliably: it exists, and none of its
/// units is silent.
pub fn is_met(head: Option<&Head>, levels: &[Level]) -> bool {
    head.filter(|head| !head.deleted)
        .is_some_and(|head| levels.contains(&head.summary.level) && !is_silent(head))
}

/// Returns whether units of an application are stale or uncertain, or lost unless the application
/// ignores that: its level may be wrong.
pub fn is_silent(head: &Head) -> bool {
    let totals = &head.summary.totals;
    let lost = match head.config.lost_units {
        LostUnits::Ignore => 0,
        LostUnits::Waiting | LostUnits::Blocked => totals.lost_units,
    };
    totals.stale_units + lost + totals.uncertain_units != 0
}
