//! The core, a second replica, a store and the model, side by side; after each step they agree.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether::domain::app::{AppState, Head};
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::data_loss::mark_uncertain;
use bellwether::domain::delete::delete;
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::fault::{Fault, FaultKey};
use bellwether::domain::limits::Limits;
use bellwether::domain::mark::{Mark, MarkId};
use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::replay::Records;
use bellwether::domain::request::{Outcome, Remembered, RequestId};
use bellwether::domain::revision::Revision;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::report::Report;
use bellwether::domain::status::{Status, StatusKey};
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::presence::Presence;
use bellwether::domain::unit::refused::IdentityError;
use bellwether::domain::unit::{Reporter, Unit};

use crate::changes::millis;
use crate::commands::Step;
use crate::model::{self, Model};

pub struct World {
    pub now: u64,
    pub limits: Limits,
    pub state: AppState,
    replica: AppState,
    pub store: Stored,
    pub model: Model,
    /// Since a restart, deadlines are later than the stored ones.
    pub restarted: bool,
}

/// A store that applies the transitions.
#[derive(Debug, Default)]
pub struct Stored {
    head: Option<Head>,
    units: BTreeMap<UnitName, Unit>,
    pub statuses: BTreeMap<Arc<StatusKey>, Arc<Status>>,
    faults: BTreeMap<Arc<FaultKey>, Arc<Fault>>,
    requests: BTreeMap<Arc<str>, Remembered>,
    marks: BTreeMap<MarkId, Arc<Mark>>,
}

impl Stored {
    pub fn commit(&mut self, transition: &Transition) {
        if transition.is_deletion() {
            *self = Stored::default();
        }
        self.head = Some((*transition.head).clone());
        for write in transition.writes.iter().cloned() {
            match write {
                Write::Unit(name, unit) => {
                    // What a replica allows for is not stored.
                    let unit = unit.map(|unit| Unit { not_before: None, ..*unit });
                    put(&mut self.units, name, unit);
                }
                Write::Status(key, status) => put(&mut self.statuses, key, status),
                Write::Fault(key, fault) => put(&mut self.faults, key, fault),
                Write::Request(id, answer) => {
                    put(&mut self.requests, id, answer.map(|answer| *answer))
                }
                // Operations have their own properties.
                Write::Operation(..) | Write::Payload(..) => {}
                Write::Mark(id, mark) => put(&mut self.marks, id, mark),
                // The generated commands do not change the data.
                Write::Data(key, _) => panic!("{key}"),
            }
        }
    }

    pub fn load(&self) -> AppState {
        self.load_as(app_name())
    }

    /// Returns the state of an application of this name.
    pub fn load_as(&self, name: AppName) -> AppState {
        let Some(head) = self.head.clone() else {
            return AppState::empty(name, Revision(0));
        };
        let statuses = self.statuses.iter();
        let faults = self.faults.iter();
        let records = Records {
            units: self.units.clone().into_iter().collect(),
            statuses: statuses.map(|(k, s)| ((**k).clone(), (**s).clone())).collect(),
            faults: faults.map(|(k, f)| ((**k).clone(), (**f).clone())).collect(),
            requests: self.requests.clone().into_iter().collect(),
            marks: self.marks.clone().into_iter().collect(),
            ..Records::of_head(head)
        };
        AppState::load(name, records)
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

pub fn app_name() -> AppName {
    AppName::new("", "web").unwrap()
}

/// Returns limits so small that the tests reach them.
pub fn tight_limits() -> Limits {
    Limits {
        units_max: 3,
        statuses_per_unit_max: 6,
        keys_per_component_max: 3,
        ..Limits::default()
    }
}

impl World {
    pub fn new() -> World {
        let state = AppState::empty(app_name(), Revision(0));
        World {
            now: 1000,
            limits: tight_limits(),
            replica: state.clone(),
            state,
            store: Stored::default(),
            model: Model::default(),
            restarted: false,
        }
    }

    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Pass(time) => self.now += time,
            Step::Commit(expires, requests) => self.commit(*expires, requests),
            Step::Again(pick, report) => self.say_again(*pick, report.clone()),
            Step::Expire => self.expire(),
            Step::Lose(unit) => self.lose(unit),
            Step::Doubt(losses, requests) => self.mark_uncertain(*losses, requests),
            Step::Delete(id) => self.delete(id.as_ref()),
            Step::Restart => self.restart(),
        }
    }

    fn commit(&mut self, expires: bool, requests: &[Request]) {
        let now = self.now;
        let before = self.state.clone();
        let mut changed = expires && self.model.expire(now, &self.limits);
        let (transition, results) = decide(&before, &self.limits, now, expires, requests);
        for (request, result) in requests.iter().zip(&results) {
            let expected = self.model.apply(request, now, &mut changed, &self.limits);
            assert_eq!(told(result), expected, "{request:?}");
        }
        let accepted = requests.iter().zip(&results).filter(|(_, r)| r.is_ok());
        let accepted: Vec<Request> = accepted.map(|(request, _)| request.clone()).collect();
        let (without, _) = decide(&before, &self.limits, now, expires, &accepted);
        assert_eq!(transition, without, "a rejected command leaves no trace");
        self.replay_of(&transition, changed, accepted.len());
        self.compare_one_by_one(before, expires, &accepted);
    }

    fn say_again(&mut self, pick: usize, other: Option<Report>) {
        let count = self.model.statuses.len();
        let status = self.model.statuses.get(pick % count.max(1));
        let Some(status) = status.filter(|status| !status.unit.is_empty()) else {
            return;
        };
        let unit = UnitName::new(&status.unit).unwrap();
        let reporter = Reporter::new(unit, Some(status.incarnation));
        let new = NewStatus {
            component: PartName::new(&status.component).unwrap(),
            key: PartName::new(&status.key).unwrap(),
            report: Arc::new(status.report.clone()),
            observe_time: None,
        };
        let kind = status.kind;
        let again = std::iter::repeat_n(status.report.clone(), 1 + pick % 7);
        let reports = again.chain(other);
        let requests = reports.map(|report| {
            let new = NewStatus { report: Arc::new(report), ..new.clone() };
            Request { id: None, command: Command::Report(reporter.clone(), kind, new) }
        });
        self.commit(false, &requests.collect::<Vec<_>>());
    }

    /// Applies the same commands, each in a separate commit: the revisions differ, and the history
    /// is complete.
    fn compare_one_by_one(&self, mut state: AppState, expires: bool, requests: &[Request]) {
        let mut commit = |expires: bool, requests: &[Request]| {
            let (transition, _) = decide(&state, &self.limits, self.now, expires, requests);
            let earlier = state.clone();
            state.replay(&transition);
            crate::shown::check(&earlier, &state, &transition);
        };
        commit(expires, &[]);
        for request in requests {
            commit(false, std::slice::from_ref(request));
        }
        // A batch writes the last contact of units that it writes anyway; a single command often
        // does not. The revisions of sessions differ as all revisions do.
        let units = |s: &AppState| {
            let mut units = Vec::from_iter(s.units_after(None).map(own_pair));
            for (_, unit) in &mut units {
                (unit.last_seen_written, unit.session_since) = (Timestamp::new(0), Revision(0));
            }
            units
        };
        assert_eq!(units(&state), units(&self.state));
        let first = StatusKey::first_of(&UnitName::application());
        let statuses = |s: &AppState| Vec::from_iter(s.statuses().from(&first).map(own_pair));
        assert_eq!(statuses(&state), statuses(&self.state));
        let (one, all) = (state.head(), self.state.head());
        assert_eq!(one.config, all.config);
        assert_eq!(one.application_status, all.application_status);
        assert_eq!(one.deleted, all.deleted);
        let shown = |s: &AppState| {
            let mut summary = (*s.head().summary).clone();
            summary.since = Timestamp::new(0);
            summary
        };
        assert_eq!(shown(&state), shown(&self.state));
        assert!(ranked(&state) == ranked(&self.state));
    }

    /// Applies the changes by time until nothing is due, in a bounded number of rounds.
    fn expire(&mut self) {
        for round in 0.. {
            assert!(round < 3, "time alone never comes to an end");
            let changed = self.model.expire(self.now, &self.limits);
            let (transition, _) = decide(&self.state, &self.limits, self.now, true, &[]);
            self.replay(&transition, changed);
            let due = self.state.next_due();
            if due.is_none_or(|at| self.now < at.millis()) {
                return;
            }
        }
    }

    fn lose(&mut self, unit: &UnitName) {
        let changed = self.model.lose(unit.as_str(), self.now);
        let mut draft = Draft::new(&self.state, &self.limits, Timestamp::new(self.now));
        lose_unit(&mut draft, unit);
        let transition = draft.finish();
        self.replay(&transition, changed);
    }

    fn mark_uncertain(&mut self, losses: u32, requests: &[Request]) {
        let now = self.now;
        let mut changed = self.model.mark_uncertain(losses, now);
        let mut draft = Draft::new(&self.state, &self.limits, Timestamp::new(now));
        mark_uncertain(&mut draft, losses);
        for request in requests {
            let expected = self.model.apply(request, now, &mut changed, &self.limits);
            assert_eq!(told(&apply(&mut draft, request)), expected, "{request:?}");
        }
        let transition = draft.finish();
        // Without units at the loss, none become uncertain for it later.
        self.model.losses = self.model.losses.max(if changed { losses } else { 0 });
        self.replay(&transition, changed);
    }

    fn delete(&mut self, id: Option<&RequestId>) {
        let expected = self.model.delete(id.map(|id| &*id.id), self.now);
        let revision = self.state.head().revision;
        match delete(&self.state, id, Timestamp::new(self.now)) {
            Ok((transition, outcome)) => {
                assert_eq!(told(&Ok(outcome)), expected);
                if let Some(transition) = transition {
                    // The model has counted it already.
                    self.model.revision = revision.0;
                    self.replay(&transition, true);
                }
            }
            Err(rejected) => assert_eq!(told(&Err(rejected.into())), expected),
        }
    }

    /// Reloads the state. Allows for repeats that another replica may have received before.
    fn restart(&mut self) {
        let patience = self.patience();
        self.state = self.store.load();
        self.state.allow_for_repeats();
        for status in &mut self.model.statuses {
            let kept = self.store.statuses.iter();
            let mut kept = kept.filter(|(key, _)| crate::properties::same_key(key, status));
            let kept = kept.next().unwrap().1;
            status.ends = kept.expire_time.map(|at| at.millis());
            status.results = crate::properties::results(kept);
            let held = status.held.as_mut().and_then(|held| held.flapping.as_mut());
            if let (Some(flapping), Some(kept)) = (held, kept.flapping()) {
                flapping.calm = kept.calm_time.millis();
            }
            // Each repeat of a status that ends is written.
            let last = kept.latest().unwrap_or(&kept.report);
            let unwritten = kept.ttl().filter(|_| last.details().end_after.is_none());
            if let (Some(ends), Some(ttl), false) = (status.ends, unwritten, status.stale) {
                status.ends = Some(ends + millis(ttl / 3));
            }
        }
        for unit in &mut self.model.units {
            let kept = &self.store.units[&UnitName::new(&unit.name).unwrap()];
            unit.silence_ends = kept.silence_ends.map(|at| at.millis());
            unit.last_seen = kept.last_seen.millis();
            unit.last_answer = kept.last_answer.millis();
            unit.not_before = 0;
            if let Presence::Promised(ttl) = unit.presence {
                unit.not_before = kept.last_seen.millis() + millis(ttl) + millis(ttl / 3);
            }
        }
        if !self.restarted {
            let later = self.patience();
            assert!(patience.iter().zip(&later).all(|(before, after)| before <= after));
        }
        self.replica = self.state.clone();
        self.restarted = true;
    }

    /// Returns when each status becomes stale and each promise breaks, if they do.
    fn patience(&self) -> Vec<Option<u64>> {
        let statuses = self.model.statuses.iter().map(|s| s.ends);
        statuses.chain(self.model.units.iter().map(|u| u.promise_ends())).collect()
    }

    fn replay(&mut self, transition: &Transition, changed: bool) {
        self.replay_of(transition, changed, 1);
    }

    /// Takes over a transition of so many commands.
    fn replay_of(&mut self, transition: &Transition, changed: bool, commands: usize) {
        let before = self.state.head().clone();
        let head = &transition.head;
        assert_eq!(transition.base, before.revision);
        assert_eq!(head.revision.0, before.revision.0 + u64::from(changed));
        assert_eq!(head.next_event, before.next_event + transition.events.len() as u64);
        assert!(changed || transition.events.is_empty(), "an event of nothing");
        for event in &transition.events {
            assert_eq!(event.revision, head.revision);
            assert_eq!(event.time.millis(), self.now);
        }
        self.model.revision += u64::from(changed);
        let earlier = self.state.clone();
        self.state.replay(transition);
        // Of several commands in one commit, one may undo another.
        if commands < 2 {
            crate::shown::check(&earlier, &self.state, transition);
        }
        self.replica.replay(transition);
        assert_eq!(self.state, self.replica);
        let kept = self.state.head().counts.unwrap_or_default();
        assert_eq!(kept, self.state.recount(), "what is counted is what is there");
        if transition.is_durable() {
            self.store.commit(transition);
        }
        crate::properties::check_since(&before, self);
        crate::properties::check(self);
        crate::needs::check(&self.state);
    }
}

fn decide(
    state: &AppState,
    limits: &Limits,
    now: u64,
    expires: bool,
    requests: &[Request],
) -> (Transition, Vec<Result<Outcome, Rejected>>) {
    let mut draft = Draft::new(state, limits, Timestamp::new(now));
    if expires {
        expire(&mut draft);
    }
    let results = requests.iter().map(|request| apply(&mut draft, request));
    let results = results.collect();
    (draft.finish(), results)
}

/// Returns a result in the terms of the model.
fn told(result: &Result<Outcome, Rejected>) -> Result<model::Outcome, &'static str> {
    match result {
        Ok(outcome) => Ok(model::Outcome {
            revision: outcome.revision.0,
            changed: outcome.changed,
            removed: outcome.removed,
            incarnation: outcome.incarnation,
        }),
        Err(Rejected::ApplicationNotFound(_)) => Err("no application"),
        Err(Rejected::UnitNotFound(_)) => Err("no unit"),
        Err(Rejected::Identity(IdentityError::StaleIncarnation { .. })) => Err("stale incarnation"),
        Err(Rejected::Identity(IdentityError::UnitRemoved { .. })) => Err("removed"),
        Err(Rejected::Identity(IdentityError::JustRemoved { .. })) => Err("just removed"),
        Err(Rejected::Identity(IdentityError::SessionOver { .. })) => Err("session over"),
        Err(Rejected::LimitExceeded(_)) => Err("limit"),
        Err(Rejected::NotLeader(_)) => Err("does not lead"),
        Err(Rejected::Operation(_)) => Err("operation"),
        Err(other) => panic!("{other}: no command here is about it"),
    }
}

fn own_pair<K: Clone, V: Clone>((key, value): (&K, &V)) -> (K, V) {
    (key.clone(), value.clone())
}

pub fn ranked(state: &AppState) -> Vec<bellwether::domain::rank::Rank> {
    state.ranked().cloned().collect()
}
