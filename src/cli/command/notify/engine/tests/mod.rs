//! The engine with a clock, a store and receivers that the test holds.

mod marks;
mod roots;
mod rules;
mod simulation;

use std::collections::BTreeMap;
use std::time::Duration;

use super::fact::JUJU;
use super::pair::{Ending, Kind, Told};
use super::room::{PAIRS_MAX, RecordName};
use super::route::{DeliveryWay, Levels, Route};
use super::*;
use crate::proto::v1::StatusRef;

/// Returns a route about all applications at `waiting` and worse, with the defaults.
pub(super) fn mk_route(name: &str) -> Route {
    Route {
        name: name.to_string(),
        to: format!("to-{name}"),
        namespaces: Vec::new(),
        applications: Vec::new(),
        levels: Levels::AtLeast(Level::Waiting),
        stable_for: Duration::from_secs(60),
        recover_after: Duration::from_secs(60),
        sends_marked: false,
        each: false,
        is_gone: false,
        delivery: DeliveryWay { at_once_max: 16, repeat_every: None },
    }
}

use crate::proto::v1::Level;

/// Returns a state of an application of the namespace `prod`.
pub(super) fn mk_fact(application: &str, revision: u64, level: Level) -> Fact {
    let ill = !matches!(level, Level::Active | Level::Terminated);
    let unit = if ill { format!("{application}/0") } else { String::new() };
    Fact {
        subject: AppRef::new("prod", application),
        revision,
        level,
        order: JUJU.into(),
        // Later than any clock of a test: the level begins when it is seen.
        since: Timestamp::new(u64::MAX - 1),
        message: "no disk".to_string(),
        reason: "DiskFull".to_string(),
        action: String::new(),
        rule: String::new(),
        winner: StatusRef { unit, ..StatusRef::default() },
        silent: false,
        planned: false,
        acknowledged: false,
        acknowledgement_expired: false,
        needs: Vec::new(),
    }
}

/// A message that a receiver got.
#[derive(Debug, Clone)]
struct Got {
    at: u64,
    route: String,
    application: String,
    kind: Kind,
    opened: Timestamp,
    revision: u64,
    frees: usize,
}

/// An engine, with what is around it.
struct World {
    routes: Vec<Route>,
    engine: Engine,
    /// Seconds.
    now: u64,
    stored: BTreeMap<RecordName, Told>,
    got: Vec<Got>,
    /// Routes whose receiver answers with an error.
    failing: Vec<usize>,
}

impl World {
    fn new(routes: Vec<Route>) -> World {
        World::with_room(routes, PAIRS_MAX)
    }

    fn with_room(routes: Vec<Route>, pairs_max: usize) -> World {
        let engine = Engine::new(routes.clone(), Vec::new(), pairs_max, Timestamp::new(0));
        let (stored, got) = (BTreeMap::new(), Vec::new());
        let mut world = World { routes, engine, now: 0, stored, got, failing: Vec::new() };
        world.engine.sees(world.time());
        world
    }

    fn time(&self) -> Timestamp {
        Timestamp::new(self.now * 1000)
    }

    /// Takes a state now.
    fn take(&mut self, fact: Fact) {
        self.engine.take(fact, self.time());
        self.work();
    }

    /// Does all that is due now.
    fn work(&mut self) {
        loop {
            let Orders { store, send } = self.engine.turn(self.time());
            if store.is_empty() && send.is_empty() {
                return;
            }
            for (name, told) in store {
                match told {
                    Some(told) => drop(self.stored.insert(name, told)),
                    None => drop(self.stored.remove(&name)),
                }
            }
            for delivery in send {
                let fails = self.failing.contains(&delivery.route);
                if !fails {
                    self.got.push(Got::of(&delivery, self.engine.route(delivery.route), self.now));
                }
                let outcome = if fails { Outcome::Failed } else { Outcome::Delivered };
                self.engine.ended(&delivery, outcome, self.time());
            }
        }
    }

    /// Lets the time pass up to a second, with all that is due before.
    fn pass(&mut self, until: u64) {
        while let Some(at) = self.engine.wakes_at()
            && at <= Timestamp::new(until * 1000)
        {
            self.now = self.now.max(at.millis().div_ceil(1000));
            self.work();
        }
        self.now = until;
        self.work();
    }

    /// Ends the process, and starts one with other routes and what is stored.
    fn restart(&mut self, routes: Vec<Route>, facts: &[Fact]) {
        let records = self.stored.iter().map(|(name, told)| (name.clone(), told.clone())).collect();
        self.engine = Engine::new(routes.clone(), records, PAIRS_MAX, self.time());
        self.routes = routes;
        for fact in facts {
            self.engine.take(fact.clone(), self.time());
        }
        self.engine.sees(self.time());
        self.work();
    }

    /// Returns what the receivers got, a word each: `60 web problem`.
    fn told(&self) -> String {
        let words = self
            .got
            .iter()
            .filter(|got| got.kind != Kind::Repeat)
            .map(|got| format!("{} {} {}", got.at, got.application, got.kind.word()));
        words.collect::<Vec<_>>().join(", ")
    }
}

impl Got {
    fn of(delivery: &Delivery, route: &Route, now: u64) -> Got {
        Got {
            at: now,
            route: route.name.clone(),
            application: delivery.subject.application.to_string(),
            kind: delivery.kind,
            opened: delivery.told.opened,
            revision: delivery.fact.as_ref().map_or(delivery.told.revision, |fact| fact.revision),
            frees: delivery.frees.len(),
        }
    }
}
