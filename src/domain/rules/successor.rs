//! Succession of stateless units: pushed statuses pass from a unit that has left to its successor.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::history::Cause;
use crate::domain::model::name::UnitName;
use crate::domain::model::status::{Freshness, KeyParts, Kind, Status, StatusKey};
use crate::domain::model::unit::Unit;
use crate::domain::model::unit::departure::Departure;
use crate::domain::model::unit::presence::Presence;
use crate::domain::rules::quota::check_quota;

/// Returns the hand-over group of a stateless unit, if it has one.
pub fn hand_over_group<'u>(draft: &Draft<'_>, unit: &'u Unit) -> Option<&'u str> {
    let label = draft.head.config.hand_over.as_ref().filter(|_| unit.stateless)?;
    match label.is_empty() {
        true => Some(""),
        false => unit.labels.get(label).map(|value| &**value),
    }
}

/// Returns the other matching units of a hand-over group. Visits each unit, so it is called
/// only if hand-over is configured.
fn others_in_group<'a>(
    draft: &'a Draft<'_>,
    except: &'a UnitName,
    group: &'a str,
    is_wanted: fn(&Unit) -> bool,
) -> impl Iterator<Item = (&'a UnitName, &'a Unit)> {
    let others = draft
        .units
        .matching(move |unit| is_wanted(unit) && hand_over_group(draft, unit) == Some(group));
    others.filter(move |(name, _)| *name != except)
}

/// Returns the successor of a leaving unit: the newest present one, with preference for units
/// that hold a session because their presence is best known.
pub fn successor(draft: &Draft<'_>, leaving: &UnitName, group: &str) -> Option<UnitName> {
    let here = others_in_group(draft, leaving, group, |unit| {
        unit.departure == Departure::None && unit.is_believed() && unit.quiet_since.is_none()
    });
    let newest = here.max_by_key(|(name, unit)| {
        let has_contact = unit.session().is_some();
        (has_contact, unit.presence != Presence::Unbound, unit.began, *name)
    });
    newest.map(|(name, _)| name.clone())
}

/// Returns the predecessor of a new stateless unit: one that has left or is lost, with
/// preference for the one that has waited longest.
pub fn predecessor(draft: &Draft<'_>, name: &UnitName, unit: &Unit) -> Option<UnitName> {
    let group = hand_over_group(draft, unit)?;
    let gone = others_in_group(draft, name, group, |unit| {
        unit.has_departed() || unit.lost_since.is_some() && unit.session().is_none()
    });
    let first = gone.min_by_key(|(name, unit)| (!unit.has_departed(), unit.last_seen, *name));
    first.map(|(leaving, _)| leaving.clone())
}

/// Names of successors in the reason for a removal.
const NAMED_MAX: usize = 3;

/// Returns whether a stateless unit may replace another: both have the same label, if a label
/// decides the hand-over.
pub fn is_of_line(draft: &Draft<'_>, one: &Unit, other: &Unit) -> bool {
    let label = draft.head.config.hand_over.as_deref().filter(|label| !label.is_empty());
    one.stateless
        && other.stateless
        && label.is_none_or(|l| one.labels.get(l) == other.labels.get(l))
}

/// Returns the names of the units that replaced a lost one, the newest first and at most three;
/// none unless as many are fresh as are missing. A successor began after the last contact with the
/// lost unit, whether before or after the loss was noticed.
pub fn replaced_by(draft: &Draft<'_>, name: &UnitName, lost: &Unit) -> Vec<String> {
    let is_fresh =
        |unit: &Unit| unit.freshness() == Freshness::Fresh && unit.departure == Departure::None;
    let line = draft.units.matching(|unit| is_of_line(draft, unit, lost));
    let (fresh, missing): (Vec<_>, Vec<_>) =
        line.filter(|(other, _)| *other != name).partition(|(_, unit)| is_fresh(unit));
    let mut successors: Vec<_> =
        fresh.into_iter().filter(|(_, unit)| lost.last_seen < unit.began).collect();
    if successors.len() <= missing.len() {
        return Vec::new();
    }
    successors.sort_by(|(a, one), (b, other)| (other.began, a).cmp(&(one.began, b)));
    successors.iter().take(NAMED_MAX).map(|(name, _)| name.to_string()).collect()
}

/// Returns whether a status of a unit outlives it: a pushed one, unless the unit had announced its
/// stop when it reported it.
pub fn outlives(draft: &Draft<'_>, key: &StatusKey) -> bool {
    key.kind == Kind::Push && !draft.status(key).is_some_and(|status| status.while_stopping)
}

/// Passes the push statuses of one unit to another, except those that the other already has or
/// has no quota for. Passed statuses keep their times.
pub fn hand_over(draft: &mut Draft<'_>, from: &UnitName, to: &UnitName) {
    let incarnation = draft.unit(to).map_or(0, |unit| unit.incarnation);
    let pushed = draft.keys_of(from, None).into_iter().filter(|key| outlives(draft, key));
    for key in pushed.collect::<Vec<_>>() {
        let own = KeyParts::new(to, &key.component, &key.key, key.kind);
        let has_quota = || check_quota(draft, to, [own], &BTreeSet::new()).is_ok();
        if draft.status(&own).is_some() || !has_quota() {
            continue;
        }
        let Some(status) = draft.latest(&key) else { continue };
        let passed = Status {
            update_time: draft.now,
            expire_time_written: status.expire_time,
            ..status.passed_to(incarnation)
        };
        let own = Arc::new(own.with_name(to));
        draft.log_status(&own, None, Some(&passed), Cause::HandedOver);
        draft.put_status(own, Some(Arc::new(passed)));
    }
}
