//! Units without contact: stale, lost, or uncertain after a data loss of the store.

use crate::domain::draft::Draft;
use crate::domain::history::{Cause, StatusEvent, Subject};
use crate::domain::name::UnitName;

/// Marks a unit as lost, whether or not it ever reported.
pub fn lose_unit(draft: &mut Draft<'_>, name: &UnitName) {
    let mut unit = draft.unit(name).cloned().unwrap_or_default();
    if unit.lost_since.is_some() {
        return;
    }
    unit.lost_since = Some(draft.now);
    unit.silence_ends = None;
    let freshness = unit.freshness();
    draft.put_unit(name.clone(), Some(unit));
    draft.log(StatusEvent {
        subject: Some(Subject::unit(name)),
        freshness,
        ..draft.event(Cause::UnitLost)
    });
}

/// Marks a unit that missed its contact time as stale. It is lost later unless it reports. A lost
/// unit stays lost and does not become stale.
pub(in crate::domain) fn quieten_unit(draft: &mut Draft<'_>, name: &UnitName) {
    let mut unit = draft.unit(name).cloned().unwrap_or_default();
    if unit.lost_since.is_some() {
        return;
    }
    unit.quiet_since = Some(draft.now);
    unit.silence_ends = Some(draft.silence_from_now());
    let freshness = unit.freshness();
    draft.put_unit(name.clone(), Some(unit));
    draft.log(StatusEvent {
        subject: Some(Subject::unit(name)),
        freshness,
        ..draft.event(Cause::Expired)
    });
}

/// Marks a unit as uncertain: the store may have lost its last reports.
pub(in crate::domain) fn mark_unit_uncertain(draft: &mut Draft<'_>, name: &UnitName) {
    let uncertain = draft.unit(name).filter(|unit| unit.uncertain_since.is_none());
    let Some(mut unit) = uncertain.cloned() else {
        return;
    };
    unit.uncertain_since = Some(draft.now);
    let freshness = unit.freshness();
    draft.put_unit(name.clone(), Some(unit));
    draft.log(StatusEvent {
        subject: Some(Subject::unit(name)),
        freshness,
        ..draft.event(Cause::Doubted)
    });
}
