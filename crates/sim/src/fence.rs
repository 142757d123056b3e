//! What a commit may not leave: a lease of a master before, a lease of a unit that is away, no
//! lease while a unit waits for it, or a mark on a unit that is removed.

use std::collections::BTreeMap;

use bellwether::domain::name::UnitName;
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::Unit;

use crate::server::app::App;

/// Returns what is wrong after a commit.
pub fn wrong(known: Option<&App>, t: &Transition) -> Vec<String> {
    if t.is_deletion() {
        return Vec::new();
    }
    let units = units(known, t);
    let leader = of_leader(known, t, &units).or_else(|| of_candidates(t, &units));
    let marks = known.into_iter().flat_map(|known| of_marks(known, t));
    leader.into_iter().chain(of_operations(t)).chain(marks).collect()
}

/// Returns the units after a commit.
fn units<'a>(known: Option<&'a App>, t: &'a Transition) -> BTreeMap<&'a UnitName, &'a Unit> {
    let stored = known.into_iter().flat_map(|known| &known.units);
    let mut units: BTreeMap<_, _> = stored.map(|(name, unit)| (name, &**unit)).collect();
    for write in &t.writes {
        match write {
            Write::Unit(name, Some(unit)) => drop(units.insert(name, unit)),
            Write::Unit(name, None) => drop(units.remove(name)),
            _ => {}
        }
    }
    units
}

fn is_away(unit: &Unit) -> bool {
    unit.lost_since.or(unit.quiet_since).is_some()
}

fn of_leader(
    known: Option<&App>,
    t: &Transition,
    units: &BTreeMap<&UnitName, &Unit>,
) -> Option<String> {
    let (app, head, floor) = (&t.app, &t.head, t.epoch_floor);
    let holder = &head.lease.as_ref()?.holder;
    let epoch = head.lease_epoch;
    if epoch <= floor {
        return Some(format!("{app} keeps lease epoch {epoch} of a master before {floor}"));
    }
    // After a data loss the holder keeps its lease, under another epoch.
    let is_holder = |known: &App| known.head.lease.as_ref().map(|l| &l.holder) == Some(holder);
    let is_given = !known.is_some_and(is_holder);
    let is_wrong = is_given && units.get(holder).is_none_or(|unit| is_away(unit));
    is_wrong.then(|| format!("{app} gives lease epoch {epoch} to {holder:?}, which is away"))
}

fn of_candidates(t: &Transition, units: &BTreeMap<&UnitName, &Unit>) -> Option<String> {
    if t.head.lease.is_some() || t.head.config.external_leader.is_some() {
        return None;
    }
    let waits = |unit: &Unit| {
        let is_there = !is_away(unit) && unit.silence_ends.is_none() && !unit.has_departed();
        unit.candidate.is_some() && is_there
    };
    let (name, _) = units.iter().find(|(_, unit)| waits(unit))?;
    Some(format!("{} has no leader, and {name:?} waits", t.app))
}

fn of_operations(t: &Transition) -> impl Iterator<Item = String> {
    t.writes.iter().filter_map(|write| {
        let Write::Operation(id, Some(operation)) = write else { return None };
        let (app, fence, floor) = (&t.app, operation.fence, t.epoch_floor);
        let is_former = operation.holder().is_some() && fence <= floor;
        is_former.then(|| format!("{app} keeps fence {fence} of {id:?} of a master before {floor}"))
    })
}

fn of_marks(known: &App, t: &Transition) -> impl Iterator<Item = String> {
    let removed = t.writes.iter().filter_map(|write| match write {
        Write::Unit(name, None) => Some(name),
        _ => None,
    });
    removed.flat_map(move |unit| {
        let ends = |id| t.writes.iter().any(|w| matches!(w, Write::Mark(of, None) if of == id));
        let kept = known.marked.iter().filter(move |(_, mark)| mark.cover.unit == *unit);
        let kept = kept.filter(move |(id, _)| !ends(*id));
        kept.map(move |(id, _)| format!("{} keeps mark {id} of {unit:?}, which is removed", t.app))
    })
}
