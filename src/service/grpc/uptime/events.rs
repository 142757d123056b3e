//! What the store and the state of an application say about its time.

use std::time::Duration;

use crate::domain::app::AppState;
use crate::domain::history::StatusEvent;
use crate::domain::mark::Mark;
use crate::domain::name::AppName;
use crate::domain::policy::LostUnits;
use crate::domain::time::Timestamp;
use crate::domain::unit::Unit;
use crate::domain::uptime::timeline::{Kept, Now};
use crate::service::Parts;
use crate::service::code::ApiError;

/// Events that are read with one call of the store.
const READ_SIZE: usize = 1000;

/// Events that are read for an answer: far more than are kept by default. Older ones count as
/// dropped.
const READ_MAX: usize = 20_000;

/// Returns the number of own events that there were, and what the state of an application says.
pub(super) fn of_state(state: &AppState, at: Timestamp) -> (u64, Now) {
    let head = state.head();
    let lost_units = head.config.lost_units;
    let silent = |unit: &Unit| match unit.lost_since {
        Some(since) => Some(since).filter(|_| lost_units != LostUnits::Ignore),
        None => unit.stale_since.into_iter().chain(unit.quiet_since).min(),
    };
    let units = || state.units_after(None).map(|(_, unit)| unit);
    let planned = state.marks().iter().filter(|(_, mark)| covers_all(mark));
    let now = Now {
        silent_since: units().filter_map(silent).min(),
        planned_since: planned.map(|(_, mark)| mark.start).min(),
        uncertain_since: units().filter_map(|unit| unit.uncertain_since).min(),
        ..Now::of_head(head, at)
    };
    (head.own_events, now)
}

/// Returns whether planned work on the whole application is under way.
fn covers_all(mark: &Mark) -> bool {
    mark.is_planned() && mark.cover.is_all()
}

/// Returns the stored events of an application, the newest first.
pub(super) async fn read_events(
    parts: &Parts,
    app: &AppName,
) -> Result<Vec<StatusEvent>, ApiError> {
    let (mut events, mut before) = (Vec::new(), None);
    while events.len() < READ_MAX {
        let read = parts.store.events(app, before, READ_SIZE).await.map_err(ApiError::from)?;
        before = read.last().map(|event| event.number);
        let is_last = read.len() < READ_SIZE;
        events.extend(read.into_iter().map(|numbered| numbered.event));
        if is_last {
            break;
        }
    }
    Ok(events)
}

/// Returns what the store keeps of the own events, given the number that there were.
pub(super) fn kept(parts: &Parts, events: &[StatusEvent], ever: u64) -> Kept {
    let limit = |name: &str| parts.about.limits.get(name).copied().unwrap_or_default();
    let mut own = events.iter().filter(|event| event.is_own());
    let count = own.clone().count() as u64;
    let is_cut = READ_MAX <= events.len();
    let oldest = if is_cut { events.last() } else { own.next_back() };
    Kept {
        oldest: oldest.map(|event| event.time),
        count,
        ever: if is_cut { u64::MAX } else { ever },
        count_max: if is_cut { count } else { limit("own_events_max") },
        age_max: Duration::from_secs(limit("own_event_age_max_seconds")),
    }
}
