//! Properties of one status that is latched, damped, or both, for any sequence of reports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::history::Cause;
use bellwether::domain::level::Level;
use bellwether::domain::limits::{DAMPENERS_MAX, Limits};
use bellwether::domain::name::{PartName, UnitName};
use bellwether::domain::policy::{ConfigPatch, Damping, Latch, Policy, Scope};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::revision::Revision;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::report::Report;
use bellwether::domain::status::{Kind, Status, StatusKey};
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::domain::unit::{Newcomer, Reporter};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::case::{self, Case, new_status, time};
use crate::properties::results;
use crate::world::app_name;

const CALM_AFTER: u64 = 60_000;

fn reporter() -> Reporter {
    Reporter::new(UnitName::new("web/0").unwrap(), None)
}

fn mk_report(level: Level) -> NewStatus {
    NewStatus {
        component: PartName::new("db").unwrap(),
        key: PartName::default(),
        report: Arc::new(Report { level, ..Report::default() }),
        observe_time: None,
    }
}

fn configure(latches: Vec<Latch>, damped: bool) -> Command {
    let scopes = if damped { vec![Scope::All] } else { Vec::new() };
    let calm_after = Duration::from_millis(CALM_AFTER);
    Command::Configure(Box::new(ConfigPatch {
        latches: Some(latches),
        damping: Some(Damping { scopes, calm_after, ..Damping::default() }),
        ..ConfigPatch::default()
    }))
}

fn commit(state: &mut AppState, now: u64, command: Option<Command>) -> Transition {
    let limits = Limits::default();
    let before = state.clone();
    let mut draft = Draft::new(&before, &limits, Timestamp::new(now));
    expire(&mut draft);
    if let Some(command) = command {
        apply(&mut draft, &Request { id: None, command }).unwrap();
    }
    let transition = draft.finish();
    state.replay(&transition);
    transition
}

/// Reports one level: as a push, or as a pull set that may not contain it.
fn say(state: &mut AppState, now: u64, kind: Kind, level: Option<Level>) -> Transition {
    let command = match (kind, level) {
        (Kind::Push, level) => {
            Command::Report(reporter(), kind, mk_report(level.unwrap_or(Level::Unknown)))
        }
        (Kind::Pull, level) => {
            Command::Replace(reporter(), None, level.map(mk_report).into_iter().collect())
        }
    };
    commit(state, now, Some(command))
}

fn status(state: &AppState) -> Option<Status> {
    let first = StatusKey::first_of(&UnitName::new("web/0").unwrap());
    state.statuses().from(&first).next().map(|(_, status)| (**status).clone())
}

fn severity(level: Level) -> u8 {
    Policy::Juju.severity(level)
}

fn flaps(status: Option<&Status>) -> bool {
    status.is_some_and(|status| status.flapping().is_some())
}

fn said() -> impl Strategy<Value = Option<Level>> {
    let levels = [None, Some(Level::Active), Some(Level::Waiting), Some(Level::Blocked)];
    select(levels.to_vec())
}

proptest! {
    #[test]
    fn a_held_status_is_at_least_as_bad_as_each_report_since(
        steps in vec((said(), 0..30_000u64), 1..80),
        is_latched: bool,
        is_damped: bool,
        kind in select(vec![Kind::Pull, Kind::Push]),
    ) {
        let mut state = AppState::empty(app_name(), Revision(0));
        let latch = Latch { scope: Scope::All, good_count: 3 };
        let latches = if is_latched { vec![latch] } else { Vec::new() };
        commit(&mut state, 1000, Some(configure(latches, is_damped)));
        let (mut now, mut since_hold) = (1000, Vec::new());
        for (level, pause) in steps {
            now += pause;
            commit(&mut state, now, None);
            let before = status(&state);
            // A calm status shows its last report, and later results may latch or damp it again.
            if before.as_ref().is_none_or(|s| s.held.is_none()) {
                since_hold.clear();
            }
            let transition = say(&mut state, now, kind, level);
            let level = if kind == Kind::Push { level.or(Some(Level::Unknown)) } else { level };
            let after = status(&state);
            if after.as_ref().is_some_and(|s| s.held.is_some()) {
                since_hold.extend(level.map(severity));
                let shown = severity(after.as_ref().unwrap().report.level);
                prop_assert!(since_hold.iter().all(|said| shown <= *said));
            } else {
                since_hold.clear();
                prop_assert_eq!(after.as_ref().map(|s| s.report.level), level);
            }
            // While it flaps, only a worse level moves the revision, and only the begin and the end
            // add events.
            if flaps(before.as_ref()) && flaps(after.as_ref()) {
                let worse = before.unwrap().report.level != after.unwrap().report.level;
                prop_assert_eq!(transition.moves_revision(), worse);
                prop_assert!(worse || transition.events.is_empty());
                prop_assert!(transition.is_durable() || state.status_count() == 1);
            } else {
                let ends = [Cause::FlappingBegan, Cause::FlappingEnded];
                let told = transition.events.iter().filter(|e| ends.contains(&e.cause));
                let moves = flaps(before.as_ref()) != flaps(after.as_ref());
                prop_assert!(moves <= (1 <= told.count()));
            }
        }
        // Time alone ends the flapping, and keeps the last report.
        let latest = status(&state).and_then(|s| s.latest().cloned());
        commit(&mut state, now + CALM_AFTER, None);
        prop_assert!(!flaps(status(&state).as_ref()));
        prop_assert_eq!(status(&state).and_then(|s| s.latest().cloned()), latest);
        prop_assert!(state.next_due().is_none());
    }
}

#[test]
fn latches_and_damped_components_are_bounded() {
    let limits = Limits::default();
    let state = AppState::empty(app_name(), Revision(0));
    let component = |n: usize| Scope::Component(PartName::new(&format!("c{n}")).unwrap());
    let scopes: Vec<Scope> = (0..=DAMPENERS_MAX).map(component).collect();
    let latch = |scope: &Scope| Latch { scope: scope.clone(), good_count: 2 };
    let latches =
        ConfigPatch { latches: Some(scopes.iter().map(latch).collect()), ..ConfigPatch::default() };
    let damping = ConfigPatch {
        damping: Some(Damping { scopes, ..Damping::default() }),
        ..ConfigPatch::default()
    };
    let refused = |patch: ConfigPatch| {
        let mut draft = Draft::new(&state, &limits, Timestamp::new(1));
        let request = Request { id: None, command: Command::Configure(Box::new(patch)) };
        match apply(&mut draft, &request) {
            Err(Rejected::LimitExceeded(refused)) => {
                assert!(refused.to_string().ends_with("is fixed"), "{refused}");
                (refused.limit, refused.max)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(latches), ("latches_max", 64));
    assert_eq!(refused(damping), ("damped_components_max", 64));
}

/// Without this, the latched statuses of a worker with ever new keys would block its reports.
#[test]
fn new_reports_replace_held_statuses_at_the_limit() {
    let mut state = AppState::empty(app_name(), Revision(0));
    let latch = Latch { scope: Scope::All, good_count: 100 };
    commit(&mut state, 1000, Some(configure(vec![latch], false)));
    let max = Limits::default().keys_per_component_max;
    for round in 0..3 {
        let statuses = (0..max).map(|n| NewStatus {
            key: PartName::new(&format!("k{round}.{n}")).unwrap(),
            ..mk_report(Level::Blocked)
        });
        commit(&mut state, 2000, Some(Command::Replace(reporter(), None, statuses.collect())));
        assert_eq!(state.status_count(), max);
    }
    let keys: BTreeSet<_> = state.ranked().map(|rank| rank.key.key.clone()).collect();
    assert!(keys.iter().all(|key| key.as_str().starts_with("k2.")));
}

/// After the calm, the new owner shows the report that it got by the hand-over.
#[test]
fn a_flapping_status_is_handed_over_with_its_last_report() {
    let mut state = AppState::empty(app_name(), Revision(0));
    commit(&mut state, 0, Some(configure(Vec::new(), true)));
    let hand_over = ConfigPatch { hand_over: Some(Some("".into())), ..ConfigPatch::default() };
    commit(&mut state, 0, Some(Command::Configure(Box::new(hand_over))));
    let name = |name| UnitName::new(name).unwrap();
    let register = |unit, incarnation| {
        let labels = std::collections::BTreeMap::new();
        Command::Register(Newcomer { unit, incarnation, stateless: true, labels }, None)
    };
    commit(&mut state, 0, Some(register(name("web/0"), Some(7))));
    for n in 0..9 {
        let level = [Level::Active, Level::Blocked][n % 2];
        say(&mut state, 1000, Kind::Push, Some(level));
    }
    let ttl = Duration::from_secs(30);
    commit(&mut state, 2000, Some(Command::Depart { reporter: reporter(), ttl }));
    commit(&mut state, 3000, Some(register(name("web/1"), None)));
    let shown = |state: &AppState| {
        let status = status(state).unwrap();
        (status.report.level, status.incarnation, status.flapping().is_some())
    };
    assert_eq!(shown(&state), (Level::Blocked, 1, true));
    commit(&mut state, 1000 + CALM_AFTER, None);
    assert_eq!(shown(&state), (Level::Active, 1, false));
    assert_eq!(state.unit(&name("web/0")), None);
}

#[test]
fn a_latched_status_begins_when_a_worse_level_was_observed_or_when_it_is_released() {
    let mut case = Case::new();
    case.run(configure(vec![Latch { scope: Scope::All, good_count: 2 }], false));
    let steps = [
        (10, Level::Blocked, 7, (Level::Blocked, 7, 7)),
        (20, Level::Active, 15, (Level::Blocked, 7, 7)),
        (30, Level::Error, 25, (Level::Error, 25, 25)),
        (40, Level::Active, 35, (Level::Error, 25, 25)),
        // The level was held until now, so that it is not older.
        (50, Level::Active, 45, (Level::Active, 50, 45)),
        (60, Level::Blocked, 61, (Level::Blocked, 60, 60)),
        (70, Level::Active, 65, (Level::Blocked, 60, 60)),
        (80, Level::Error, 81, (Level::Error, 80, 80)),
    ];
    let mut before = (None, 0);
    for (now, level, observed, (shown, since, observed_then)) in steps {
        let new = NewStatus { observe_time: Some(time(observed)), ..new_status("", level, None) };
        let report = Command::Replace(case::reporter("web/0"), None, vec![new]);
        case.at(now).run(report);
        let status = case.status("web/0", "", Kind::Pull).unwrap();
        assert_eq!((status.report.level, status.since), (shown, time(since)), "at {now}");
        assert_eq!(status.observe_time, Some(time(observed_then)), "at {now}");
        let updated = if before.0 == Some(shown) { before.1 } else { now };
        assert_eq!(status.update_time, time(updated), "at {now}");
        before = (Some(shown), updated);
    }
}

/// Once enough pull sets in a row lack a flapping status, it is calm and gone at once.
#[test]
fn a_flapping_status_that_leaves_with_a_pull_set_ends_its_flapping() {
    let mut case = Case::new();
    case.run(configure(Vec::new(), true));
    let set = |levels: Vec<Level>| {
        let set = levels.into_iter().map(|level| new_status("", level, None));
        Command::Replace(case::reporter("web/0"), None, set.collect())
    };
    for n in 0..9 {
        case.run(set(vec![[Level::Active, Level::Blocked][n % 2]]));
    }
    assert!(case.status("web/0", "", Kind::Pull).unwrap().flapping().is_some());
    for _ in 0..20 {
        if case.status("web/0", "", Kind::Pull).is_some() {
            case.run(set(Vec::new()));
        }
    }
    assert_eq!(case.status("web/0", "", Kind::Pull), None);
    let last = case.last.unwrap();
    let told = last.events.iter().filter(|event| event.subject.is_some());
    let told: Vec<_> = told.map(|event| (event.from, event.to, event.cause)).collect();
    assert_eq!(told, [(Some(Level::Blocked), None, Cause::FlappingEnded)]);
}

#[test]
fn the_last_words_of_a_damped_status_end_with_the_incarnation() {
    let register = || Command::Register(case::newcomer("web/0", None), None);
    for damped in [false, true] {
        let mut case = Case::new();
        case.run(configure(Vec::new(), damped));
        case.run(register());
        case.run(case::push("web/0", Level::Waiting, None));
        let reporter = Reporter::new(UnitName::new("web/0").unwrap(), Some(1));
        case.run(Command::AnnounceStop(reporter));
        case.run(case::push("web/0", Level::Maintenance, None));
        assert!(case.status("web/0", "", Kind::Push).unwrap().while_stopping, "{damped}");
        case.run(register());
        assert_eq!(case.status("web/0", "", Kind::Push), None, "{damped}");
    }
}

#[test]
fn a_latched_status_is_compared_with_its_last_report_under_the_policy_of_today() {
    let mut case = Case::new();
    case.run(configure(vec![Latch { scope: Scope::All, good_count: 2 }], false));
    for level in [Level::Blocked, Level::Waiting] {
        let set = vec![new_status("", level, None)];
        case.run(Command::Replace(case::reporter("web/0"), None, set));
    }
    let shown = |case: &Case| case.status("web/0", "", Kind::Pull).unwrap().report.level;
    assert_eq!(shown(&case), Level::Blocked);
    // A policy under which waiting is worse than blocked.
    let policy = Some(Policy::Custom([
        Level::Error,
        Level::Waiting,
        Level::Blocked,
        Level::Maintenance,
        Level::Active,
        Level::Terminated,
        Level::Unknown,
    ]));
    case.run(case::configure(ConfigPatch { policy, ..ConfigPatch::default() }));
    assert_eq!(shown(&case), Level::Waiting);
}

#[test]
fn a_status_that_is_no_longer_damped_forgets_its_swings() {
    let mut case = Case::new();
    case.run(configure(Vec::new(), true));
    for level in [Level::Active, Level::Blocked, Level::Active] {
        case.run(case::push("web/0", level, None));
    }
    let status = |case: &Case| case.status("web/0", "", Kind::Push).unwrap();
    assert!(results(&status(&case)).contains(&true));
    assert_eq!(status(&case).held, None);
    case.run(configure(Vec::new(), false));
    assert!(!results(&status(&case)).contains(&true));
}

/// Two changes in one commit are not none.
#[test]
fn a_set_of_a_lost_unit_without_its_latched_status_is_a_change() {
    let mut case = Case::new();
    case.run(configure(vec![Latch { scope: Scope::All, good_count: 2 }], false));
    let set = |levels: &[Level]| {
        let set = levels.iter().map(|level| new_status("", *level, None));
        Command::Replace(case::reporter("web/0"), None, set.collect())
    };
    case.run(set(&[Level::Blocked]));
    case.commit(|draft| lose_unit(draft, &UnitName::new("web/0").unwrap()));
    let told = case.at(5).run(set(&[]));
    assert!(told.changed);
    assert!(case.status("web/0", "", Kind::Pull).unwrap().held.is_some());
}
