//! Quorums in a run: an operator changes that of an application, and the status is compared with
//! what the records give.

use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::command::Command;
use bellwether::domain::derive::{derive, strongest_of};
use bellwether::domain::level::Level;
use bellwether::domain::name::AppName;
use bellwether::domain::policy::ConfigPatch;
use bellwether::domain::quorum::Quorum;
use bellwether::domain::status::Freshness;
use tokio::time::sleep;

use crate::client::Client;

/// Configures the quorum of an application now and then, or none.
pub async fn configure(mut client: Client, app: AppName) {
    loop {
        let quorum = match client.dice.index(5) {
            0 => None,
            1 => Some(Quorum::Percent(50)),
            units => Some(Quorum::Units(units as u32 - 1)),
        };
        let patch = ConfigPatch { quorum: Some(quorum), ..ConfigPatch::default() };
        let place = client.pick();
        client.apply(place, &app, None, Command::Configure(Box::new(patch))).await;
        sleep(Duration::from_millis(client.dice.between(10_000, 60_000))).await;
    }
}

/// Returns what is wrong with the status of an application that has a quorum, or nothing.
pub fn wrong(state: &AppState) -> Option<String> {
    let summary = &state.head().summary;
    let turnout = state.head().turnout()?;
    let counts = |name| strongest_of(state, name).is_some_and(|c| c.rank.level == Level::Active);
    let fresh = state.units_after(None).filter(|(_, unit)| unit.freshness() == Freshness::Fresh);
    let active = fresh.filter(|(name, _)| counts(name)).count();
    if turnout.active as usize != active {
        return Some(format!("has {active} units for its quorum, not {turnout:?}"));
    }
    let is_doubted = summary.winner.is_none();
    let winner = derive(state, 0).winner.filter(|_| !is_doubted)?;
    let is_active = summary.level == Level::Active;
    let is_wrong = winner.rank.level != summary.level || is_active && !turnout.is_met();
    is_wrong.then(|| format!("is {:?} with {turnout:?}, not {winner:?}", summary.level))
}
