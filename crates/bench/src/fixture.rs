//! An application with a given number of statuses, in memory and without a server: the fixture for
//! measurements of the core. It calls only public functions of the domain.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::revision::Revision;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::domain::unit::Reporter;

/// Statuses of each unit.
const STATUSES_PER_UNIT: u64 = 100;
/// The distance between the statuses of two consecutive requests: adjacent ones would be in the
/// processor's cache. It has no factor in common with a power of ten, so that every status gets its
/// turn.
const STRIDE: u64 = 7919;
/// The ttl of each status.
const TTL: Duration = Duration::from_secs(60);

/// An application with many statuses, and the fixed time of its commands.
pub struct Fixture {
    statuses: u64,
    state: AppState,
    limits: Limits,
    now: Timestamp,
}

impl Fixture {
    /// Creates an application with this many statuses, a power of ten from 100 on. Each has a ttl.
    pub fn of(statuses: u64) -> anyhow::Result<Fixture> {
        let state = AppState::empty(AppName::new("", "web").map_err(|(_, e)| e)?, Revision(0));
        let limits = Limits::default();
        let mut fixture = Fixture { statuses, state, limits, now: Timestamp::new(1_000_000) };
        for unit in 0..statuses.div_ceil(STATUSES_PER_UNIT) {
            let keys = unit * STATUSES_PER_UNIT..((unit + 1) * STATUSES_PER_UNIT).min(statuses);
            let batch: anyhow::Result<Vec<Request>> = keys.map(|key| request(key, 0)).collect();
            fixture.commit(&batch?)?;
        }
        Ok(fixture)
    }

    /// Returns the state of the application.
    pub fn state(&self) -> &AppState {
        &self.state
    }

    /// Returns requests from number `first` on. Each changes the level and the message of another
    /// status, while there are no more requests than statuses.
    pub fn requests(&self, first: u64, count: u64) -> anyhow::Result<Vec<Request>> {
        let numbers = first..first + count;
        // Two numbers that name the same status differ in their turn, and so in the level.
        let requests =
            numbers.map(|n| request(n.wrapping_mul(STRIDE) % self.statuses, 1 + n / self.statuses));
        requests.collect()
    }

    /// Decides a batch of requests and returns the transition; the state does not change.
    pub fn decide(&self, batch: &[Request]) -> anyhow::Result<Transition> {
        let mut draft = Draft::new(&self.state, &self.limits, self.now);
        for request in batch {
            apply(&mut draft, request)?;
        }
        Ok(draft.finish())
    }

    /// Decides a batch and replays the transition: the whole cost of a report in the core.
    pub fn commit(&mut self, batch: &[Request]) -> anyhow::Result<()> {
        let transition = self.decide(batch)?;
        self.state.replay(&transition);
        Ok(())
    }

    /// Decides the expiry of statuses whose ttl has passed, as many as one commit takes.
    pub fn decide_expired(&self) -> Transition {
        let mut draft = Draft::new(&self.state, &self.limits, self.now.after(2 * TTL));
        expire(&mut draft);
        draft.finish()
    }
}

fn request(status: u64, turn: u64) -> anyhow::Result<Request> {
    let reporter =
        Reporter::new(UnitName::new(&format!("web/{}", status / STATUSES_PER_UNIT))?, None);
    let report = Report {
        level: if turn.is_multiple_of(2) { Level::Active } else { Level::Waiting },
        message: format!("serving, turn {turn:06} of {status:07}").into(),
        ttl: Some(TTL),
        ..Report::default()
    };
    let key = PartName::new(&format!("key-{:02}", status % STATUSES_PER_UNIT))?;
    let new = NewStatus {
        component: PartName::default(),
        key,
        report: Arc::new(report),
        observe_time: None,
    };
    Ok(Request { id: None, command: Command::Report(reporter, Kind::Push, new) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwether::domain::transition::Write;

    #[test]
    fn each_request_changes_another_status() {
        let mut fixture = Fixture::of(1000).unwrap();
        assert_eq!(fixture.state().status_count(), 1000);
        for first in [0, 1000, 2000] {
            let batch = fixture.requests(first, 1000).unwrap();
            let transition = fixture.decide(&batch).unwrap();
            let is_status = |write: &&Write| matches!(write, Write::Status(..));
            assert_eq!(transition.writes.iter().filter(is_status).count(), 1000, "from {first}");
            assert!(1000 <= transition.events.len(), "each level changes, from {first}");
            fixture.commit(&batch).unwrap();
        }
        assert_eq!(fixture.state().status_count(), 1000);
    }

    #[test]
    fn every_record_expires() {
        let fixture = Fixture::of(100).unwrap();
        let transition = fixture.decide_expired();
        assert!(100 <= transition.writes.len(), "{}", transition.writes.len());
    }
}
