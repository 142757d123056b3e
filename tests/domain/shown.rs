//! A revision moves only if a reader sees a change, or if the other replicas must know one: they
//! learn it from the log, which has an entry for each revision.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bellwether::domain::app::{AppState, Head};
use bellwether::domain::revision::Revision;
use bellwether::domain::status::Status;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;

/// Checks that a revision did not move for nothing.
pub fn check(before: &AppState, after: &AppState, transition: &Transition) {
    let is_quiet = !transition.moves_revision() || !transition.events.is_empty();
    if is_quiet || shown(before) != shown(after) {
        return;
    }
    assert!(known(before) != known(after), "the revision moves for nothing: {transition:?}");
}

/// Returns what a reader can see, beside the history.
fn shown(state: &AppState) -> impl PartialEq {
    let head = Head {
        revision: Revision(0),
        update_time: Timestamp::default(),
        next_due: None,
        next_event: 0,
        own_events: 0,
        quiet_commits: 0,
        counts: None,
        sessions: BTreeMap::new(),
        next_candidate: 0,
        losses: 0,
        abandoned_until: None,
        ..state.head().clone()
    };
    let units = state.units_after(None).map(|(name, unit)| {
        let is_connected = unit.session().is_some();
        let marks = (unit.stale_since, unit.quiet_since, unit.departure);
        (name.clone(), unit.incarnation, unit.freshness(), is_connected, marks, unit.candidate)
    });
    let units: Vec<_> = units.collect();
    let statuses = state.statuses().iter().map(|(key, status)| {
        let plain =
            Status { swings: Default::default(), expire_time_written: None, ..(**status).clone() };
        ((**key).clone(), plain)
    });
    let statuses: Vec<_> = statuses.collect();
    (head, units, statuses, text(state.faults().iter()))
}

/// Returns what other replicas act on although no reader sees it: sessions and callbacks, which the
/// replica of the session has, what chooses a successor, and a data loss that is handled.
fn known(state: &AppState) -> impl PartialEq {
    let units = state.units_after(None).map(|(name, unit)| {
        let session = (unit.presence, unit.session_since, unit.session_ended);
        (name.clone(), session, unit.callbacks.clone(), unit.labels.clone(), unit.stateless)
    });
    (state.head().losses, units.collect::<Vec<_>>())
}

fn text(all: impl Iterator<Item = impl Debug>) -> Vec<String> {
    all.map(|each| format!("{each:?}")).collect()
}
