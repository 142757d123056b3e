//! Single cases of the limits on statuses: what a set adds, and what leaves with it.

use std::sync::Arc;

use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::leadership::Claim;
use bellwether::domain::level::Level;
use bellwether::domain::limits::OWN_STATUSES_MAX;
use bellwether::domain::name::PartName;
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::Outcome;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;

use crate::case::{Case, new_status, part, push, reporter, unit};

fn status_of(component: &str, key: &str) -> NewStatus {
    NewStatus { component: part(component), ..new_status(key, Level::Active, None) }
}

/// Returns the pull set of a component.
fn set_of(component: &str, keys: &[&str]) -> Command {
    let set = keys.iter().map(|key| status_of(component, key)).collect();
    Command::Replace(reporter("web/0"), Some(part(component)), set)
}

/// Returns the set of the application itself, of so many statuses from this one on.
fn own(component: Option<PartName>, from: usize, count: usize) -> Command {
    let claim = Claim { unit: unit("web/0"), lease_epoch: 1, decided_outside: false };
    let of = component.clone().unwrap_or_default();
    let status = |n: usize| NewStatus {
        component: of.clone(),
        ..new_status(&n.to_string(), Level::Active, None)
    };
    let set = (from..from + count).map(status).collect();
    Command::ReplaceApplicationStatuses(claim, component, set)
}

fn led() -> Case {
    let mut case = Case::new();
    case.run(Command::ClaimLeadership(reporter("web/0"), None));
    case
}

#[track_caller]
fn refuses(answer: Result<Outcome, Rejected>, expected: &str) {
    match answer {
        Err(Rejected::LimitExceeded(refused)) => {
            assert_eq!(refused.limit, expected);
            // The limit on the application's own statuses is a constant.
            let can_be_raised = refused.to_string().contains("or raise the limit");
            assert_eq!(can_be_raised, expected != "own_statuses_max", "{refused}");
        }
        other => panic!("{expected}: {other:?}"),
    }
}

#[test]
fn the_keys_of_a_component_are_bounded_and_those_that_leave_make_room() {
    let mut case = Case::new();
    case.limits.keys_per_component_max = 2;
    refuses(case.ask(set_of("db", &["a", "b", "c"])), "keys_per_component_max");
    case.run(set_of("db", &["a", "b"]));
    case.run(set_of("net", &["a", "b"]));
    // A set of other keys: the former ones leave.
    case.run(set_of("db", &["c", "d"]));
    let more = Command::Report(reporter("web/0"), Kind::Push, status_of("db", "e"));
    refuses(case.ask(more), "keys_per_component_max");
    case.run(Command::Report(reporter("web/0"), Kind::Push, status_of("dns", "e")));
}

#[test]
fn the_statuses_of_the_application_itself_are_bounded_and_replaced_at_the_limit() {
    let mut case = led();
    refuses(case.ask(own(None, 0, OWN_STATUSES_MAX + 1)), "own_statuses_max");
    case.run(own(None, 0, OWN_STATUSES_MAX));
    case.run(own(None, 1, OWN_STATUSES_MAX));
    // A set of a component leaves those of other components where they are.
    refuses(case.ask(own(Some(part("db")), 0, 1)), "own_statuses_max");
    case.run(own(None, 0, 1));
    case.run(own(Some(part("db")), 0, OWN_STATUSES_MAX - 1));
}

#[test]
fn the_statuses_of_the_application_itself_count_among_all() {
    let mut case = led();
    case.limits.total.statuses = 6;
    case.run(own(None, 0, 4));
    refuses(case.ask(own(Some(part("db")), 0, 3)), "statuses_total_max");
    case.run(own(Some(part("db")), 0, 2));
    // At the limit, those that leave make room.
    case.run(own(None, 4, 4));
}

/// As after the limit was lowered.
#[test]
fn a_text_over_the_limit_of_bytes_is_replaced_by_one_of_the_same_length() {
    let says = |message: &str| {
        let report = Report { message: message.into(), ..Report::default() };
        let new = NewStatus { report: Arc::new(report), ..status_of("", "") };
        Command::Report(reporter("web/0"), Kind::Push, new)
    };
    let mut case = Case::new();
    case.run(says("three"));
    case.limits.total.record_bytes = 1;
    case.run(says("seven"));
    refuses(case.ask(says("eleven")), "record_bytes_total_max");
    case.run(says("four"));
    case.run(push("web/0", Level::Active, None));
}

/// The count of the keys of a component is kept for the commit. The statuses of another component
/// are as many as a component may have: with fewer the keys are not counted.
#[test]
fn the_keys_of_a_component_are_bounded_within_a_commit() {
    let mut case = Case::new();
    case.limits.keys_per_component_max = 2;
    case.run(set_of("net", &["a", "b"]));
    let report = |key| Command::Report(reporter("web/0"), Kind::Push, status_of("db", key));
    let clear = |key| Command::Clear {
        reporter: reporter("web/0"),
        component: Some(part("db")),
        key: Some(part(key)),
        kind: None,
    };
    case.commit(|draft| {
        let mut ask = |command| apply(draft, &Request { id: None, command });
        for accepted in [report("a"), report("b"), report("b"), clear("a"), report("c")] {
            ask(accepted).unwrap();
        }
        refuses(ask(report("d")), "keys_per_component_max");
    });
}
