//! Lists of open errors and held components for readers.

use std::collections::BTreeSet;

use crate::domain::app::AppState;
use crate::domain::fault::{Fault, FaultKey};
use crate::domain::name::UnitName;
use crate::proto::v1;
use crate::service::convert;

/// Maximum bytes of the holds in an explanation. Its other lists have limits of their own.
const HOLDS_BYTES_MAX: usize = 256 << 10;

/// Returns the faults of one unit, or with `""` of all units, that follow a key, for the wire.
pub(super) fn of<'s>(
    state: &'s AppState,
    unit: &UnitName,
    after: Option<&FaultKey>,
    with_internal_detail: bool,
) -> impl Iterator<Item = (&'s FaultKey, v1::Fault)> {
    let found = stored(state, unit, after);
    found.map(move |(key, fault)| (key, convert::fault(key, fault, with_internal_detail)))
}

/// Returns the same as they are stored.
pub(super) fn stored<'s>(
    state: &'s AppState,
    unit: &UnitName,
    after: Option<&FaultKey>,
) -> impl Iterator<Item = (&'s FaultKey, &'s Fault)> {
    let first = FaultKey::first_of(unit, None);
    let is_wanted = |key: &FaultKey| unit.is_application() || key.unit == *unit;
    let found = state.faults().from(after.unwrap_or(&first)).map(|(key, fault)| (&**key, &**fault));
    let found = found.filter(move |(key, _)| after != Some(*key));
    found.take_while(move |(key, _)| is_wanted(key))
}

/// Returns the first held components, by unit, and the number of the others.
pub(super) fn holds(state: &AppState, count_max: usize) -> (Vec<v1::Hold>, i32) {
    let holding = state.faults().iter().filter(|(_, fault)| fault.held_since.is_some());
    let units: BTreeSet<&UnitName> = holding.map(|(key, _)| &key.unit).collect();
    let holds: Vec<_> =
        units.into_iter().flat_map(|unit| state.holds_of(unit).into_values()).collect();
    let count = holds.len();
    let first = holds.into_iter().take(count_max).map(|(key, fault)| convert::hold(key, fault));
    let (first, _) = convert::first_of(first, HOLDS_BYTES_MAX);
    let rest = convert::count(count - first.len());
    (first, rest)
}
