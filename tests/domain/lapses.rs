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
        assert_eq!(operation(&found(state)).next_due(), due, "{state}");
    }
}

#[test]
fn an_operation_fails_just_after_its_deadline() {
    let mut operation = operation(&found("ready")).clone();
    operation.lapse(&id(), time(100));
    assert_eq!((operation.state, operation.deadline_exceeded), (State::Ready, false));
    operation.lapse(&id(), just_after(100));
    assert_eq!((operation.state, operation.reason), (State::Failed, Reason::DeadlineExceeded));
}

/// Its holder goes on after the deadline; the end of the lease is then no interruption too many.
#[test]
fn an_operation_that_is_late_fails_for_its_deadline_when_its_lease_lapses() {
    let case = begun_as("web/0", NewOperation { deadline: Some(time(5)), ..new_operation() });
    let mut operation = operation(&case).clone();
    operation.lapse(&id(), time(6));
    assert_eq!((operation.state, operation.deadline_exceeded), (State::Running, true));
    operation.lapse(&id(), time(11));
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
    assert_eq!(operation(&left).next_due(), Some(ends));
    let mut operation = operation(&left).clone();
    operation.lapse(&id(), Timestamp::new(ends.millis() - 1));
    assert!(!operation.neglected);
    operation.lapse(&id(), ends);
    assert!(operation.neglected);
    assert_eq!(operation.next_due(), None);
}

#[test]
fn a_data_loss_ends_an_operation_that_is_being_cancelled() {
    let mut case = found("cancelling");
    case.commit(|draft| mark_uncertain(draft, 1));
    let after = operation(&case);
    assert_eq!((after.state, after.reason), (State::Abandoned, Reason::Cancelled));
    assert!(after.lease.is_none());
}
