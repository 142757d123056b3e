//! The texts of an operation for people, in each state.

use bellwether::domain::classify::finding::Class;
use bellwether::domain::operation::command::{NewOperation, OperationAction, PayloadState};
use bellwether::domain::operation::{Failure, Operation};
use bellwether::domain::rank::Origin;
use bellwether::domain::silence::lose_unit;

use crate::calls::{FOUND, acquire, begun_as, call, call_on, fail, found, id, operation};
use crate::case::{Case, failure, new_operation, time, unit};

/// Returns level, reason and message, the action, and the next step with its time.
fn texts(operation: &Operation) -> String {
    let shown = match operation.status(&id(), time(1)) {
        Some(shown) => {
            let action = if shown.action.is_empty() {
                String::new()
            } else {
                format!("\n  action: {}", shown.action)
            };
            format!("{} {}: {}{action}", shown.level.word(), shown.reason, shown.message)
        }
        None => "no status".to_string(),
    };
    let (step, at) = operation.next_step();
    let at = at.map_or(String::new(), |at| format!(", at {} ms", at.millis()));
    let next = if step.is_empty() { String::new() } else { format!("\n  next: {step}{at}") };
    format!("{shown}{next}\n")
}

fn begun(new: NewOperation) -> Case {
    begun_as("web/0", new)
}

fn operate(case: &mut Case, by: &str, actions: Vec<OperationAction>) {
    for action in actions {
        call(case, by, action).unwrap();
    }
}

#[test]
fn an_operation_says_what_it_does_and_what_a_person_must_do() {
    let told: String =
        FOUND.map(|state| format!("{state}\n  {}", texts(operation(&found(state))))).concat();
    assert_eq!(told, EXPECTED);
}

const EXPECTED: &str = "\
ready
  maintenance OperationReady: upgrade to v2 is recorded, begins when a worker acquires it
  next: begins when a worker acquires it, at 100000 ms
running
  maintenance OperationRunning: upgrading to v2
  next: web/0 continues; interrupted if silent until then, at 11000 ms
verifying
  maintenance OperationVerifying: upgrade to v2: checking its progress
  next: web/0 reports what it found; interrupted if silent until then, at 11000 ms
interrupted
  maintenance OperationInterrupted: upgrade to v2 interrupted, resumes when a worker returns
  next: continues from its checkpoint when a worker acquires it, at 100000 ms
waiting
  maintenance OperationRetryWait: upgrade to v2 is tried again after 1 failure of 3: no
  next: a worker may acquire it for attempt 2 of 3, at 2142 ms
blocked
  blocked OperationBlocked: upgrade to v2 is blocked: no
  action: remove the cause; then retry or cancel operation up-v2, or begin another with \
    supersede and a reason
  next: nothing, until a person retries, cancels or supersedes it
succeeded
  active OperationSucceeded: upgraded to v2
failed
  error OperationFailed: upgrade to v2 failed: no
  action: retry or cancel operation up-v2, or begin another with supersede and a reason
  next: nothing, until a person retries, cancels or supersedes it
late
  error OperationFailed: upgrade to v2 failed: 1 interruption
  action: retry or cancel operation up-v2, or begin another with supersede and a reason
  next: nothing, until a person retries, cancels or supersedes it
cancelling
  waiting OperationCancelling: upgrade to v2 is cancelled, its holder has to stop
  next: web/0 stops; given up if silent until then, at 11000 ms
cancelled
  no status
not undone
  error OperationFailed: upgrade to v2 failed: it was cancelled, and could not be undone, the \
    last: no
  action: undo operation up-v2 by hand, then cancel it, or begin another with supersede and a \
    reason
  next: nothing, until a person cancels or supersedes it
unrecoverable
  error OperationAbandoned: upgrade to v2 is given up: its payload is missing or cannot be read
  action: begin another operation, or cancel up-v2
removed
  no status
";

#[test]
fn an_operation_says_when_it_is_late_left_alone_or_tried_again() {
    let release = || OperationAction::Release { fence: 1 };
    let fail = |class, message: &str| OperationAction::Fail {
        fence: 1,
        failure: Failure { message: message.into(), ..failure(class) },
        touched: true,
        retry_after: None,
    };
    let progress = |text: &str| {
        let progress = Some(text.into());
        OperationAction::Heartbeat { fence: 1, checkpoint: None, progress }
    };
    let mut told = String::new();
    let mut tell = |what: &str, case: &Case| {
        told += &format!("{what}\n  {}", texts(operation(case)));
    };

    let mut case = begun(new_operation());
    operate(&mut case, "web/0", vec![progress("3 of 5")]);
    tell("with progress", &case);
    operate(&mut case, "web/0", vec![release()]);
    tell("interrupted with progress", &case);

    let mut case = begun(NewOperation { deterministic: false, ..new_operation() });
    operate(&mut case, "web/0", vec![release()]);
    tell("with an unknown progress", &case);

    let mut case = begun(NewOperation { deadline: Some(time(5)), ..new_operation() });
    case.at(6).pass();
    tell("past its deadline", &case);
    operate(&mut case, "web/0", vec![release()]);
    tell("failed by its deadline", &case);

    let mut case = begun(NewOperation { deadline: None, ..new_operation() });
    operate(&mut case, "web/0", vec![fail(Class::Dependency, "no database")]);
    tell("without a dependency", &case);
    case.at(2000).pass();
    tell("waiting, and left alone", &case);

    let mut case = begun_as("", NewOperation { deadline: None, ..new_operation() });
    case.at(2000).pass();
    tell("recorded, and left alone", &case);

    let mut case = begun(new_operation());
    let next = NewOperation { target_version: "v3".into(), ..new_operation() };
    let other = OperationAction::Begin(next.into());
    assert!(call_on(&mut case, "other", "web/1", other).is_err());
    operate(&mut case, "web/0", vec![OperationAction::Complete { fence: 1 }]);
    tell("done, with a next target", &case);

    let mut case = begun_as("", new_operation());
    operate(&mut case, "", vec![acquire(false, PayloadState::Intact)]);
    tell("with a holder that is no unit", &case);

    assert_eq!(told, EXPECTED_ALSO);
}

const EXPECTED_ALSO: &str = "\
with progress
  maintenance OperationRunning: upgrading to v2 (3 of 5)
  next: web/0 continues; interrupted if silent until then, at 11000 ms
interrupted with progress
  maintenance OperationInterrupted: upgrade to v2 interrupted at 3 of 5, resumes when a worker \
    returns
  next: continues from its checkpoint when a worker acquires it, at 100000 ms
with an unknown progress
  maintenance OperationInterrupted: upgrade to v2 interrupted, resumes when a worker returns
  next: a worker that acquires it checks its progress, then continues, at 100000 ms
past its deadline
  error OperationDeadlineExceeded: upgrading to v2, past its deadline
  next: web/0 continues; interrupted if silent until then, at 11000 ms
failed by its deadline
  error OperationFailed: upgrade to v2 failed: not done before its deadline
  action: retry or cancel operation up-v2, or begin another with supersede and a reason
  next: nothing, until a person retries, cancels or supersedes it
without a dependency
  waiting OperationRetryWait: upgrade to v2 is tried again: no database
  next: a worker may acquire it for attempt 1 of 3, at 6288 ms
waiting, and left alone
  waiting OperationRetryWait: upgrade to v2: no worker has acquired it
  next: a worker may acquire it for attempt 1 of 3, at 6288 ms
recorded, and left alone
  waiting OperationReady: upgrade to v2 is recorded, no worker has acquired it
  next: begins when a worker acquires it
done, with a next target
  active OperationSucceeded: upgraded to v2
  next: v3 was requested meanwhile: a worker may begin it
with a holder that is no unit
  maintenance OperationRunning: upgrading to v2
  next: its holder continues; interrupted if silent until then, at 11000 ms
";

#[test]
fn an_operation_with_an_action_for_a_person_is_counted() {
    for (state, count) in [("running", 0), ("blocked", 1)] {
        assert_eq!(found(state).state.head().summary.totals.asking, count, "{state}");
    }
}

#[test]
fn the_deadline_ends_no_operation_that_is_blocked_or_finished() {
    for state in ["blocked", "succeeded"] {
        let mut case = found(state);
        let before = operation(&case).state;
        case.at(200).pass();
        assert_eq!(operation(&case).state, before, "{state}");
    }
}

#[test]
fn only_the_failed_operation_of_a_lost_unit_contributes() {
    let new = || NewOperation { unit: unit("web/0"), ..new_operation() };
    for (fails, count) in [(false, 0), (true, 1)] {
        let mut case = begun(new());
        if fails {
            operate(&mut case, "web/0", vec![fail(1, Class::Fatal)]);
        }
        let of_operations =
            |case: &Case| case.state.ranked().filter(|r| r.origin == Origin::Operation).count();
        assert_eq!(of_operations(&case), 1);
        case.commit(|draft| lose_unit(draft, &unit("web/0")));
        assert_eq!(of_operations(&case), count, "fails: {fails}");
    }
}
