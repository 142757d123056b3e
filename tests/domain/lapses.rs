//! Single cases of operations that time alone changes: at which instant, and in which state.

use bellwether::domain::data_loss::mark_uncertain;
use bellwether::domain::limits::OPERATION_UNCLAIMED_MAX;
use bellwether::domain::operation::command::NewOperation;
use bellwether::domain::operation::{Reason, State};
use bellwether::domain::time::Timestamp;

use crate::calls::{begun_as, found, id, operation};
use crate::case::{new_operation, time};

/// Returns the instant just after the given time in seconds.
fn just_after(seconds: u64) -> Timestamp {
    Timestamp::new(seconds * 1000 + 1)
}

#[test]
fn an_operation_is_looked_at_when_its_lease_or_its_deadline_ends() {
    // The lease of 10 s began at 1 s; the deadline, 100 s, is the last instant that is in time.
    for (state, due) in [
        ("running", Some(time(11))),
        ("ready", Some(just_after(100))),
        ("interrupted", Some(just_after(100))),
        ("blocked", None),
        ("succeeded", None),
        ("cancelled", None),
    ] {
        let case = found(state);
        assert_eq!(case.state.deadlines().of_operation(operation(&case)), due, "{state}");
    }
}

#[test]
fn an_operation_fails_just_after_its_deadline() {
    let case = found("ready");
    let (deadlines, mut operation) = (case.state.deadlines(), operation(&case).clone());
    operation.lapse(&id(), deadlines, time(100));
    assert_eq!((operation.state, operation.deadline_exceeded), (State::Ready, false));
    operation.lapse(&id(), deadlines, just_after(100));
    assert_eq!((operation.state, operation.reason), (State::Failed, Reason::DeadlineExceeded));
}

/// Its holder goes on after the deadline; the end of the lease is then no interruption too many.
#[test]
fn an_operation_that_is_late_fails_for_its_deadline_when_its_lease_lapses() {
    let case = begun_as("web/0", NewOperation { deadline: Some(time(5)), ..new_operation() });
    let (deadlines, mut operation) = (case.state.deadlines(), operation(&case).clone());
    operation.lapse(&id(), deadlines, time(6));
    assert_eq!((operation.state, operation.deadline_exceeded), (State::Running, true));
    operation.lapse(&id(), deadlines, time(11));
    assert_eq!((operation.state, operation.reason), (State::Failed, Reason::DeadlineExceeded));
}

#[test]
fn an_operation_waits_for_a_worker_from_its_begin_on() {
    let without_deadline = || NewOperation { deadline: None, ..new_operation() };
    let held = begun_as("web/0", without_deadline());
    assert_eq!(operation(&held).unclaimed_since, None);
    let left = begun_as("", without_deadline());
    assert_eq!(operation(&left).unclaimed_since, Some(time(1)));
    let ends = time(1).after(OPERATION_UNCLAIMED_MAX);
    let (deadlines, mut operation) = (left.state.deadlines(), operation(&left).clone());
    assert_eq!(deadlines.of_operation(&operation), Some(ends));
    operation.lapse(&id(), deadlines, Timestamp::new(ends.millis() - 1));
    assert!(!operation.neglected);
    operation.lapse(&id(), deadlines, ends);
    assert!(operation.neglected);
    assert_eq!(deadlines.of_operation(&operation), None);
}

#[test]
fn a_data_loss_ends_an_operation_that_is_being_cancelled() {
    let mut case = found("cancelling");
    case.commit(|draft| mark_uncertain(draft, 1));
    let after = operation(&case);
    assert_eq!((after.state, after.reason), (State::Abandoned, Reason::Cancelled));
    assert!(after.lease.is_none());
}
