//! Open errors as readers see them.

use crate::domain::app::AppState;
use crate::domain::fault::FaultKey;
use crate::domain::name::UnitName;
use crate::proto::v1;
use crate::service::convert;

/// A page of faults of one unit, or with `""` of all, and where the next one starts.
pub(super) fn page(
    state: &AppState,
    unit: &UnitName,
    after: Option<&FaultKey>,
    count_max: usize,
    with_internal_detail: bool,
) -> (Vec<v1::Fault>, Option<FaultKey>) {
    let first = FaultKey::first_of(unit, None);
    let is_wanted = |key: &FaultKey| unit.is_application() || key.unit == *unit;
    let found = state.faults_from(after.unwrap_or(&first));
    let found = found.filter(|(key, _)| after != Some(&***key));
    let mut found = found.take_while(|(key, _)| is_wanted(key)).peekable();
    let mut page = Vec::new();
    let mut last = None;
    while page.len() < count_max
        && let Some((key, fault)) = found.next()
    {
        page.push(convert::fault(key, fault, with_internal_detail));
        last = Some(key);
    }
    let next = last.filter(|_| found.peek().is_some());
    (page, next.map(|key| (**key).clone()))
}

/// The first faults of an application, for everybody.
pub(super) fn first(state: &AppState, count_max: usize) -> Vec<v1::Fault> {
    page(state, &UnitName::application(), None, count_max, false).0
}

/// The first components that stand still, by unit.
pub(super) fn holds(state: &AppState, count_max: usize) -> Vec<v1::Hold> {
    let mut holds = Vec::new();
    let mut last: Option<&UnitName> = None;
    let holding = state.faults().iter().filter(|(_, fault)| fault.held_since.is_some());
    for (key, _) in holding {
        if last != Some(&key.unit) {
            last = Some(&key.unit);
            let of_unit = state.holds_of(&key.unit).into_values();
            holds.extend(of_unit.map(|(key, fault)| convert::hold(key, fault)));
        }
        if count_max <= holds.len() {
            break;
        }
    }
    holds.truncate(count_max);
    holds
}
