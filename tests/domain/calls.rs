//! Each call on an operation in each of its states, by the table of the transitions.

use bellwether::domain::classify::finding::Class;
use bellwether::domain::command::Command;
use bellwether::domain::level::Level;
use bellwether::domain::limits::OPERATION_EVENTS_MAX;
use bellwether::domain::name::OperationId;
use bellwether::domain::operation::command::{
    NewOperation, Observed, OperationAction, OperationCommand, PayloadState,
};
use bellwether::domain::operation::refused::Refused;
use bellwether::domain::operation::{Operation, Reason, State};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::Outcome;

use crate::case::{Case, failure, new_operation, push, seconds, time, unit};

pub fn id() -> OperationId {
    OperationId::new("up-v2").unwrap()
}

pub fn operation(case: &Case) -> &Operation {
    case.state.operations().get(&id()).unwrap()
}

pub fn call(case: &mut Case, by: &str, action: OperationAction) -> Result<Outcome, Rejected> {
    call_on(case, id().as_str(), by, action)
}

/// Calls another operation than the one of the case.
pub fn call_on(
    case: &mut Case,
    id: &str,
    by: &str,
    action: OperationAction,
) -> Result<Outcome, Rejected> {
    let id = OperationId::new(id).unwrap();
    case.ask(Command::Operate(OperationCommand { id, by: unit(by), action }))
}

/// Begins the operation of a unit, or of the application; an operator leaves it to a worker.
fn begun(by: &str, of: &str) -> Case {
    begun_as(by, NewOperation { unit: unit(of), ..new_operation() })
}

pub fn begun_as(by: &str, new: NewOperation) -> Case {
    let mut case = Case::new();
    call(&mut case, by, OperationAction::Begin(Box::new(new))).unwrap();
    case
}

pub fn fail(fence: u64, class: Class) -> OperationAction {
    OperationAction::Fail { fence, failure: failure(class), touched: true, retry_after: None }
}

pub fn acquire(verify: bool, payload: PayloadState) -> OperationAction {
    OperationAction::Acquire { verify, payload }
}

/// The states in which a call finds the operation.
pub const FOUND: [&str; 14] = [
    "ready",
    "running",
    "verifying",
    "interrupted",
    "waiting",
    "blocked",
    "succeeded",
    "failed",
    "late",
    "cancelling",
    "cancelled",
    "not undone",
    "unrecoverable",
    "removed",
];

pub fn found(state: &str) -> Case {
    let release = || OperationAction::Release { fence: 1 };
    let actions = match state {
        "ready" | "running" | "late" | "removed" => Vec::new(),
        "interrupted" => vec![release()],
        "verifying" => vec![release(), acquire(true, PayloadState::Intact)],
        "waiting" => vec![fail(1, Class::Transient)],
        "blocked" => vec![fail(1, Class::Blocked)],
        "failed" => vec![fail(1, Class::Fatal)],
        "succeeded" => vec![OperationAction::Complete { fence: 1 }],
        "cancelling" => vec![OperationAction::Cancel],
        "cancelled" => vec![release(), OperationAction::Cancel],
        "not undone" => vec![OperationAction::Cancel, fail(1, Class::Fatal)],
        "unrecoverable" => vec![release(), acquire(false, PayloadState::Missing)],
        _ => unreachable!("{state}"),
    };
    let by = if state == "ready" { "" } else { "web/0" };
    let mut case = begun(by, if state == "removed" { "web/0" } else { "" });
    for action in actions {
        let is_lost =
            matches!(action, OperationAction::Acquire { payload: PayloadState::Missing, .. });
        let by = if matches!(action, OperationAction::Cancel) { "" } else { "web/0" };
        assert_eq!(call(&mut case, by, action).is_err(), is_lost, "{state}");
    }
    if state == "late" {
        // Its lease lapses once more than is tolerated.
        case.at(11).pass();
        assert_eq!(operation(&case).reason, Reason::InterruptionsExhausted);
    }
    if state == "removed" {
        case.run(Command::RemoveUnit(unit("web/0")));
        assert_eq!(operation(&case).reason, Reason::Orphaned);
    }
    case
}

/// Checks in which states a call leads where. In all others it is refused, and without a trace.
fn check(
    call_name: &str,
    action: impl Fn(u64) -> OperationAction,
    leads: &[(&str, State)],
    repeats: &[&str],
) {
    for state in FOUND {
        let mut case = found(state);
        let before = operation(&case).clone();
        let by = if matches!(action(0), OperationAction::Acquire { .. }) { "web/0" } else { "" };
        let answer = call(&mut case, by, action(before.fence));
        let after = operation(&case);
        match leads.iter().find(|(from, _)| *from == state) {
            Some((_, to)) => {
                assert!(answer.unwrap().changed, "{call_name} when {state}");
                assert_eq!(after.state, *to, "{call_name} when {state}");
                assert_ne!(after.history, before.history, "{call_name} when {state}");
            }
            None => {
                assert_eq!(answer.is_ok(), repeats.contains(&state), "{call_name} when {state}");
                assert_eq!(*after, before, "{call_name} when {state}");
            }
        }
    }
}

#[test]
fn an_operation_stops_when_its_holder_releases_it() {
    let to = State::Interrupted;
    let leads = [("running", to), ("verifying", to), ("cancelling", State::Abandoned)];
    check(
        "release",
        |fence| OperationAction::Release { fence },
        &leads,
        &["interrupted", "cancelled"],
    );
}

#[test]
fn an_operation_succeeds_when_its_last_holder_completes_it() {
    let done = |state| (state, State::Succeeded);
    let leads = ["running", "interrupted", "waiting", "cancelling", "late"].map(done);
    check("complete", |fence| OperationAction::Complete { fence }, &leads, &["succeeded"]);
}

#[test]
fn an_operation_is_verified_by_its_holder_alone() {
    let verify = |observed| move |fence| OperationAction::Verify { fence, observed };
    check("verify", verify(Observed::Applied), &[("verifying", State::Succeeded)], &[]);
    // The work is deterministic, so that doing it again is safe.
    for observed in [Observed::NotApplied, Observed::Undetermined] {
        check("verify", verify(observed), &[("verifying", State::Running)], &[]);
    }
}

#[test]
fn an_operator_cancels_an_operation_that_is_not_done() {
    let gone = |state| (state, State::Abandoned);
    let mut leads = Vec::from([("running", State::Cancelling), ("verifying", State::Cancelling)]);
    let states = ["ready", "interrupted", "waiting", "blocked", "failed", "late"];
    leads.extend(["not undone", "unrecoverable"].map(gone));
    leads.extend(states.map(gone));
    check("cancel", |_| OperationAction::Cancel, &leads, &["cancelling", "cancelled"]);
}

#[test]
fn an_operator_retries_an_operation_that_is_blocked_or_failed() {
    let leads = ["blocked", "failed", "late"].map(|state| (state, State::Ready));
    check("retry", |_| OperationAction::Retry, &leads, &["ready"]);
}

#[test]
fn a_worker_acquires_an_operation_that_is_free() {
    let intact = |verify| move |_| acquire(verify, PayloadState::Intact);
    check("acquire", intact(false), &["ready", "interrupted"].map(|s| (s, State::Running)), &[]);
    check("verify", intact(true), &["ready", "interrupted"].map(|s| (s, State::Verifying)), &[]);
}

#[test]
fn an_operation_to_verify_is_not_completed() {
    let mut case = found("verifying");
    let refused = call(&mut case, "", OperationAction::Complete { fence: 2 }).unwrap_err();
    assert!(refused.to_string().contains("VerifyOperation"), "{refused}");
}

#[test]
fn an_operation_that_was_touched_stays_so() {
    for class in [Class::Interrupted, Class::Transient] {
        let mut case = begun("web/0", "");
        let attempts = [(false, false), (true, true), (true, true), (false, true)];
        for (fence, (touched, stays)) in (1..).zip(attempts) {
            let action = match fail(fence, class) {
                OperationAction::Fail { fence, failure, .. } => {
                    let retry_after = Some(seconds(0));
                    OperationAction::Fail { fence, failure, touched, retry_after }
                }
                other => other,
            };
            call(&mut case, "web/0", action).unwrap();
            assert_eq!(operation(&case).touched, stays, "{class:?}, attempt {fence}");
            call(&mut case, "web/0", acquire(false, PayloadState::Intact)).unwrap();
        }
    }
}

#[test]
fn a_retry_replaces_a_deadline_that_has_passed_and_no_other() {
    for (now, deadline) in [(50, 100), (100, 100), (101, 200)] {
        let mut case = found("blocked");
        case.at(now);
        call(&mut case, "", OperationAction::Retry).unwrap();
        assert_eq!(operation(&case).deadline, Some(time(deadline)), "at {now}");
    }
}

#[test]
fn an_operation_without_a_holder_is_completed_by_its_last_one_alone() {
    let new = || NewOperation { interruptions_max: 9, ..new_operation() };
    for fence in [1, 2] {
        let mut case = begun_as("web/0", new());
        case.at(11).pass();
        if fence == 2 {
            call(&mut case, "web/1", acquire(false, PayloadState::Intact)).unwrap();
            case.at(21).pass();
        }
        assert_eq!((operation(&case).fence, operation(&case).holder()), (fence, None));
        let (last, other) = if fence == 1 { ("web/0", "web/1") } else { ("web/1", "web/0") };
        let complete = || OperationAction::Complete { fence };
        let refused = call(&mut case, other, complete()).unwrap_err();
        assert!(matches!(refused, Rejected::Operation(Refused::StaleFence { .. })), "{refused}");
        assert!(refused.to_string().contains("is of another worker"), "{refused}");
        call(&mut case, last, complete()).unwrap();
        assert_eq!(operation(&case).state, State::Succeeded);
    }
}

/// The worker does not hold the operation in the pause, so a failure there is no attempt.
#[test]
fn work_that_is_done_in_the_pause_after_a_failure_is_done() {
    let mut case = begun_as("web/0", new_operation());
    // A unit that exists is called back.
    case.run(push("web/0", Level::Active, None));
    let failed = |retry_after| OperationAction::Fail {
        fence: 1,
        failure: failure(Class::Unclassified),
        touched: true,
        retry_after,
    };
    case.at(2);
    call(&mut case, "web/0", failed(Some(seconds(60)))).unwrap();
    assert_eq!(case.unit("web/0").callbacks.len(), 1);
    case.at(20);
    let before = operation(&case).clone();
    assert_eq!((before.attempts_failed, before.retry_time), (1, Some(time(62))));
    call(&mut case, "web/0", failed(None)).unwrap_err();
    call(&mut case, "web/0", acquire(false, PayloadState::Intact)).unwrap_err();
    assert_eq!(*operation(&case), before, "neither shorter nor one more attempt");
    let done = || OperationAction::Complete { fence: 1 };
    let refused = call(&mut case, "web/1", done()).unwrap_err();
    assert!(matches!(refused, Rejected::Operation(Refused::StaleFence { .. })), "{refused}");
    call(&mut case, "web/0", done()).unwrap();
    let after = operation(&case);
    assert_eq!((after.state, after.attempts_failed), (State::Succeeded, 0));
    assert_eq!(after.retry_time, None);
    assert!(case.unit("web/0").callbacks.is_empty(), "no retry of what is done");
}

/// The progress of the attempt before was unknown; that of this one is not.
#[test]
fn a_failed_attempt_is_followed_by_one_without_a_check() {
    let mut case = begun_as("web/0", NewOperation { deterministic: false, ..new_operation() });
    call(&mut case, "web/0", OperationAction::Release { fence: 1 }).unwrap();
    let next = |case: &mut Case, state: State| {
        call(case, "web/0", acquire(false, PayloadState::Intact)).unwrap();
        assert_eq!(operation(case).state, state);
    };
    next(&mut case, State::Verifying);
    let not_applied = OperationAction::Verify { fence: 2, observed: Observed::NotApplied };
    call(&mut case, "web/0", not_applied).unwrap();
    call(&mut case, "web/0", fail(2, Class::Transient)).unwrap();
    next(case.at(9), State::Running);
}

#[test]
fn an_operation_keeps_its_last_transitions() {
    let mut case = begun("web/0", "");
    for fence in 1..=OPERATION_EVENTS_MAX as u64 {
        call(&mut case, "web/0", OperationAction::Release { fence }).unwrap();
        call(&mut case, "web/0", acquire(false, PayloadState::Intact)).unwrap();
    }
    let history = &operation(&case).history;
    assert_eq!(history.len(), OPERATION_EVENTS_MAX);
    let fences = [history.first(), history.last()].map(|event| event.unwrap().fence);
    assert_eq!(fences, [33, 65]);
}
