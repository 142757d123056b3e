//! Faults against a naive model that stores every error and recomputes from all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::classify::finding::{Class, ErrorOrigin, Evidence, Hints};
use bellwether::domain::classify::{Rules, classify};
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::fault::{FaultKey, NewError, Resolution};
use bellwether::domain::history::{Cause, StatusEvent};
use bellwether::domain::level::Level;
use bellwether::domain::limits::{FaultSettings, Limits, REMOVED_FOR};
use bellwether::domain::name::{PartName, UnitName};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::Outcome;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::presence::{ReplicaId, SessionId};
use bellwether::domain::unit::{Newcomer, Reporter};
use proptest::prelude::*;

use crate::case::rule_for_all;
use crate::world::{Stored, app_name, ranked};

const UNITS: [&str; 2] = ["web/0", "web/1"];
const COMPONENTS: [&str; 2] = ["", "db"];
const TARGETS: [&str; 2] = ["a", "https://b.example:8443/x"];

#[derive(Debug, Clone)]
enum Step {
    Error { unit: usize, component: usize, target: usize, class: Class, pushback: Option<u16> },
    Resolve { unit: usize, component: usize, target: Option<usize> },
    LetGo { unit: usize, component: usize, resolution: Resolution },
    Connect { unit: usize },
    Disconnect { unit: usize },
    Report { unit: usize, level: Level },
    Remove { unit: usize },
    Wait { millis: u64 },
    Reload,
}

fn mk_step() -> impl Strategy<Value = Step> {
    let class = || proptest::sample::select(&Class::ALL);
    let level = proptest::sample::select(&Level::ALL);
    let resolution = prop_oneof![Just(Resolution::Retry), Just(Resolution::Skip)];
    let often = prop_oneof![4 => Just(Class::Transient), 3 => class()];
    let pushback = proptest::option::weighted(0.2, any::<u16>());
    let waits = prop_oneof![0..2_000u64, 0..40_000u64, 0..700_000u64];
    let target = || proptest::option::of(0..2usize);
    prop_oneof![
        12 => (0..2usize, 0..2usize, 0..2usize, often, pushback).prop_map(
            |(unit, component, target, class, pushback)| Step::Error {
                unit, component, target, class, pushback
            }
        ),
        3 => (0..2usize, 0..2usize, target())
            .prop_map(|(unit, component, target)| Step::Resolve { unit, component, target }),
        2 => (0..2usize, 0..2usize, resolution)
            .prop_map(|(unit, component, resolution)| Step::LetGo { unit, component, resolution }),
        2 => (0..2usize).prop_map(|unit| Step::Connect { unit }),
        1 => (0..2usize).prop_map(|unit| Step::Disconnect { unit }),
        3 => (0..2usize, level).prop_map(|(unit, level)| Step::Report { unit, level }),
        1 => (0..2usize).prop_map(|unit| Step::Remove { unit }),
        8 => waits.prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Reload),
    ]
}

/// The model of a fault: all its errors, and when an operator released it.
#[derive(Debug, Clone, Default)]
struct Met {
    errors: Vec<(u64, Class)>,
    /// Number of errors of a weaker class than the one that held the component.
    outlasted: u32,
    /// Number of errors before the release.
    fresh: usize,
    let_go: Option<u64>,
    incarnation: u64,
    held: bool,
}

impl Met {
    fn class(&self) -> Class {
        self.errors.last().unwrap().1
    }

    fn attempts(&self) -> usize {
        self.errors[self.fresh..].iter().filter(|(_, class)| counts(*class)).count()
    }

    /// Returns whether the level is one that the documented rules allow.
    fn allows(&self, level: Option<Level>, settings: &FaultSettings, now: u64) -> bool {
        let series = self.errors.iter().rev().take_while(|(_, class)| lasts(*class));
        let began = series.last().map_or(now, |(at, _)| *at).max(self.let_go.unwrap_or_default());
        let age = Duration::from_millis(now - began);
        if !ages(self.class()) {
            return level == self.level(settings, age);
        }
        // A peer may name a time for each stage, of at most `u16::MAX` milliseconds.
        let named = Duration::from_millis(u16::MAX.into());
        let attempts = self.attempts() as u32;
        match level {
            None => age < settings.soft_after + named,
            Some(Level::Waiting) => {
                let is_late = settings.hard_after + 2 * named <= age;
                !is_late && (settings.soft_after <= age || settings.soft_count <= attempts)
            }
            Some(Level::Error) => settings.hard_after <= age || settings.hard_count <= attempts,
            Some(_) => false,
        }
    }

    /// Returns the level by the documented rules, for a class that does not only age.
    fn level(&self, settings: &FaultSettings, age: Duration) -> Option<Level> {
        match self.class() {
            Class::Interrupted => return Some(Level::Maintenance),
            Class::Dependency => return Some(Level::Waiting),
            Class::Blocked => return Some(Level::Blocked),
            Class::Gone | Class::Fatal => return Some(Level::Error),
            Class::Throttled | Class::Conflict | Class::Transient | Class::Unclassified => {}
        }
        let attempts = self.attempts() as u32;
        if settings.hard_count <= attempts || settings.hard_after <= age {
            return Some(Level::Error);
        }
        let waits = settings.soft_count <= attempts || settings.soft_after <= age;
        waits.then_some(Level::Waiting)
    }
}

/// Returns the weight of a class: an error of a lower weight does not replace a hold.
fn weight(class: Class) -> u8 {
    match class {
        Class::Gone | Class::Fatal => 2,
        Class::Blocked => 1,
        _ => 0,
    }
}

fn counts(class: Class) -> bool {
    class == Class::Transient || class == Class::Unclassified
}

/// Whether errors of the class show by time alone.
fn ages(class: Class) -> bool {
    class == Class::Throttled || class == Class::Conflict
}

/// Whether errors of the class continue a series without a success.
fn lasts(class: Class) -> bool {
    counts(class) || ages(class)
}

struct Run {
    limits: Limits,
    now: u64,
    state: AppState,
    replica: AppState,
    store: Stored,
    met: BTreeMap<FaultKey, Met>,
    sessions: u64,
    /// The events of the last commit.
    events: Vec<StatusEvent>,
}

impl Run {
    fn new() -> Run {
        // The model has no errors that alternate with successes: `relapses` has them.
        let settings = FaultSettings {
            retries_per_second_max: 2,
            intermittent_count: 0,
            ..FaultSettings::default()
        };
        let state = AppState::empty(app_name(), Revision(0));
        Run {
            limits: Limits { faults: settings, ..Limits::default() },
            now: 1_000_000,
            replica: state.clone(),
            state,
            store: Stored::default(),
            met: BTreeMap::new(),
            sessions: 0,
            events: Vec::new(),
        }
    }

    fn commit(&mut self, command: Option<Command>) -> Option<Result<Outcome, Rejected>> {
        let before = self.levels();
        let mut draft = Draft::new(&self.state, &self.limits, Timestamp::new(self.now));
        expire(&mut draft);
        let outcome = command.map(|command| apply(&mut draft, &Request { id: None, command }));
        let transition = draft.finish();
        self.events = transition.events.clone();
        self.state.replay(&transition);
        self.replica.replay(&transition);
        if transition.is_durable() {
            self.store.commit(&transition);
        }
        for (key, (level, since)) in self.levels() {
            if let Some((_, before)) = before.get(&key).filter(|(old, _)| *old == level) {
                assert_eq!(since, *before, "a level began anew without moving: {key:?}");
            }
        }
        outcome
    }

    fn levels(&self) -> BTreeMap<FaultKey, (Option<Level>, Timestamp)> {
        let faults = self.state.faults().iter();
        faults.map(|(key, fault)| ((**key).clone(), (fault.level(), fault.since))).collect()
    }

    fn unit(unit: usize) -> UnitName {
        UnitName::new(UNITS[unit]).unwrap()
    }

    fn current(&self, unit: usize) -> u64 {
        self.state.unit(&Run::unit(unit)).map_or(0, |unit| unit.incarnation)
    }

    fn error(&mut self, key: FaultKey, class: Class, pushback: Option<u16>) {
        let reporter = Reporter::new(key.unit.clone(), None);
        let command = Command::ReportError {
            reporter,
            component: key.component.clone(),
            target: key.target.clone(),
            error: Box::new(mk_error(class, pushback)),
        };
        let old = self.state.faults().get(&key).cloned();
        let before = old.as_ref().map_or(0, |fault| fault.count);
        self.commit(Some(command)).unwrap().unwrap();
        let incarnation = self.state.unit(&key.unit).unwrap().incarnation;
        let fault = self.state.faults().get(&key).unwrap();
        assert_eq!(fault.count, before + 1);
        let held = self.met.get_mut(&key).filter(|met| met.held);
        if let Some(met) = held.filter(|met| weight(class) < weight(met.class())) {
            met.outlasted += 1;
            return;
        }
        let reported = self.events.iter().filter(|e| e.cause == Cause::ErrorReported);
        if old.is_some_and(|old| old.class() == class && old.level() == fault.level()) {
            assert_eq!(reported.count(), 0, "a retry makes no history");
        }
        let wait = fault.retry_after();
        assert_eq!(wait.is_none(), class.holds());
        if let (Some(wait), Some(asked)) = (wait, pushback)
            && class != Class::Interrupted
        {
            assert!(Duration::from_millis(asked.into()) <= wait, "the peer's word was broken");
        }
        let met = self.met.entry(key).or_default();
        met.errors.push((self.now, class));
        (met.incarnation, met.held) = (incarnation, class.holds());
    }

    fn step(&mut self, step: &Step) {
        let part = |component: &usize| PartName::new(COMPONENTS[*component]).unwrap();
        match step {
            Step::Error { unit, component, target, class, pushback } => {
                let key = FaultKey {
                    unit: Run::unit(*unit),
                    component: part(component),
                    target: TARGETS[*target].into(),
                };
                self.error(key, *class, *pushback);
            }
            Step::Resolve { unit, component, target } => {
                self.resolve(*unit, part(component), target.map(|target| TARGETS[target].into()));
            }
            Step::LetGo { unit, component, resolution } => {
                self.let_go(Run::unit(*unit), part(component), *resolution);
            }
            Step::Connect { unit } => {
                self.sessions += 1;
                let session = SessionId { replica: ReplicaId(1), number: self.sessions };
                let who = Newcomer {
                    unit: Run::unit(*unit),
                    incarnation: None,
                    stateless: false,
                    labels: BTreeMap::new(),
                };
                self.commit(Some(Command::Connect(who, session)));
            }
            Step::Disconnect { unit } => {
                let name = Run::unit(*unit);
                let held = self.state.unit(&name).and_then(|unit| unit.session());
                if let Some(session) = held {
                    let ttl = Duration::from_secs(3600);
                    let command = Command::Disconnect { unit: name, session, ttl, silent: false };
                    self.commit(Some(command));
                }
            }
            Step::Report { unit, level } => {
                let status = NewStatus {
                    component: part(&1),
                    key: PartName::default(),
                    report: Arc::new(Report { level: *level, ..Report::default() }),
                    observe_time: None,
                };
                let reporter = Reporter::new(Run::unit(*unit), None);
                self.commit(Some(Command::Report(reporter, Kind::Push, status)));
            }
            Step::Remove { unit } => {
                let unit = Run::unit(*unit);
                self.met.retain(|key, _| key.unit != unit);
                self.commit(Some(Command::RemoveUnit(unit)));
                // Until then the unit's reports are refused, for they name no incarnation.
                self.wait(REMOVED_FOR.as_millis() as u64);
            }
            Step::Wait { millis } => self.wait(*millis),
            Step::Reload => {
                self.state = self.store.load();
                self.replica = self.state.clone();
            }
        }
    }

    fn resolve(&mut self, unit: usize, component: PartName, target: Option<Arc<str>>) {
        let (name, current) = (Run::unit(unit), self.current(unit));
        let is_over = |key: &FaultKey, met: &Met| {
            let is_meant = target.as_ref().is_none_or(|target| key.target == *target);
            let halted = met.held && met.class() != Class::Blocked;
            key.unit == name
                && key.component == component
                && is_meant
                && (!halted || met.incarnation < current)
        };
        self.met.retain(|key, met| !is_over(key, met));
        let (reporter, generation) = (Reporter::new(name.clone(), None), "".into());
        let component = Some(component.clone());
        let target = target.clone();
        self.commit(Some(Command::ResolveError { reporter, component, target, generation }));
    }

    fn let_go(&mut self, unit: UnitName, component: PartName, resolution: Resolution) {
        let now = self.now;
        let is_meant = |key: &FaultKey| key.unit == unit && key.component == component;
        if resolution == Resolution::Skip {
            self.met.retain(|key, _| !is_meant(key));
        }
        for (_, met) in self.met.iter_mut().filter(|(key, _)| is_meant(key)) {
            (met.fresh, met.let_go) = (met.errors.len(), Some(now));
            met.held = false;
        }
        let why = "by hand".into();
        self.commit(Some(Command::ResolveHold { unit, component, resolution, why }));
    }

    /// Advances time like the sweep: handles each deadline when it is due.
    fn wait(&mut self, millis: u64) {
        let end = self.now + millis;
        for round in 0.. {
            assert!(round < 5_000, "time alone never comes to an end");
            let due = self.state.next_due().filter(|due| due.millis() <= end);
            let Some(due) = due else {
                break;
            };
            self.now = self.now.max(due.millis());
            self.commit(None);
        }
        self.now = end;
    }

    fn check(&self) {
        assert!(ranked(&self.state) == ranked(&self.replica));
        let scratch: Vec<_> = self.state.contributions_from_scratch().into_iter().collect();
        assert!(ranked(&self.state) == scratch, "the index is not what the records say");
        let loaded = self.store.load();
        assert_eq!(loaded.faults(), self.state.faults());
        let kept: Vec<&FaultKey> = self.state.faults().iter().map(|(key, _)| &**key).collect();
        assert_eq!(kept, self.met.keys().collect::<Vec<_>>());
        let mut tries: BTreeMap<u64, usize> = BTreeMap::new();
        for (key, fault) in self.state.faults().iter() {
            let met = &self.met[&**key];
            let is_allowed = met.allows(fault.level(), &self.limits.faults, self.now);
            assert!(is_allowed, "{key:?} {met:?} {:?} at {}", fault.level(), self.now);
            assert_eq!(fault.attempts as usize, met.attempts(), "{key:?} {met:?}");
            assert_eq!(fault.count as usize, met.errors.len() + met.outlasted as usize);
            assert_eq!(fault.held_since.is_some(), met.held, "{key:?}");
            let is_spread = fault.class() != Class::Interrupted && fault.attempts_left < 10;
            if let (Some(at), true) = (fault.next_try(), is_spread)
                && self.now < at.millis()
            {
                *tries.entry(at.millis() / 1000).or_default() += 1;
            }
        }
        assert!(tries.values().all(|count| *count <= 2), "too many tries at once: {tries:?}");
        let due = self.state.next_due();
        let looks = self.state.head().next_due;
        assert!(due.is_none() || looks.is_some() && looks <= due, "{due:?} is not looked at");
        let totals = &self.state.head().summary.totals;
        let shown = ranked(&self.state).iter().filter(|rank| rank.fault.is_some()).count();
        assert_eq!(totals.faults as usize, shown);
        assert_eq!(self.state.head().open_faults.count as usize, self.met.len());
        let next = self.state.faults().iter().filter_map(|(_, fault)| fault.next_try()).min();
        assert_eq!(self.state.head().open_faults.next_retry, next);
        let strongest = self.state.ranked().next().map_or(Level::Unknown, |rank| rank.level);
        assert_eq!(self.state.head().summary.level, strongest);
        for (_, unit) in self.state.units_after(None) {
            let topics = unit.callbacks.keys();
            let open = self.met.keys().map(|key| (&key.component, &*key.target));
            let open: Vec<_> = open.collect();
            let is_open =
                |t: &bellwether::domain::unit::Topic| open.contains(&(&t.component, &*t.target));
            assert!(topics.into_iter().all(is_open), "asked about what is over");
        }
    }
}

/// Returns an error of this class.
pub fn mk_error(class: Class, pushback: Option<u16>) -> NewError {
    let evidence = Evidence {
        system: "grpc".into(),
        code: "NOT_FOUND".into(),
        origin: ErrorOrigin::Peer,
        outcome: None,
        domain: "".into(),
        reason: "".into(),
        message: format!("it said {}", pushback.unwrap_or(7)).into(),
        retry_after: pushback.map(|millis| Duration::from_millis(millis.into())),
        hints: Hints::default(),
    };
    let rule = rule_for_all("as-asked", class);
    let pair = bellwether::domain::classify::own::GonePair { domain: "".into(), reason: "".into() };
    let rules = Rules { own: vec![rule], gone: std::iter::once(pair).collect() };
    NewError {
        needs: Default::default(),
        shortest_wait: None,
        finding: classify(&rules, &evidence),
        evidence,
        internal_detail: Default::default(),
        action: "".into(),
        operation_id: "".into(),
        attempt: 0,
        generation: "".into(),
    }
}

proptest! {
    #[test]
    fn faults_agree_with_the_model(steps in prop::collection::vec(mk_step(), 1..60)) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
            run.wait(0);
            run.check();
        }
    }
}
