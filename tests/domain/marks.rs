//! Marks: recorded cases, and the limits of a mark.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::history::{Cause, StatusEvent};
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::mark::{Cover, MarkEnd, MarkKind, NewMark, Until};
use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::policy::{Config, Policy};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::Outcome;
use bellwether::domain::revision::Revision;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::domain::unit::presence::{ReplicaId, SessionId};
use bellwether::domain::unit::{Newcomer, Reporter, Unit};
use serde::Deserialize;

use crate::world::Stored;

/// One application with its store, at a time.
pub struct Fleet {
    pub state: AppState,
    store: Stored,
    pub now: u64,
    events: Vec<StatusEvent>,
    sessions: u64,
}

impl Fleet {
    pub fn new(app: &str) -> Fleet {
        let name = AppName::new("", app).unwrap();
        let state = AppState::empty(name, Revision::default());
        Fleet { state, store: Stored::default(), now: 1000, events: Vec::new(), sessions: 0 }
    }

    fn take(&mut self, transition: &Transition) {
        self.store.commit(transition);
        self.state.replay(transition);
        self.events.extend(transition.events.iter().cloned());
        self.check();
    }

    /// Lets time pass to `now`, and does what is due in each moment at which something is.
    pub fn pass(&mut self, now: u64) {
        while let Some(due) = self.state.next_due().filter(|due| due.millis() <= now) {
            self.now = self.now.max(due.millis());
            let (before, limits) = (self.state.clone(), Limits::default());
            let mut draft = Draft::new(&before, &limits, Timestamp::new(self.now));
            expire(&mut draft);
            let transition = draft.finish();
            self.take(&transition);
        }
        self.now = self.now.max(now);
    }

    pub fn apply(&mut self, commands: &[Command]) -> Vec<Result<Outcome, Rejected>> {
        let (before, limits) = (self.state.clone(), Limits::default());
        let mut draft = Draft::new(&before, &limits, Timestamp::new(self.now));
        expire(&mut draft);
        let requests = commands.iter().cloned().map(|command| Request { id: None, command });
        let outcomes = requests.map(|request| apply(&mut draft, &request)).collect();
        let transition = draft.finish();
        self.take(&transition);
        outcomes
    }

    pub fn lose(&mut self, unit: &str) {
        let (before, limits) = (self.state.clone(), Limits::default());
        let mut draft = Draft::new(&before, &limits, Timestamp::new(self.now));
        lose_unit(&mut draft, &UnitName::new(unit).unwrap());
        let transition = draft.finish();
        self.take(&transition);
    }

    pub fn connect(&mut self, unit: &str) {
        self.sessions += 1;
        let (unit, labels) = (UnitName::new(unit).unwrap(), BTreeMap::new());
        let who = Newcomer { unit, incarnation: None, stateless: false, labels };
        let session = SessionId { replica: ReplicaId(1), number: self.sessions };
        self.apply(&[Command::Connect(who, session)]);
    }

    /// Closes the session of a unit, if it has one.
    pub fn disconnect(&mut self, unit: &str) {
        let unit = UnitName::new(unit).unwrap();
        if let Some(session) = self.state.unit(&unit).and_then(Unit::session) {
            let ttl = Duration::from_secs(60);
            self.apply(&[Command::Disconnect { unit, session, ttl, silent: false }]);
        }
    }

    /// Reads everything from the store again.
    pub fn restart(&mut self) {
        let app = self.state.name.clone();
        self.state = self.store.load_as(app);
        self.check();
    }

    /// Compares the index and the marks with those of a state that is built from the records.
    fn check(&self) {
        let scratch = self.state.contributions_from_scratch();
        let ranked: Vec<_> = self.state.ranked().collect();
        assert!(ranked.iter().copied().eq(scratch.iter()));
        let shown = |rank: &&bellwether::domain::rank::Rank| (rank.level, rank.counts_as());
        assert!(ranked.iter().map(shown).eq(scratch.iter().map(|rank| shown(&rank))));
        let loaded = self.store.load_as(self.state.name.clone());
        assert_eq!(loaded.marks(), self.state.marks());
    }

    fn in_force(&self) -> Vec<String> {
        let begun = self.state.marks().iter().filter(|(_, mark)| mark.begun);
        begun.map(|(id, _)| id.to_string()).collect()
    }

    pub fn without(&self) -> Level {
        let head = self.state.head();
        let without = head.marks.as_ref().and_then(|marks| marks.level_without);
        without.unwrap_or(head.summary.level)
    }

    pub fn says(&self, of: fn(&bellwether::domain::mark::head::MarkSummary) -> bool) -> bool {
        self.state.head().marks.as_ref().is_some_and(|marks| of(marks))
    }

    /// Returns the marks that ended since the last call, with the reasons.
    fn ended(&mut self) -> BTreeMap<String, String> {
        let events = std::mem::take(&mut self.events);
        let ends = events.iter().filter(|event| event.cause == Cause::MarkEnded);
        let change = |event: &StatusEvent, field: &str| {
            let found = event.changes.iter().find(|change| &*change.field == field);
            found.unwrap().to.to_string()
        };
        ends.map(|event| (change(event, "mark_id"), change(event, "mark"))).collect()
    }
}

pub fn report(unit: &str, component: &str, level: Level) -> Command {
    let report = Report { level, message: format!("{level:?}").into(), ..Report::default() };
    reported(unit, component, report)
}

pub fn reported(unit: &str, component: &str, report: Report) -> Command {
    let new = NewStatus {
        component: PartName::new(component).unwrap(),
        key: PartName::default(),
        report: Arc::new(report),
        observe_time: None,
    };
    Command::Report(Reporter::new(UnitName::new(unit).unwrap(), None), Kind::Pull, new)
}

fn cover(text: &str) -> Cover {
    let mut words = text.split_whitespace();
    let unit = words.next().map_or_else(UnitName::application, |u| UnitName::new(u).unwrap());
    Cover { unit, component: words.next().map(|c| PartName::new(c).unwrap()), key: None }
}

pub fn mark(id: &str, kind: MarkKind, covers: &str, until: Until) -> NewMark {
    NewMark {
        id: id.into(),
        kind,
        cover: cover(covers),
        start: None,
        until,
        reason: "ticket 123".into(),
        author: "alice".into(),
        ends_when_well: false,
    }
}

/// One recorded case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "what")]
    _what: String,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: u64,
    #[serde(default)]
    app: Option<String>,
    #[serde(default)]
    report: BTreeMap<String, String>,
    #[serde(default)]
    lose: Option<String>,
    #[serde(default)]
    clear: Option<String>,
    #[serde(default)]
    remove_unit: Option<String>,
    #[serde(default)]
    new_incarnation: Option<String>,
    #[serde(default)]
    restart: bool,
    #[serde(default)]
    set: Option<Set>,
    #[serde(default)]
    unmark: Option<String>,
    expect: Expect,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    id: String,
    kind: String,
    covers: String,
    #[serde(default)]
    start: Option<u64>,
    end: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    level: String,
    in_force: Vec<String>,
    #[serde(default)]
    ended: BTreeMap<String, String>,
    #[serde(default)]
    without_marks: Option<String>,
    #[serde(default)]
    acknowledged: Option<bool>,
    #[serde(default)]
    planned: Option<bool>,
    #[serde(default, rename = "advice")]
    _advice: Option<String>,
}

fn level(word: &str) -> Level {
    *Level::ALL.iter().find(|level| level.word() == word).unwrap()
}

/// Time zero of the cases.
const BEGIN: u64 = 10_000;

fn seconds(at: u64) -> u64 {
    BEGIN + 1000 * at
}

fn run(case: &Case) {
    let mut fleets: BTreeMap<String, Fleet> = BTreeMap::new();
    for step in &case.steps {
        let app = step.app.clone().unwrap_or_else(|| "web".to_string());
        for fleet in fleets.values_mut() {
            fleet.pass(seconds(step.at));
        }
        let fleet = fleets.entry(app.clone()).or_insert_with(|| Fleet::new(&app));
        fleet.pass(seconds(step.at));
        let place = |text: &str| {
            let (unit, component) = text.split_once(' ').unwrap_or((text, ""));
            (unit.to_string(), component.to_string())
        };
        if let Some(unit) = &step.new_incarnation {
            fleet.connect(unit);
        }
        for (of, word) in &step.report {
            let (unit, component) = place(of);
            let outcome = fleet.apply(&[report(&unit, &component, level(word))]);
            outcome[0].as_ref().unwrap();
        }
        if let Some(unit) = &step.lose {
            fleet.lose(unit);
        }
        if let Some(of) = &step.clear {
            let (unit, component) = place(of);
            let reporter = Reporter::new(UnitName::new(&unit).unwrap(), None);
            let component = Some(PartName::new(&component).unwrap());
            fleet.apply(&[Command::Clear { reporter, component, key: None, kind: None }]);
        }
        if let Some(unit) = &step.remove_unit {
            fleet.apply(&[Command::RemoveUnit(UnitName::new(unit).unwrap())]);
        }
        if step.restart {
            fleet.restart();
        }
        if let Some(set) = &step.set {
            let kind = *MarkKind::ALL.iter().find(|kind| kind.word() == set.kind).unwrap();
            let until = Until::Time(Timestamp::new(seconds(set.end)));
            let start = set.start.map(|start| Timestamp::new(seconds(start)));
            let new = NewMark { start, ..mark(&set.id, kind, &set.covers, until) };
            fleet.apply(&[Command::SetMark(Box::new(new))])[0].as_ref().unwrap();
        }
        if let Some(id) = &step.unmark {
            fleet.apply(&[Command::RemoveMark(id.as_str().into())])[0].as_ref().unwrap();
        }
        let (at, expect) = (step.at, &step.expect);
        let found = fleet.state.head().summary.level.word();
        assert_eq!(found, expect.level, "{} at {at}", case.id);
        let mut in_force = fleet.in_force();
        in_force.sort();
        assert_eq!(in_force, expect.in_force, "{} at {at}", case.id);
        assert_eq!(fleet.ended(), expect.ended, "{} at {at}", case.id);
        let without = expect.without_marks.as_ref().unwrap_or(&expect.level);
        assert_eq!(fleet.without().word(), without, "{} at {at}", case.id);
        if let Some(acknowledged) = expect.acknowledged {
            assert_eq!(fleet.says(|m| m.acknowledged), acknowledged, "{} at {at}", case.id);
        }
        if let Some(planned) = expect.planned {
            assert_eq!(fleet.says(|m| m.planned), planned, "{} at {at}", case.id);
        }
    }
}

#[test]
fn marks_begin_and_end_as_recorded() {
    let cases: Vec<Case> = yaml_serde::from_str(include_str!("../data/marks.yaml")).unwrap();
    assert!(28 <= cases.len());
    cases.iter().for_each(run);
}

/// After a restart the time of the store can return to a clock that is behind it.
#[test]
fn a_mark_that_has_begun_stays_so_at_an_earlier_time() {
    let mut fleet = Fleet::new("web");
    fleet.apply(&[report("web/0", "", Level::Active)]);
    for (now, reason) in [(50_000, "ticket 123"), (20_000, "ticket 124")] {
        fleet.now = now;
        let end = Until::Time(Timestamp::new(900_000));
        let new = NewMark { reason: reason.into(), ..mark("p", MarkKind::Planned, "", end) };
        fleet.apply(&[Command::SetMark(Box::new(new))]).remove(0).unwrap();
        let set: Vec<_> = fleet.state.marks().iter().map(|(_, mark)| mark.clone()).collect();
        assert_eq!((set[0].start.millis(), set[0].begun), (50_000, true), "{reason}");
        assert_eq!(&*set[0].reason, reason);
    }
}

fn days(count: u64) -> u64 {
    count * 24 * 3600
}

/// Sets a mark of an application with one unit; returns the refusal, or `""`.
fn refusal(new: NewMark) -> String {
    let mut fleet = Fleet::new("web");
    fleet.apply(&[report("web/0", "", Level::Active)]);
    let set = fleet.apply(&[Command::SetMark(Box::new(new))]).remove(0);
    set.err().map(|refused| refused.to_string()).unwrap_or_default()
}

#[test]
fn times_outside_their_limits_are_refused() {
    let after = |seconds| Until::After(Duration::from_secs(seconds));
    let planned = |until| mark("p", MarkKind::Planned, "", until);
    let at = |ahead: u64| Some(Timestamp::new(1000 + 1000 * ahead));
    assert_eq!(refusal(planned(after(days(30)))), "");
    let refused = refusal(planned(after(days(30) + 1)));
    assert!(refused.starts_with("during is more than 30 days after the start"), "{refused}");
    let ended = refusal(planned(Until::Time(Timestamp::new(1000))));
    assert_eq!(ended, "mark.end_time must be later than the start and than now");
    assert_eq!(refusal(NewMark { start: at(days(90)), ..planned(after(60)) }), "");
    let refused = refusal(NewMark { start: at(days(90) + 1), ..planned(after(60)) });
    assert_eq!(refused, "mark.start_time is more than 90 days ahead");
    let late = NewMark { start: at(60), ..mark("a", MarkKind::Acknowledged, "", after(60)) };
    let refused = refusal(late);
    assert_eq!(refused, "mark.start_time is in the future: an acknowledgement begins now");
    let refused = refusal(mark("a", MarkKind::Acknowledged, "web/7", after(60)));
    assert_eq!(refused, "unit web/7 is not known");
}

#[test]
fn a_mark_that_is_set_again_changes_its_reason_and_its_end() {
    let mut fleet = Fleet::new("web");
    fleet.apply(&[report("web/0", "", Level::Error)]);
    let hour = Until::After(Duration::from_secs(3600));
    let new = mark("m", MarkKind::Acknowledged, "web/0", hour);
    let set = |fleet: &mut Fleet, new: &NewMark| {
        fleet.apply(&[Command::SetMark(Box::new(new.clone()))]).remove(0)
    };
    assert!(set(&mut fleet, &new).unwrap().changed);
    fleet.now += 1000;
    assert!(!set(&mut fleet, &new).unwrap().changed, "the same mark says nothing new");
    let longer = Until::After(Duration::from_secs(7200));
    let other = NewMark { reason: "ticket 124".into(), until: longer, ..new.clone() };
    assert!(set(&mut fleet, &other).unwrap().changed);
    let known = fleet.state.marks().get("m").unwrap().clone();
    assert_eq!((&*known.reason, known.end.millis()), ("ticket 124", 1000 + 7_200_000));
    assert_eq!(known.acknowledged_level, Level::Error);
    let differs = set(&mut fleet, &NewMark { cover: cover(""), ..new });
    assert!(differs.unwrap_err().to_string().contains("an id of its own"));
}

#[test]
fn an_application_has_so_many_marks() {
    let mut fleet = Fleet::new("web");
    fleet.apply(&[report("web/0", "", Level::Error)]);
    let hour = Until::After(Duration::from_secs(3600));
    for n in 0..64 {
        let new = mark(&n.to_string(), MarkKind::Planned, "web/0", hour);
        fleet.apply(&[Command::SetMark(Box::new(new))])[0].as_ref().unwrap();
    }
    let new = mark("more", MarkKind::Planned, "web/0", hour);
    let refused = fleet.apply(&[Command::SetMark(Box::new(new))]).remove(0);
    assert!(refused.unwrap_err().to_string().contains("64"));
    assert_eq!(fleet.state.head().marks.as_ref().unwrap().count, 64);
}

#[test]
fn the_words_of_ends_are_those_of_the_history() {
    let words: Vec<&str> = MarkEnd::ALL.iter().map(|end| end.word()).collect();
    assert_eq!(words, ["expired", "worse", "well", "removed"]);
    assert_eq!(Config::default().policy, Policy::Juju);
}
