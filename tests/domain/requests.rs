//! Request ids: which requests an answer matches, and how long it is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::delete::delete;
use bellwether::domain::draft::Draft;
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{PartName, UnitName};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::IdReused;
use bellwether::domain::request::{Fingerprint, Outcome, RequestId};
use bellwether::domain::revision::Revision;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::Reporter;

use crate::case::newcomer;
use crate::world::app_name;

fn id(id: &str, digest: u64) -> RequestId {
    let fingerprint = Fingerprint { method: "ReportStatus".into(), digest: [digest, 0] };
    RequestId { id: id.into(), fingerprint: Some(fingerprint) }
}

fn report(unit: &str, id: RequestId) -> Request {
    let new = NewStatus {
        component: PartName::default(),
        key: PartName::default(),
        report: Arc::new(Report { level: Level::Active, ..Report::default() }),
        observe_time: None,
    };
    let reporter = Reporter::new(UnitName::new(unit).unwrap(), None);
    Request { id: Some(id), command: Command::Report(reporter, Kind::Push, new) }
}

struct App {
    state: AppState,
    limits: Limits,
    now: u64,
}

impl App {
    fn new(limits: Limits) -> App {
        App { state: AppState::empty(app_name(), Revision(0)), limits, now: 0 }
    }

    fn ask(&mut self, requests: &[Request]) -> (Transition, Vec<Result<Outcome, Rejected>>) {
        self.now += 1;
        let mut draft = Draft::new(&self.state, &self.limits, Timestamp::new(self.now));
        let outcomes = requests.iter().map(|request| apply(&mut draft, request)).collect();
        let transition = draft.finish();
        self.state.replay(&transition);
        (transition, outcomes)
    }

    /// Returns those of the ids whose repeat still gets an answer.
    fn known(&self, ids: &[&'static str]) -> BTreeSet<&'static str> {
        let is_known = |id: &&&str| {
            let mut draft = Draft::new(&self.state, &self.limits, Timestamp::new(self.now));
            apply(&mut draft, &report("web/0", RequestId::from(**id))).unwrap();
            !draft.finish().is_durable()
        };
        ids.iter().filter(is_known).copied().collect()
    }
}

#[test]
fn an_id_answers_for_one_request_alone() {
    let mut app = App::new(Limits::default());
    let (_, first) = app.ask(&[report("web/0", id("r", 1))]);
    let (repeat, again) = app.ask(&[report("web/0", id("r", 1))]);
    assert_eq!((repeat.is_durable(), again), (false, first));
    let reused = Rejected::from(IdReused { id: "r".into(), method: "ReportStatus".into() });
    // In a later commit, in the same one, and by a deletion.
    let (refused, outcomes) = app.ask(&[report("web/1", id("r", 2))]);
    assert_eq!((refused.is_durable(), outcomes), (false, vec![Err(reused.clone())]));
    let both = [report("web/0", id("s", 1)), report("web/0", id("s", 2))];
    let (_, outcomes) = app.ask(&both);
    assert!(outcomes[0].is_ok() && outcomes[1].is_err(), "{outcomes:?}");
    let now = Timestamp::new(app.now);
    assert_eq!(delete(&app.state, Some(&id("r", 2)), now).map_err(Rejected::from), Err(reused));
    let (deletion, outcome) = delete(&app.state, Some(&id("d", 1)), now).unwrap();
    app.state.replay(&deletion.unwrap());
    assert_eq!(delete(&app.state, Some(&id("d", 1)), now), Ok((None, outcome)));
    assert!(delete(&app.state, Some(&id("d", 2)), now).is_err());
}

/// An earlier version wrote no fingerprint.
#[test]
fn an_answer_without_a_fingerprint_answers_for_any_request() {
    let mut app = App::new(Limits::default());
    let (_, first) = app.ask(&[report("web/0", RequestId::from("r"))]);
    let (_, again) = app.ask(&[report("web/1", id("r", 7))]);
    assert_eq!(again, first);
}

#[test]
fn a_unit_pushes_out_its_own_ids_alone() {
    let mut app = App::new(Limits { request_ids_per_unit_max: 4, ..Limits::default() });
    app.ask(&[report("web/0", id("mine", 0))]);
    for n in 0..20 {
        app.ask(&[report("web/1", id(&format!("theirs-{n}"), 0))]);
    }
    let known = app.known(&["mine", "theirs-15", "theirs-16", "theirs-19"]);
    assert_eq!(known, BTreeSet::from(["mine", "theirs-16", "theirs-19"]));
    // A batch of many is no special case.
    let batch: Vec<Request> =
        (20..24).map(|n| report("web/1", id(&format!("theirs-{n}"), 0))).collect();
    let (transition, _) = app.ask(&batch);
    let forgotten = transition.writes.iter().filter(|w| matches!(w, Write::Request(_, None)));
    assert_eq!(forgotten.count(), 4);
    assert_eq!(app.known(&["mine", "theirs-19", "theirs-20"]).len(), 2);
}

#[test]
fn when_the_application_is_full_the_unit_with_most_ids_loses_its_oldest() {
    let limits = Limits { request_ids_max: 6, request_ids_per_unit_max: 5, ..Limits::default() };
    let mut app = App::new(limits);
    app.ask(&[report("web/0", id("mine", 0))]);
    for name in ["a", "b", "c", "d", "e"] {
        app.ask(&[report("web/1", id(name, 0))]);
    }
    app.ask(&[report("web/2", id("other", 0))]);
    app.ask(&[report("web/3", id("third", 0)), report("web/4", id("fourth", 0))]);
    let known = app.known(&["mine", "a", "b", "c", "d", "e", "other", "third", "fourth"]);
    assert_eq!(known, BTreeSet::from(["mine", "d", "e", "other", "third", "fourth"]));
    // All units have the same number of answers: the oldest of all is dropped.
    app.ask(&[report("web/5", id("f", 0)), report("web/6", id("g", 0))]);
    let known = app.known(&["mine", "d", "e", "other", "third", "fourth", "f", "g"]);
    assert_eq!(known, BTreeSet::from(["e", "other", "third", "fourth", "f", "g"]));
}

/// The unit that loses an id is found after the new ids are counted, and without those that its
/// unit loses by its own limit.
#[test]
fn the_new_ids_of_a_unit_count_before_one_is_dropped() {
    let full = |ids_max, per_unit_max, ids: &[(&str, &'static str)]| {
        let mut app = App::new(Limits {
            request_ids_max: ids_max,
            request_ids_per_unit_max: per_unit_max,
            ..Limits::default()
        });
        ids.iter().for_each(|(unit, name)| {
            app.ask(&[report(unit, id(name, 0))]);
        });
        app
    };
    let ask = |unit, name| report(unit, id(name, 0));
    // An id that a unit loses by its own limit makes room.
    let mut app = full(4, 2, &[("a/0", "a"), ("a/0", "b"), ("b/0", "c"), ("b/0", "d")]);
    app.ask(&[ask("a/0", "e")]);
    assert_eq!(app.known(&["a", "b", "c", "d", "e"]), BTreeSet::from(["b", "c", "d", "e"]));
    // Of two units with two ids each, the one with two more loses its own.
    let mut app = full(4, 4, &[("a/0", "a"), ("a/0", "b"), ("b/0", "c"), ("b/0", "d")]);
    app.ask(&[ask("b/0", "e"), ask("b/0", "f")]);
    assert_eq!(app.known(&["a", "b", "c", "d", "e", "f"]), BTreeSet::from(["a", "b", "e", "f"]));
    // Both units are at their limit of three then, so that the oldest id of the two is dropped.
    let ids = [("b/0", "d"), ("a/0", "a"), ("b/0", "e"), ("a/0", "b"), ("a/0", "c"), ("c/0", "f")];
    let mut app = full(6, 3, &ids);
    app.ask(&[ask("a/0", "g"), ask("b/0", "h")]);
    let known = app.known(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    assert_eq!(known, BTreeSet::from(["b", "c", "e", "f", "g", "h"]));
}

#[test]
fn the_fence_over_the_limit_is_the_first_to_go() {
    let mut app = App::new(Limits { request_ids_max: 2, units_max: 2, ..Limits::default() });
    let ask = |command| Request { id: None, command };
    let mut forgotten = Vec::new();
    for name in ["web/0", "web/1", "web/2", "web/3"] {
        app.ask(&[ask(Command::Register(newcomer(name, None), None))]);
        let removal = Command::RemoveUnit(UnitName::new(name).unwrap());
        let (transition, _) = app.ask(&[ask(removal)]);
        forgotten.extend(transition.writes.iter().filter_map(|write| match write {
            Write::Request(id, None) => Some(id.to_string()),
            _ => None,
        }));
    }
    assert_eq!(forgotten, ["\u{1}removed web/0", "\u{1}removed web/1"]);
}
