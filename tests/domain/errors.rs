//! Single cases of open errors: what ends one, what an operator does with a hold, and the bounds.

use std::collections::BTreeSet;
use std::sync::Arc;

use bellwether::domain::apply::apply;
use bellwether::domain::classify::finding::Class;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::fault::{Fault, FaultKey, NewError, Resolution, Stage};
use bellwether::domain::history::{Cause, StatusEvent};
use bellwether::domain::level::Level;
use bellwether::domain::limits::{CALLBACKS_PER_UNIT_MAX, FaultSettings, LimitExceeded, Limits};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::unit::{Reporter, Topic};

use crate::case::{Case, newcomer, part, push, reporter, seconds, session, time, unit};
use crate::faults::mk_error;
use crate::outages::outages;

fn error(target: &str, class: Class, pushback: Option<u16>) -> Command {
    error_of(target, mk_error(class, pushback))
}

fn error_of(target: &str, error: NewError) -> Command {
    let (component, target) = (part("db"), Arc::from(target));
    Command::ReportError { reporter: reporter("web/0"), component, target, error: error.into() }
}

fn resolve(reporter: Reporter, generation: &str) -> Command {
    let generation = generation.into();
    Command::ResolveError { reporter, component: None, target: None, generation }
}

fn release(component: &str, resolution: Resolution) -> Command {
    let (unit, component) = (unit("web/0"), part(component));
    Command::ResolveHold { unit, component, resolution, why: "disk added".into() }
}

fn fault(case: &Case, target: &str) -> Option<Fault> {
    let (component, target) = (part("db"), Arc::from(target));
    let key = FaultKey { unit: unit("web/0"), component, target };
    case.state.faults().get(&key).map(|fault| (**fault).clone())
}

fn connect() -> Command {
    Command::Connect(newcomer("web/0", None), session(0))
}

/// Returns the event of the last commit about a target.
fn told(case: &Case) -> &StatusEvent {
    let events = &case.last.as_ref().unwrap().events;
    events
        .iter()
        .find(|event| event.subject.as_ref().is_some_and(|s| !s.target.is_empty()))
        .unwrap()
}

#[test]
fn the_history_names_the_reason_of_an_error_and_what_becomes_of_its_hold() {
    let change = |case: &Case| {
        let changes = &told(case).changes;
        assert!(changes.iter().all(|change| &*change.field == "hold"));
        changes.first().map(|change| (change.from.to_string(), change.to.to_string()))
    };
    let words = |from: &str, to: &str| Some((from.to_string(), to.to_string()));
    let held = || {
        let mut case = Case::new();
        case.run(error("disk", Class::Blocked, None));
        assert_eq!((&*told(&case).reason, change(&case)), ("ActionRequired", words("", "held")));
        case
    };
    let mut case = held();
    case.run(release("db", Resolution::Retry));
    assert_eq!(told(&case).cause, Cause::HoldRetried);
    assert_eq!(
        (&*told(&case).message, change(&case)),
        ("disk added", words("held", "to be retried"))
    );
    let mut case = held();
    case.run(release("db", Resolution::Skip));
    assert_eq!((told(&case).cause, change(&case)), (Cause::HoldSkipped, words("held", "skipped")));
    let mut case = held();
    case.run(resolve(reporter("web/0"), ""));
    assert_eq!((told(&case).cause, change(&case)), (Cause::ErrorResolved, words("held", "")));
    // A visible error that holds nothing.
    let mut case = Case::new();
    case.run(error("peer", Class::Dependency, None));
    assert_eq!((&*told(&case).reason, change(&case)), ("DependencyMissing", None));
}

#[test]
fn a_halt_ends_with_another_generation_only_if_both_are_known() {
    let cases = [("1", "2", true), ("1", "1", false), ("", "2", false), ("1", "", false)];
    for (known, now, ends) in cases {
        let mut case = Case::new();
        let halt = NewError { generation: known.into(), ..mk_error(Class::Fatal, None) };
        case.run(error_of("disk", halt));
        case.run(resolve(reporter("web/0"), now));
        assert_eq!(fault(&case, "disk").is_none(), ends, "{known:?} {now:?}");
    }
}

#[test]
fn a_success_is_contact_and_one_change_with_what_it_ends() {
    let of = |incarnation, session| Reporter { unit: unit("web/0"), incarnation, session };
    let senders = [
        (of(None, None), false),
        (of(Some(1), None), false),
        (of(Some(2), None), true),
        (of(None, Some(session(0))), true),
    ];
    for (sender, is_contact) in senders {
        for fails in [false, true] {
            let mut case = Case::new();
            case.run(connect());
            if fails {
                case.run(error("peer", Class::Dependency, None));
            }
            case.commit(|draft| lose_unit(draft, &unit("web/0")));
            let told = case.at(5).run(resolve(sender.clone(), ""));
            let is_back = case.unit("web/0").lost_since.is_none();
            let expected = is_contact || fails;
            assert_eq!((told.changed, is_back), (expected, expected), "{sender:?} {fails}");
            assert_eq!(fault(&case, "peer"), None);
        }
    }
    // A unit without an error is not made by its success.
    let mut case = Case::new();
    case.run(push("web/1", Level::Active, None));
    assert!(!case.run(resolve(of(None, None), "")).changed);
    assert!(!case.has_unit("web/0"));
}

#[test]
fn a_component_is_held_by_the_fault_that_holds_it_longest() {
    let mut case = Case::new();
    case.run(error("passes", Class::Transient, None));
    case.at(2).run(error("b", Class::Blocked, None));
    case.run(error("c", Class::Blocked, None));
    case.at(3).run(error("a", Class::Blocked, None));
    let held = unit("web/0");
    let holds = case.state.holds_of(&held);
    let found: Vec<_> = holds.iter().map(|(name, (key, _))| (*name, &*key.target)).collect();
    assert_eq!(found, [(&part("db"), "b")]);
}

/// Returns an error of a class that holds, which may end by itself.
fn unheld(class: Class) -> NewError {
    let mut error = mk_error(class, None);
    error.finding.unheld = true;
    error
}

#[test]
fn an_error_that_may_end_by_itself_is_shown_and_tried_again_at_the_slowest_pace() {
    for (class, level) in [(Class::Blocked, Level::Blocked), (Class::Fatal, Level::Error)] {
        let mut case = Case::new();
        case.run(connect());
        case.run(error_of("disk", unheld(class)));
        let shown = fault(&case, "disk").unwrap();
        assert_eq!((shown.level(), shown.held_since), (Some(level), None), "{class:?}");
        assert!(case.state.holds_of(&unit("web/0")).is_empty(), "{class:?}");
        assert_eq!(shown.attempts, 0);
        let wait = shown.retry_after().unwrap();
        assert!((seconds(144)..=seconds(216)).contains(&wait), "{class:?} {wait:?}");
        assert_eq!(shown.next_try(), shown.retry_time);
        // The worker is asked then, and the result ends the error.
        let topic = Topic::retry(part("db"), "disk");
        let asked = |case: &Case| case.unit("web/0").callbacks.get(&topic).is_some_and(|c| c.due);
        case.at(140).pass();
        assert!(!asked(&case), "{class:?}");
        case.at(220).pass();
        assert!(asked(&case), "{class:?}");
        case.run(resolve(reporter("web/0"), ""));
        assert_eq!(fault(&case, "disk"), None, "{class:?}");
    }
}

#[test]
fn an_error_that_may_end_by_itself_replaces_no_hold() {
    let mut case = Case::new();
    case.run(error("disk", Class::Blocked, None));
    case.at(5).run(error_of("disk", unheld(Class::Blocked)));
    let held = fault(&case, "disk").unwrap();
    assert_eq!((held.held_since, held.count), (Some(time(1)), 2));
    // The other way round, the hold begins with the error that holds.
    let mut case = Case::new();
    case.run(error_of("disk", unheld(Class::Blocked)));
    case.at(5).run(error("disk", Class::Blocked, None));
    assert!(fault(&case, "disk").unwrap().held_since.is_some());
}

#[test]
fn a_released_hold_is_retried_at_once() {
    let mut case = Case::new();
    case.run(connect());
    case.run(error("disk", Class::Blocked, None));
    assert!(!case.run(release("other", Resolution::Retry)).changed);
    assert_eq!(fault(&case, "disk").unwrap().next_try(), None);
    let told = case.at(5).run(release("db", Resolution::Retry));
    assert_eq!((told.changed, told.removed), (true, 1));
    let released = fault(&case, "disk").unwrap();
    assert_eq!((released.ask_time, released.held_since), (Some(time(5)), None));
    case.pass();
    let topic = Topic::retry(part("db"), "disk");
    assert!(case.unit("web/0").callbacks[&topic].due);
}

/// A worker with as many callbacks as it may have is asked if that replaces one of them.
#[test]
fn a_worker_is_asked_to_retry_within_its_limit_of_callbacks() {
    let call = |target: &str| {
        let topic = Topic::retry(part("db"), target);
        let unit = unit("web/0");
        let command = Command::AddCallback { unit, topic, at: time(90), operation_id: "".into() };
        Request { id: None, command }
    };
    for (own, most) in [("peer", "asked"), ("else", "not asked")] {
        let mut case = Case::new();
        case.run(connect());
        case.run(error("peer", Class::Dependency, Some(5000)));
        case.commit(|draft| {
            apply(draft, &call(own)).unwrap();
            for n in 1..CALLBACKS_PER_UNIT_MAX {
                apply(draft, &call(&format!("t{n}"))).unwrap();
            }
        });
        case.at(6).pass();
        let callbacks = &case.unit("web/0").callbacks;
        assert_eq!(callbacks.len(), CALLBACKS_PER_UNIT_MAX);
        let asked = callbacks.values().filter(|callback| callback.due).count();
        assert_eq!(asked, usize::from(most == "asked"), "{own}");
    }
}

#[test]
fn a_new_session_plans_the_retries_that_are_not_planned() {
    let connect_again = || Command::Connect(newcomer("web/0", None), session(1));
    let asked = |case: &Case, target: &str| fault(case, target).unwrap().ask_time;
    // Planned already: it keeps its place in a second that is full.
    let mut case = Case::new();
    case.limits.faults.retries_per_second_max = 1;
    case.run(connect());
    case.run(error("peer", Class::Dependency, Some(5000)));
    case.at(3).run(connect_again());
    assert_eq!(asked(&case, "peer"), Some(time(6)));
    // Held: it waits for an operator.
    let mut case = Case::new();
    case.run(connect());
    case.run(error("disk", Class::Blocked, Some(5000)));
    case.run(connect_again());
    assert_eq!(asked(&case, "disk"), None);
    // No session was there to be asked.
    let unasked = || {
        let mut case = Case::new();
        case.run(error("peer", Class::Dependency, Some(5000)));
        case.at(6).pass();
        assert_eq!(asked(&case, "peer"), None);
        case
    };
    let mut case = unasked();
    case.at(7).run(connect());
    assert_eq!(asked(&case, "peer"), Some(time(7)));
    // It ended in the same commit.
    let mut case = unasked();
    case.at(7).commit(|draft| {
        for command in [resolve(reporter("web/0"), ""), connect()] {
            apply(draft, &Request { id: None, command }).unwrap();
        }
    });
    assert_eq!(fault(&case, "peer"), None);
}

#[test]
fn the_open_errors_of_a_unit_are_bounded() {
    let mut case = Case::new();
    case.limits = Limits { faults_per_unit_max: 2, ..Limits::default() };
    case.run(error("a", Class::Transient, None));
    case.run(error("b", Class::Transient, None));
    let what = "open faults of unit web/0".to_string();
    let expected = LimitExceeded { limit: "faults_per_unit_max", what, max: 2 };
    let refused = case.ask(error("c", Class::Transient, None));
    assert_eq!(refused, Err(Rejected::LimitExceeded(expected)));
    case.run(error("b", Class::Transient, None));
}

#[test]
fn a_retry_is_planned_in_a_second_that_is_not_full() {
    let mut case = Case::new();
    let faults = FaultSettings { retries_per_second_max: 1, ..FaultSettings::default() };
    case.limits = Limits { faults, ..Limits::default() };
    for (target, at) in [("a", 6), ("b", 7), ("c", 8)] {
        case.run(error(target, Class::Transient, Some(5000)));
        let planned = fault(&case, target).unwrap();
        assert_eq!((planned.retry_time, planned.ask_time), (Some(time(at)), Some(time(at))));
    }
}

/// The retry of a repeated error takes the place of the one before.
#[test]
fn a_repeated_error_may_be_retried_in_the_same_second() {
    let mut case = Case::new();
    let faults = FaultSettings { retries_per_second_max: 1, ..FaultSettings::default() };
    case.limits = Limits { faults, ..Limits::default() };
    for _ in 0..3 {
        case.run(error("a", Class::Transient, Some(5000)));
        assert_eq!(fault(&case, "a").unwrap().retry_time, Some(time(6)));
    }
}

#[test]
fn a_hold_is_released_once_in_the_commit_of_its_error() {
    let mut case = Case::new();
    case.run(error("disk", Class::Blocked, None));
    let told = case.at(2).commit(|draft| {
        let mut run = |command| apply(draft, &Request { id: None, command }).unwrap();
        run(error("disk", Class::Blocked, None));
        run(release("db", Resolution::Retry))
    });
    assert_eq!(told.removed, 1);
}

/// As after the limits were lowered.
#[test]
fn a_released_fault_that_is_unreachable_at_once_has_no_further_stage() {
    let mut case = Case::new();
    case.run(error("peer", Class::Transient, None));
    assert!(fault(&case, "peer").unwrap().stage_ends.is_some());
    case.limits.faults = settings((1, 0), (1, 0));
    case.at(2).run(release("db", Resolution::Retry));
    let fault = fault(&case, "peer").unwrap();
    assert_eq!((fault.stage, fault.stage_ends), (Stage::Unreachable, None));
}

#[test]
fn the_level_of_an_error_that_was_weaker_begins_when_it_decides() {
    let mut case = Case::new();
    case.run(error("peer", Class::Dependency, None));
    assert_eq!(case.state.head().summary.since, time(1));
    case.at(5).run(push("web/1", Level::Error, None));
    case.at(9).run(Command::RemoveUnit(unit("web/1")));
    let summary = &case.state.head().summary;
    assert_eq!((summary.level, summary.since), (Level::Waiting, time(9)));
}

/// An error that a worker reported after it announced its stop is about the stop.
#[test]
fn a_new_incarnation_is_not_asked_to_retry_what_failed_while_the_one_before_stopped() {
    let mut case = Case::new();
    case.run(connect());
    case.run(Command::AnnounceStop(reporter("web/0")));
    case.run(error("peer", Class::Dependency, Some(5000)));
    case.at(6).pass();
    assert_eq!(case.unit("web/0").callbacks.len(), 1);
    case.run(Command::Connect(newcomer("web/0", None), session(1)));
    assert_eq!((fault(&case, "peer"), case.unit("web/0").callbacks.len()), (None, 0));
}

fn settings(soft: (u32, u64), hard: (u32, u64)) -> FaultSettings {
    FaultSettings {
        soft_count: soft.0,
        soft_after: seconds(soft.1),
        hard_count: hard.0,
        hard_after: seconds(hard.1),
        ..FaultSettings::default()
    }
}

#[test]
fn a_fault_has_the_stage_of_its_age_or_of_its_attempts() {
    let staged = |limits: FaultSettings, times: &[u64]| {
        let mut case = Case::new();
        case.limits.faults = limits;
        let found = times.iter().map(|at| {
            case.at(*at).run(error("peer", Class::Transient, None));
            let fault = fault(&case, "peer").unwrap();
            (fault.stage, fault.stage_ends, fault.reason())
        });
        found.collect::<Vec<_>>()
    };
    let by_age = staged(settings((100, 30), (200, 60)), &[1, 30, 31, 60, 61]);
    let quiet = (Stage::Quiet, Some(time(31)), "Retrying");
    let waiting = (Stage::Waiting, Some(time(61)), "Retrying");
    let unreachable = (Stage::Unreachable, None, "Failing");
    assert_eq!(by_age, [quiet, quiet, waiting, waiting, unreachable]);

    let by_attempts = staged(settings((2, 900), (4, 901)), &[1, 2, 3, 4]);
    let waiting = (Stage::Waiting, Some(time(902)), "Retrying");
    let quiet = (Stage::Quiet, Some(time(901)), "Retrying");
    assert_eq!(by_attempts, [quiet, waiting, waiting, unreachable]);

    let mut case = Case::new();
    case.run(error("peer", Class::Interrupted, None));
    assert_eq!(fault(&case, "peer").unwrap().reason(), "Interrupted");
}

#[test]
fn a_weaker_error_is_counted_while_the_hold_continues() {
    let mut case = Case::new();
    case.run(error("disk", Class::Blocked, None));
    case.at(5).run(error("disk", Class::Transient, None));
    let held = fault(&case, "disk").unwrap();
    assert_eq!((held.class(), held.count, held.last), (Class::Blocked, 2, time(5)));
}

#[test]
fn an_error_with_an_action_for_a_person_is_counted() {
    for (action, count) in [("", 0), ("add a disk", 1)] {
        let mut case = Case::new();
        let mut error = mk_error(Class::Blocked, None);
        error.action = action.into();
        error.finding.remedy = "".into();
        case.run(error_of("disk", error));
        assert_eq!(case.state.head().summary.totals.asking, count, "{action:?}");
    }
}

#[test]
fn the_texts_of_an_error_are_counted() {
    let counted = |message: &str| {
        let mut case = Case::new();
        let mut error = mk_error(Class::Transient, None);
        error.evidence.message = message.into();
        case.run(error_of("peer", error));
        let shown = fault(&case, "peer").unwrap().shown.len() as u64;
        (case.state.head().counts.unwrap().record_bytes, shown)
    };
    let (short, long) = (counted("no"), counted(&"no".repeat(50)));
    assert_eq!(long.0 - short.0, 98 + long.1 - short.1);
}

#[test]
fn the_stage_of_a_fault_ends_later_after_an_outage() {
    let mut case = Case::new();
    case.run(error("early", Class::Transient, None));
    case.at(2000).run(error("late", Class::Transient, None));
    let ends = |case: &Case, target| case.state.deadlines().of_stage(&fault(case, target).unwrap());
    let (early, late) = (ends(&case, "early").unwrap(), ends(&case, "late"));
    case.state.note_outages(&outages(5, 1000));
    let moved = early.after(seconds(995));
    assert_eq!((ends(&case, "early"), ends(&case, "late")), (Some(moved), late));
}

/// The errors are written in the commit that resolves some of them.
#[test]
fn a_success_resolves_the_errors_of_its_component_in_the_same_commit() {
    let resolve_in = |component: &str| Command::ResolveError {
        reporter: reporter("web/0"),
        component: Some(part(component)),
        target: None,
        generation: "".into(),
    };
    let elsewhere = Command::ReportError {
        reporter: reporter("web/0"),
        component: part("net"),
        target: "peer".into(),
        error: mk_error(Class::Transient, None).into(),
    };
    let mut case = Case::new();
    case.run(error("disk", Class::Transient, None));
    let told = case.at(2).commit(|draft| {
        let mut run = |command| apply(draft, &Request { id: None, command }).unwrap();
        run(error("disk", Class::Transient, None));
        run(error("new", Class::Transient, None));
        run(elsewhere);
        run(resolve_in("db"))
    });
    assert_eq!(told.removed, 2);
    let left: Vec<_> = case.state.faults().iter().map(|(key, _)| key.component.clone()).collect();
    assert_eq!(left, [part("net")]);
}

#[test]
fn a_waiting_error_of_a_lost_unit_contributes_no_more() {
    let mut case = Case::new();
    case.limits.faults = settings((1, 900), (4, 901));
    case.run(connect());
    case.run(error("peer", Class::Transient, None));
    assert_eq!(fault(&case, "peer").unwrap().level(), Some(Level::Waiting));
    let ranked = |case: &Case| case.state.ranked().cloned().collect::<BTreeSet<_>>();
    assert_eq!(ranked(&case).len(), 1);
    case.run(error("gone", Class::Fatal, None));
    case.commit(|draft| lose_unit(draft, &unit("web/0")));
    assert_eq!(ranked(&case), case.state.contributions_from_scratch());
    let count: u32 = case.state.head().summary.totals.contributions.iter().sum();
    assert_eq!(count as usize, ranked(&case).len());
    let faults: Vec<_> = ranked(&case).into_iter().filter_map(|rank| rank.fault).collect();
    assert_eq!(faults.iter().map(|key| &*key.target).collect::<Vec<_>>(), ["gone"]);
}
