//! Single cases of operations in their application: who calls, which is the last one, what the
//! history says, what the units get, and what is forgotten.

use bellwether::domain::classify::finding::Class;
use bellwether::domain::command::Command;
use bellwether::domain::history::Cause;
use bellwether::domain::level::Level;
use bellwether::domain::limits::{
    OPERATION_KEPT, OPERATIONS_FINISHED_MAX, UNIT_OPERATIONS_FINISHED_MAX, UNIT_OPERATIONS_OPEN_MAX,
};
use bellwether::domain::name::{OperationId, PartName};
use bellwether::domain::operation::command::{NewOperation, OperationAction, PayloadState};
use bellwether::domain::operation::refused::Refused;
use bellwether::domain::operation::{Failure, Kind, Operation, Payload, State};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::Outcome;
use bellwether::domain::unit::Topic;

use crate::calls::{acquire, begun_as, call, call_on, fail, found, id, operation};
use crate::case::{Case, failure, new_operation, push, reporter, seconds, time, unit};

fn begin(of: &str) -> OperationAction {
    OperationAction::Begin(NewOperation { unit: unit(of), ..new_operation() }.into())
}

fn complete(fence: u64) -> OperationAction {
    OperationAction::Complete { fence }
}

/// Begins and completes an operation of a unit, or with `""` of the application.
fn done(case: &mut Case, id: &str, of: &str) {
    let fence = call_on(case, id, "web/0", begin(of)).unwrap().fence;
    call_on(case, id, "web/0", complete(fence)).unwrap();
}

fn known(case: &Case) -> Vec<&str> {
    case.state.operations().latest_first().into_iter().map(|(id, _)| id.as_str()).collect()
}

fn by_of(operation: &Operation) -> &str {
    operation.history.last().unwrap().by.as_str()
}

fn limit(answer: Result<Outcome, Rejected>) -> &'static str {
    match answer {
        Err(Rejected::LimitExceeded(refused)) => {
            let is_fixed = refused.to_string().ends_with("is fixed");
            assert_eq!(is_fixed, refused.limit == "unit_operations_open_max", "{refused}");
            refused.limit
        }
        other => panic!("{other:?}"),
    }
}

/// Returns a failure by an error that blocks and may end by itself, with the action for a person.
fn fail_for_now(fence: u64) -> OperationAction {
    let tried_again = Some("correct the values".into());
    let failure = Failure { tried_again, ..failure(Class::Blocked) };
    OperationAction::Fail { fence, failure, touched: true, retry_after: None }
}

#[test]
fn an_error_that_blocks_without_a_hold_is_tried_again_and_shown_as_blocked() {
    let failed = || {
        let mut case = found("running");
        call(&mut case, "web/0", fail_for_now(1)).unwrap();
        case
    };
    let mut case = failed();
    let waits = operation(&case);
    assert_eq!((waits.state, waits.attempts_failed), (State::RetryWait, 0));
    assert_eq!(waits.level(), Some(Level::Blocked));
    let wait = waits.retry_time.unwrap().since(time(1));
    assert!((seconds(144)..=seconds(216)).contains(&wait), "{wait:?}");
    let status = waits.status(&id(), time(1)).unwrap();
    let action = "correct the values; or retry or cancel operation up-v2";
    assert_eq!((status.level, &*status.action), (Level::Blocked, action));
    // A worker acquires it when it is due, and may fail so again.
    let acquire = || OperationAction::Acquire { verify: false, payload: PayloadState::Intact };
    assert!(call(&mut case, "web/0", acquire()).is_err());
    call(case.at(99), "", OperationAction::Retry).unwrap();
    assert_eq!(operation(&case).state, State::Ready);
    call(&mut case, "web/0", acquire()).unwrap();
    call(&mut case, "web/0", fail_for_now(2)).unwrap();
    assert_eq!(operation(&case).state, State::RetryWait);
    // Its deadline ends it, or an operator.
    case.at(101).pass();
    assert_eq!(
        (operation(&case).state, operation(&case).level()),
        (State::Failed, Some(Level::Error))
    );
    let mut case = failed();
    call(&mut case, "", OperationAction::Cancel).unwrap();
    assert_eq!(operation(&case).state, State::Abandoned);
    // A class that the reporter gives itself stays, and an operator does not hurry other waits.
    let mut case = found("running");
    call(&mut case, "web/0", fail(1, Class::Blocked)).unwrap();
    assert_eq!(operation(&case).state, State::Blocked);
    let mut case = found("waiting");
    assert!(call(&mut case, "", OperationAction::Retry).is_err());
}

#[test]
fn a_repeated_begin_has_the_answer_of_the_first() {
    let mut case = begun_as("web/0", new_operation());
    let again = call(&mut case, "web/1", begin("")).unwrap();
    assert_eq!((again.changed, again.fence), (false, 1));
}

#[test]
fn a_begun_operation_has_what_its_caller_gave_and_the_time() {
    let payload = Payload { uri: "https://b.example/v2".into(), ..Payload::default() };
    let new = NewOperation { kind: Kind::Rollback, payload, ..new_operation() };
    let mut case = Case::new();
    call(case.at(7), "web/0", OperationAction::Begin(new.clone().into())).unwrap();
    let operation = operation(&case);
    assert_eq!((operation.create_time, operation.update_time), (time(7), time(7)));
    assert_eq!((operation.kind, &operation.payload), (new.kind, &new.payload));
    assert_eq!(operation.from_version, new.from_version);
    assert_eq!(operation.target_version, new.target_version);
}

#[test]
fn an_operation_whose_deadline_is_now_is_not_begun() {
    for (deadline, begins) in [(1, false), (2, true)] {
        let new = NewOperation { deadline: Some(time(deadline)), ..new_operation() };
        let answer = call(&mut Case::new(), "web/0", OperationAction::Begin(new.into()));
        assert_eq!(answer.is_ok(), begins, "{deadline}: {answer:?}");
    }
}

#[test]
fn work_of_a_new_unit_counts_as_that_unit_and_of_the_application_as_none() {
    let mut case = Case::new();
    case.limits.units_max = 1;
    case.run(push("web/0", Level::Active, None));
    assert_eq!(limit(call_on(&mut case, "own", "web/9", begin("web/9"))), "units_max");
    call_on(&mut case, "own", "web/0", begin("web/0")).unwrap();
    call_on(&mut case, "all", "web/0", begin("")).unwrap();
    assert_eq!(known(&case), ["all", "own"]);
}

#[test]
fn a_call_with_the_fence_counts_as_one_of_the_holder() {
    let release = || OperationAction::Release { fence: 1 };
    let mut case = found("running");
    let refused = call(&mut case, "web/1", release()).unwrap_err();
    assert!(matches!(refused, Rejected::Operation(_)), "{refused}");
    call(&mut case, "", release()).unwrap();
    assert_eq!(by_of(operation(&case)), "web/0");
    let mut case = found("running");
    call(&mut case, "", OperationAction::Cancel).unwrap();
    assert_eq!(by_of(operation(&case)), "");
}

#[test]
fn a_failed_operation_is_retried_once_its_rollback_is_over_and_is_then_the_last_one() {
    let mut case = Case::new();
    let new = |kind| {
        let new = NewOperation { kind, reversible: true, ..new_operation() };
        OperationAction::Begin(new.into())
    };
    let retry = || OperationAction::Retry;
    call_on(&mut case, "a", "web/0", new(Kind::Upgrade)).unwrap();
    call_on(&mut case, "a", "web/0", fail(1, Class::Fatal)).unwrap();
    call_on(&mut case, "b", "web/0", new(Kind::Rollback)).unwrap();
    match call_on(&mut case, "a", "", retry()).unwrap_err() {
        Rejected::Operation(Refused::Held { id, .. }) => assert_eq!(id.as_str(), "b"),
        other => panic!("{other}"),
    }
    call_on(&mut case, "b", "web/0", complete(1)).unwrap();
    let last = |case: &Case| case.state.operations().last().unwrap().0.as_str().to_string();
    assert_eq!((last(&case), known(&case)), ("b".to_string(), vec!["b", "a"]));
    call_on(&mut case, "a", "", retry()).unwrap();
    assert_eq!((last(&case), known(&case)), ("a".to_string(), vec!["a", "b"]));
}

#[test]
fn a_unit_whose_attempt_failed_is_called_back_until_the_operation_goes_on() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    call(&mut case, "web/0", begin("")).unwrap();
    assert!(case.unit("web/0").callbacks.is_empty());
    call(&mut case, "web/0", fail(1, Class::Transient)).unwrap();
    let topic = Topic::retry(PartName::default(), id().as_str());
    let callback = case.unit("web/0").callbacks[&topic].clone();
    assert_eq!(Some(callback.at), operation(&case).retry_time);
    assert_eq!(&*callback.operation_id, id().as_str());
    call(case.at(5), "web/0", acquire(false, PayloadState::Intact)).unwrap();
    assert!(case.unit("web/0").callbacks.is_empty());
}

#[test]
fn the_history_has_the_state_the_holder_and_the_reason_of_an_operation() {
    let changes = |case: &Case| {
        let events = &case.last.as_ref().unwrap().events;
        let event = events.iter().find(|event| event.cause == Cause::Operation).unwrap();
        let changes = event.changes.iter().map(|c| format!("{}: {} to {}", c.field, c.from, c.to));
        (changes.collect::<Vec<_>>().join(", "), event.reason.to_string())
    };
    let words = |changes: &str, reason: &str| (changes.to_string(), reason.to_string());
    let mut case = found("ready");
    assert_eq!(changes(&case), words("state:  to READY", "BEGUN"));
    call(&mut case, "web/0", acquire(false, PayloadState::Intact)).unwrap();
    let acquired = words("state: READY to RUNNING, holder:  to web/0", "ACQUIRED");
    assert_eq!(changes(&case), acquired);
    call(&mut case, "web/0", fail(2, Class::Fatal)).unwrap();
    let (state, reason) = changes(&case);
    assert_eq!(state, "state: RUNNING to FAILED, holder: web/0 to ");
    assert!(!reason.is_empty());
}

#[test]
fn a_removed_unit_takes_its_finished_operations_along_but_leaves_what_refuses_late_calls() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    done(&mut case, "done", "web/0");
    call_on(&mut case, "open", "web/0", begin("web/0")).unwrap();
    done(&mut case, "all", "");
    let remove = || Command::RemoveUnit(unit("web/0"));
    case.run(remove());
    assert_eq!(known(&case), ["all", "open"]);
    // The unit comes back, and is removed again.
    case.at(30).run(push("web/0", Level::Active, None));
    case.run(remove());
    assert_eq!(known(&case), ["all", "open"]);
}

#[test]
fn records_of_a_removed_unit_do_not_hide_the_operation_of_the_application() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    call_on(&mut case, "open", "web/0", begin("web/0")).unwrap();
    let lasting = |of| NewOperation { unit: unit(of), deadline: None, ..new_operation() };
    let begin_lasting = |of| OperationAction::Begin(lasting(of).into());
    call_on(&mut case, "all", "web/1", begin_lasting("")).unwrap();
    let shown = |case: &Case| case.state.head().operation.as_ref().unwrap().id.clone();
    case.run(Command::RemoveUnit(unit("web/0")));
    assert_eq!(known(&case), ["all", "open"]);
    assert_eq!(shown(&case).as_str(), "all");
    // The record that refuses late calls is forgotten when another one is finished.
    case.at(1 + OPERATION_KEPT.as_secs());
    call_on(&mut case, "other", "web/1", begin_lasting("web/1")).unwrap();
    call_on(&mut case, "other", "web/1", complete(1)).unwrap();
    assert_eq!(known(&case), ["other", "all"]);
    assert_eq!(shown(&case).as_str(), "all");
}

#[test]
fn finished_operations_are_forgotten_oldest_first_those_of_units_apart() {
    let mut case = Case::new();
    done(&mut case, "unit", "web/0");
    for n in 0..=OPERATIONS_FINISHED_MAX {
        done(case.at(10 + n as u64), &format!("{n:02}"), "");
    }
    // A begin forgets what is over its limit; the one that it begins finishes later.
    let kept = known(&case);
    assert_eq!(kept.len(), OPERATIONS_FINISHED_MAX + 2);
    call_on(&mut case, "next", "web/0", begin("")).unwrap();
    let kept = known(&case);
    assert_eq!(kept.len(), 1 + OPERATIONS_FINISHED_MAX + 1);
    assert!(kept.contains(&"unit") && !kept.contains(&"00") && kept.contains(&"01"), "{kept:?}");
    assert_eq!(case.state.head().counts, Some(case.state.recount()));
    const { assert!(OPERATIONS_FINISHED_MAX < UNIT_OPERATIONS_FINISHED_MAX) };
}

#[test]
fn finished_operations_are_forgotten_at_their_age() {
    let kept = OPERATION_KEPT.as_secs();
    let cases = ["", "web/0"].map(|of| [(of, kept, true), (of, kept + 1, false)]);
    for (of, now, is_kept) in cases.concat() {
        let mut case = Case::new();
        done(&mut case, "done", of);
        let new = NewOperation { deadline: None, ..new_operation() };
        call_on(case.at(now), "next", "web/0", OperationAction::Begin(new.into())).unwrap();
        assert_eq!(known(&case).contains(&"done"), is_kept, "{of:?} at {now}");
    }
}

#[test]
fn the_open_operations_of_units_are_bounded_those_of_the_application_are_apart() {
    let mut case = Case::new();
    call_on(&mut case, "all", "web/0", begin("")).unwrap();
    for n in 0..UNIT_OPERATIONS_OPEN_MAX {
        call_on(&mut case, &format!("{n}"), "web/0", begin(&format!("web/{n}"))).unwrap();
    }
    let refused = call_on(&mut case, "more", "web/0", begin("web/5000"));
    assert_eq!(limit(refused), "unit_operations_open_max");
    // A repeat is none more, and the application has its own.
    call_on(&mut case, "7", "web/0", begin("web/7")).unwrap();
    call_on(&mut case, "all", "web/0", complete(1)).unwrap();
    call_on(&mut case, "next", "web/0", begin("")).unwrap();
}

#[test]
fn a_unit_gets_its_open_operation_and_that_of_the_application_with_a_payload_it_may_use() {
    let bytes = bellwether::domain::bytes::Bytes::from(b"steps".to_vec());
    let with_payload = |of: &str| {
        let (bytes, unit) = (Some(bytes.clone()), unit(of));
        OperationAction::Begin(NewOperation { unit, bytes, ..new_operation() }.into())
    };
    let mut case = Case::new();
    call_on(&mut case, "own", "web/0", with_payload("web/0")).unwrap();
    call_on(&mut case, "all", "web/1", with_payload("")).unwrap();
    let pending = |case: &Case, name: &str| {
        let pending = case.state.operations().pending(&unit(name)).into_iter();
        let what = |p: bellwether::domain::operation::set::Pending| {
            (p.id.as_str().to_string(), p.payload.is_some())
        };
        pending.map(what).collect::<Vec<_>>()
    };
    let (own, all) = (|has| ("own".to_string(), has), |has| ("all".to_string(), has));
    assert_eq!(pending(&case, "web/0"), [own(true), all(false)]);
    assert_eq!(pending(&case, "web/1"), [all(true)]);
    call_on(&mut case, "all", "web/1", OperationAction::Release { fence: 1 }).unwrap();
    assert_eq!(pending(&case, "web/0"), [own(true), all(true)]);
    call_on(&mut case, "own", "web/0", complete(1)).unwrap();
    assert_eq!(pending(&case, "web/0"), [all(true)]);
}

#[test]
fn a_client_that_supersedes_learns_what_the_operation_before_has_touched() {
    let mut case = Case::new();
    call_on(&mut case, "first", "web/0", begin("web/0")).unwrap();
    call_on(&mut case, "first", "web/0", fail(1, Class::Fatal)).unwrap();
    let new = |of: &str| {
        let new = NewOperation { unit: unit(of), supersede: true, ..new_operation() };
        OperationAction::Begin(NewOperation { note: "else".into(), ..new }.into())
    };
    call_on(&mut case, "all", "web/0", new("")).unwrap();
    call_on(&mut case, "second", "web/0", new("web/0")).unwrap();
    let advice = |id: &str| {
        let operations = case.state.operations();
        operations.advice(operations.get(&OperationId::new(id).unwrap()).unwrap())
    };
    assert!(advice("first").is_empty() && advice("all").is_empty());
    let [line] = &advice("second")[..] else {
        panic!("{:?}", advice("second"));
    };
    assert!(line.starts_with("operation first, upgrade to v2, had changed something"), "{line}");
}

#[test]
fn a_former_master_has_assigned_each_fence_up_to_its_last() {
    let mut case = found("running");
    case.state.epoch_floor = operation(&case).fence;
    case.commit(|draft| bellwether::domain::data_loss::mark_uncertain(draft, 0));
    assert_eq!(operation(&case).state, State::Interrupted);
}

#[test]
fn the_operation_of_the_leader_decides_among_equal_ones() {
    for leader in ["web/0", "web/1"] {
        let mut case = Case::new();
        case.run(Command::ClaimLeadership(reporter(leader), None));
        call_on(&mut case, "a", "web/0", begin("web/0")).unwrap();
        call_on(&mut case, "b", "web/1", begin("web/1")).unwrap();
        let winner = case.state.head().summary.winner.as_ref().unwrap();
        assert_eq!(winner.unit.as_str(), leader);
    }
}
