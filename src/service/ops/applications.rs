//! The applications that have series of their own at `/metrics`.

use std::collections::BTreeSet;

use crate::domain::level::Level;
use crate::telemetry::{ApplicationState, ApplicationStates};
use crate::watch::{Entry, Hub};

/// Returns the states of at most `count_max` applications. Those that are not active come first,
/// so that the cap leaves out what needs no alert.
pub fn states(hub: &Hub, count_max: usize) -> ApplicationStates {
    let (calm, others) = Level::ALL.into_iter().partition(|level| *level == Level::Active);
    let mut shown = Vec::new();
    for levels in [others, calm] as [BTreeSet<Level>; 2] {
        let found = hub.list(None, None, &levels, count_max - shown.len());
        shown.extend(found.iter().map(|entry| state(entry)));
    }
    let omitted = (hub.application_count() as u64).saturating_sub(shown.len() as u64);
    ApplicationStates { shown, omitted }
}

fn state(entry: &Entry) -> ApplicationState {
    let head = entry.head();
    let summary = &head.summary;
    let totals = &summary.totals;
    let marks = head.marks.as_ref();
    let silent = [totals.stale_units, totals.lost_units, totals.uncertain_units];
    ApplicationState {
        namespace: entry.app.namespace().to_string(),
        application: entry.app.application().to_string(),
        level: summary.level,
        since_seconds: summary.since.millis() as f64 / 1000.0,
        silent_units: silent.map(u64::from),
        marked: [marks.is_some_and(|m| m.planned), marks.is_some_and(|m| m.acknowledged)],
    }
}
