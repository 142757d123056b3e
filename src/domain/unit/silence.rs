//! Units without contact: stale, lost, or uncertain after a data loss of the store.

use crate::domain::draft::Draft;
use crate::domain::history::{Cause, StatusEvent};
use crate::domain::name::UnitName;
use crate::domain::unit::Unit;

/// Marks a unit as lost, whether or not it ever reported.
pub fn lose_unit(draft: &mut Draft<'_>, name: &UnitName) {
    let unit = draft.unit(name).cloned().unwrap_or_default();
    if unit.lost_since.is_none() {
        let lost = Unit { lost_since: Some(draft.now), silence_ends: None, ..unit };
        put_marked(draft, name, lost, Cause::UnitLost);
    }
}

/// Marks a unit that missed its contact time as stale. It is lost later unless it reports. A lost
/// unit stays lost and does not become stale.
pub(in crate::domain) fn quieten_unit(draft: &mut Draft<'_>, name: &UnitName) {
    let unit = draft.unit(name).cloned().unwrap_or_default();
    if unit.lost_since.is_none() {
        let silence_ends = Some(draft.silence_from_now());
        let quiet = Unit { quiet_since: Some(draft.now), silence_ends, ..unit };
        put_marked(draft, name, quiet, Cause::Expired);
    }
}

/// Marks a unit as uncertain: the store may have lost its last reports.
pub(in crate::domain) fn mark_unit_uncertain(draft: &mut Draft<'_>, name: &UnitName) {
    let certain = draft.unit(name).filter(|unit| unit.uncertain_since.is_none());
    if let Some(unit) = certain.cloned() {
        let uncertain = Unit { uncertain_since: Some(draft.now), ..unit };
        put_marked(draft, name, uncertain, Cause::Doubted);
    }
}

/// Writes a unit with its mark, and an event with its new freshness.
fn put_marked(draft: &mut Draft<'_>, name: &UnitName, unit: Unit, cause: Cause) {
    let freshness = unit.freshness();
    draft.put_unit(name.clone(), Some(unit));
    draft.log(StatusEvent { freshness, ..draft.event(cause).of_unit(name) });
}
