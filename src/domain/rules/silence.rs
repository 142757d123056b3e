//! Units without contact: stale, lost, or uncertain after a data loss of the store.

use crate::domain::draft::Draft;
use crate::domain::model::history::{Cause, StatusEvent};
use crate::domain::model::name::UnitName;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;
use crate::domain::rules::remove_unit::remove_because;
use crate::domain::rules::successor::{
    hand_over, hand_over_group, is_of_line, replaced_by, successor,
};

/// Marks a unit as lost, whether or not it ever reported.
pub fn lose_unit(draft: &mut Draft<'_>, name: &UnitName) {
    let unit = draft.unit(name).cloned().unwrap_or_default();
    if unit.lost_since.is_none() {
        let silence_ends = end_of_lost(draft, &unit);
        let lost = Unit { lost_since: Some(draft.now), silence_ends, ..unit };
        put_marked(draft, name, lost, Cause::UnitLost);
    }
}

/// Returns when a lost unit may be removed: never, unless it is replaced under another name.
fn end_of_lost(draft: &Draft<'_>, unit: &Unit) -> Option<Timestamp> {
    let after = draft.head.config.replaced_after;
    (unit.stateless && !after.is_zero()).then(|| draft.now.after(after))
}

/// Removes a stateless unit that has been lost for long enough, if as many successors are fresh.
/// Without them it stays, and they are counted again later.
pub fn end_lost_unit(draft: &mut Draft<'_>, name: &UnitName) {
    let Some(unit) = draft.unit(name).cloned() else { return };
    let successors = replaced_by(draft, name, &unit);
    if successors.is_empty() {
        let silence_ends = end_of_lost(draft, &unit);
        draft.units.put(name.clone(), Some(Unit { silence_ends, ..unit }));
        return;
    }
    let to = hand_over_group(draft, &unit).and_then(|group| successor(draft, name, group));
    if let Some(to) = to {
        hand_over(draft, name, &to);
    }
    let since = unit.lost_since.unwrap_or_default().to_utc();
    remove_because(
        draft,
        name,
        &format!("lost since {since}, replaced by {}", successors.join(", ")),
    );
}

/// Plans the end of the lost units that a new unit may replace, if none is planned: those that were
/// lost before the configuration had one.
pub fn plan_ends(draft: &mut Draft<'_>, newcomer: &Unit) {
    let is_open =
        |unit: &Unit| unit.stateless && unit.lost_since.is_some() && unit.silence_ends.is_none();
    let lost = draft.units.matching(is_open).filter(|(_, unit)| is_of_line(draft, unit, newcomer));
    let lost: Vec<(UnitName, Unit)> =
        lost.map(|(name, unit)| (name.clone(), unit.clone())).collect();
    for (name, unit) in lost {
        let silence_ends = end_of_lost(draft, &unit);
        draft.units.put(name, Some(Unit { silence_ends, ..unit }));
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

/// Marks a unit as uncertain: the store may have lost its last reports. The contact that would end
/// its silence may be among them, so a quiet unit is lost `lost_after` after the loss at the
/// earliest.
pub(in crate::domain) fn mark_unit_uncertain(draft: &mut Draft<'_>, name: &UnitName) {
    let Some(unit) = draft.unit(name).cloned() else { return };
    let silence_ends = match unit.lost_since {
        None => unit.silence_ends.map(|ends| ends.max(draft.silence_from_now())),
        Some(_) => unit.silence_ends,
    };
    let is_certain = unit.uncertain_since.is_none();
    let is_later = silence_ends != unit.silence_ends;
    let uncertain_since = unit.uncertain_since.or(Some(draft.now));
    let uncertain = Unit { uncertain_since, silence_ends, ..unit };
    if is_certain {
        put_marked(draft, name, uncertain, Cause::Doubted);
    } else if is_later {
        draft.units.put(name.clone(), Some(uncertain));
    }
}

/// Writes a unit with its mark, and an event with its new freshness.
fn put_marked(draft: &mut Draft<'_>, name: &UnitName, unit: Unit, cause: Cause) {
    let freshness = unit.freshness();
    draft.put_unit(name.clone(), Some(unit));
    draft.log(StatusEvent { freshness, ..draft.event(cause).of_unit(name) });
}
