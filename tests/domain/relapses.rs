//! Single cases of errors that alternate with successes.

use std::sync::Arc;

use bellwether::domain::classify::finding::Class;
use bellwether::domain::command::Command;
use bellwether::domain::fault::{Fault, FaultKey, Resolution};
use bellwether::domain::history::Cause;
use bellwether::domain::level::Level;
use bellwether::domain::limits::FaultSettings;

use crate::case::{Case, part, push, reporter, time, unit};
use crate::faults::mk_error;

fn key() -> FaultKey {
    FaultKey { unit: unit("web/0"), component: part("db"), target: Arc::from("peer") }
}

fn fails(case: &mut Case, class: Class) {
    let (FaultKey { component, target, .. }, error) = (key(), mk_error(class, None));
    case.run(Command::ReportError {
        reporter: reporter("web/0"),
        component,
        target,
        error: error.into(),
    });
}

/// Reports a success; returns whether it changed anything. It resolves an error that still shows,
/// each time.
fn works(case: &mut Case) -> bool {
    let FaultKey { component, target, .. } = key();
    let (component, target, generation) = (Some(component), Some(target), "".into());
    let reporter = reporter("web/0");
    let open = case.state.faults().get(&key()).is_some();
    let told = case.run(Command::ResolveError { reporter, component, target, generation });
    assert_eq!(told.removed, u32::from(open));
    told.changed
}

fn fault(case: &Case) -> Option<Fault> {
    case.state.faults().get(&key()).map(|fault| (**fault).clone())
}

/// Returns an application whose target has failed and worked in turn at 1, 11, 21 and 31 seconds,
/// and has failed once more.
fn alternating(class: Class) -> Case {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    for turn in 0..3 {
        fails(case.at(1 + 10 * turn), class);
        assert_eq!(case.shown().0, Level::Active);
        works(case.at(2 + 10 * turn));
        assert_eq!(fault(&case), None);
    }
    fails(case.at(31), class);
    case
}

#[test]
fn errors_that_alternate_with_successes_show_waiting_until_none_came_for_long() {
    let mut case = alternating(Class::Transient);
    let text = "failing on and off since 1970-01-01T00:00:02Z: peer: ";
    assert!(case.shown().1.starts_with(text), "{:?}", case.shown());
    let open = fault(&case).unwrap();
    assert_eq!((open.level(), open.reason()), (Some(Level::Waiting), "Intermittent"));
    // A success does not hide it; further ones are no news.
    assert!(works(case.at(32)));
    assert!(!works(case.at(33)));
    assert_eq!(case.shown().0, Level::Waiting);
    let open = fault(&case).unwrap();
    assert_eq!((open.retry_time, open.ask_time, open.attempts), (None, None, 0));
    // Another error puts the end off, and changes nothing that is shown.
    fails(case.at(100), Class::Transient);
    assert!(case.last.as_ref().unwrap().events.is_empty());
    works(case.at(101));
    case.at(700).pass();
    assert_eq!(case.shown().0, Level::Waiting);
    assert_eq!(case.state.next_due(), Some(time(701)));
    case.at(701).pass();
    assert_eq!((case.shown().0, fault(&case)), (Level::Active, None));
    assert!(case.last.as_ref().unwrap().events.iter().any(|e| e.cause == Cause::ErrorResolved));
    // It begins anew.
    fails(case.at(702), Class::Transient);
    assert_eq!(case.shown().0, Level::Active);
}

#[test]
fn an_intermittent_fault_becomes_an_error_when_the_successes_stop() {
    let mut case = alternating(Class::Transient);
    case.at(600).pass();
    assert_eq!(case.shown().0, Level::Waiting);
    case.at(631).pass();
    assert_eq!(case.shown().0, Level::Error);
    works(case.at(640));
    assert_eq!(case.shown().0, Level::Waiting);
}

#[test]
fn an_operator_ends_an_intermittent_fault_that_works() {
    let mut case = alternating(Class::Transient);
    works(&mut case);
    let (unit, component, why) = (unit("web/0"), part("db"), "mended".into());
    let resolution = Resolution::Retry;
    case.run(Command::ResolveHold { unit, component, resolution, why });
    assert_eq!((case.shown().0, fault(&case)), (Level::Active, None));
    assert!(case.last.as_ref().unwrap().events.iter().any(|e| e.cause == Cause::HoldRetried));
}

#[test]
fn rare_errors_and_those_that_count_as_no_attempt_do_not_alternate() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    for turn in 0..10 {
        fails(case.at(1 + 250 * turn), Class::Transient);
        works(case.at(2 + 250 * turn));
        assert_eq!((case.shown().0, fault(&case)), (Level::Active, None));
    }
    assert_eq!(alternating(Class::Throttled).shown().0, Level::Active);
    let mut case = Case::new();
    case.limits.faults = FaultSettings { intermittent_count: 0, ..FaultSettings::default() };
    for turn in 0..10 {
        fails(case.at(1 + 10 * turn), Class::Transient);
        assert_eq!(fault(&case).unwrap().level(), None);
        works(case.at(2 + 10 * turn));
    }
}
