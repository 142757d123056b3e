//! The status of an application with a quorum, compared with what the records give.

use bellwether::domain::app::AppState;
use bellwether::domain::derive::{derive, strongest_of};
use bellwether::domain::level::Level;
use bellwether::domain::status::Freshness;

/// Returns what is wrong with the turnout of an application that has a quorum, or nothing.
pub fn miscounted(state: &AppState) -> Option<String> {
    let turnout = state.head().turnout()?;
    let counts = |name| strongest_of(state, name).is_some_and(|c| c.rank.level == Level::Active);
    let fresh = state.units_after(None).filter(|(_, unit)| unit.freshness() == Freshness::Fresh);
    let active = fresh.filter(|(name, _)| counts(name)).count();
    if turnout.active as usize != active {
        return Some(format!("has {active} units for its quorum, not {turnout:?}"));
    }
    let is_active = state.head().summary.level == Level::Active;
    let is_wrong = is_active && !turnout.is_met();
    is_wrong.then(|| format!("is active with {turnout:?}"))
}

/// Returns what is wrong with the status of an application that has a quorum and no marks, or
/// nothing.
pub fn wrong(state: &AppState) -> Option<String> {
    let wrong = miscounted(state);
    if wrong.is_some() {
        return wrong;
    }
    if state.marks().iter().next().is_some() {
        return None;
    }
    let summary = &state.head().summary;
    let turnout = state.head().turnout()?;
    let is_doubted = summary.winner.is_none();
    let winner = derive(state, 0).winner.filter(|_| !is_doubted)?;
    let is_wrong = winner.rank.level != summary.level;
    is_wrong.then(|| format!("is {:?} with {turnout:?}, not {winner:?}", summary.level))
}
