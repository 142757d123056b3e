//! The cases of `operations.yaml`: one application, steps on a hand-moved clock. Each step is a
//! commit of its own.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::classify::finding::Class;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::delete::delete;
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{AppName, OperationId, UnitName};
use bellwether::domain::operation::command::{
    NewOperation, Observed, OperationAction, OperationCommand, PayloadState,
};
use bellwether::domain::operation::refused::Refused;
use bellwether::domain::operation::{Failure, Kind, Operation, Payload};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[allow(dead_code)]
    source: String,
    config: Config,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    max_attempts: u32,
    max_interruptions: u32,
    lease_ms: u64,
    deadline_ms: Option<u64>,
    deterministic: bool,
    reversible: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: u64,
    r#do: String,
    op: Option<String>,
    by: Option<String>,
    target: Option<String>,
    from: Option<String>,
    payload: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    supersede: bool,
    reason: Option<String>,
    #[serde(default)]
    verify: bool,
    payload_state: Option<String>,
    fence: Option<u64>,
    checkpoint: Option<String>,
    class: Option<String>,
    #[serde(default)]
    touched: bool,
    retry_after_ms: Option<u64>,
    observed: Option<String>,
    #[allow(dead_code)]
    leader: Option<String>,
    store: Option<String>,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    ok: Option<bool>,
    code: Option<String>,
    reason: Option<String>,
    state: Option<String>,
    fence: Option<u64>,
    app_level: Option<String>,
    attempts_failed: Option<u32>,
    interruptions: Option<u32>,
    operation_reason: Option<String>,
    payload: Option<String>,
    checkpoint: Option<String>,
    next_target: Option<String>,
}

/// When a case begins.
const START: u64 = 1_700_000_000_000;

fn now(step: &Step) -> Timestamp {
    Timestamp::new(START + step.at)
}

fn text(given: Option<&String>) -> &str {
    given.map_or("", String::as_str)
}

fn id(step: &Step) -> OperationId {
    OperationId::new(text(step.op.as_ref())).unwrap()
}

/// Returns the command of a step; `None` where only time passes.
fn order(config: &Config, step: &Step) -> Option<OperationCommand> {
    let fence = step.fence.unwrap_or_default();
    let action = match step.r#do.as_str() {
        "begin" => OperationAction::Begin(Box::new(NewOperation {
            unit: UnitName::application(),
            kind: match step.kind.as_deref() {
                Some("rollback") => Kind::Rollback,
                _ => Kind::Upgrade,
            },
            from_version: text(step.from.as_ref()).into(),
            target_version: text(step.target.as_ref()).into(),
            payload: Payload { uri: "".into(), digest: "sha256:".into() },
            bytes: Some(Bytes::from(text(step.payload.as_ref()).as_bytes().to_vec())),
            deterministic: config.deterministic,
            reversible: config.reversible,
            attempts_max: config.max_attempts,
            interruptions_max: config.max_interruptions,
            deadline: config.deadline_ms.map(|ms| Timestamp::new(now(step).millis() + ms)),
            lease_duration: Duration::from_millis(config.lease_ms),
            supersede: step.supersede,
            note: text(step.reason.as_ref()).into(),
        })),
        "acquire" => OperationAction::Acquire {
            verify: step.verify,
            payload: match step.payload_state.as_deref() {
                None => PayloadState::Intact,
                Some("changed") => PayloadState::Changed,
                Some("missing") => PayloadState::Missing,
                Some("undecodable") => PayloadState::Undecodable,
                Some(other) => panic!("no payload state {other}"),
            },
        },
        "heartbeat" => OperationAction::Heartbeat {
            fence,
            checkpoint: step.checkpoint.as_ref().map(|c| Bytes::from(c.as_bytes().to_vec())),
            progress: None,
        },
        "release" | "stop_ack" => OperationAction::Release { fence },
        "complete" => OperationAction::Complete { fence },
        "fail" => OperationAction::Fail {
            fence,
            failure: failure(text(step.class.as_ref())),
            touched: step.touched,
            retry_after: step.retry_after_ms.map(Duration::from_millis),
        },
        "verify" => OperationAction::Verify {
            fence,
            observed: match text(step.observed.as_ref()) {
                "APPLIED" => Observed::Applied,
                "NOT_APPLIED" => Observed::NotApplied,
                "UNDETERMINED" => Observed::Undetermined,
                other => panic!("nothing is observed as {other}"),
            },
        },
        "cancel" => OperationAction::Cancel,
        "retry" => OperationAction::Retry,
        "tick" | "expire" | "remove_application" => return None,
        other => panic!("nothing is done as {other}"),
    };
    let by = match step.by.as_deref() {
        None | Some("operator") => UnitName::application(),
        Some(unit) => UnitName::new(unit).unwrap(),
    };
    Some(OperationCommand { id: id(step), by, action })
}

fn failure(class: &str) -> Failure {
    let class = Class::ALL.into_iter().find(|known| known.word() == class);
    let nothing = || "".into();
    Failure {
        class: class.unwrap(),
        component: nothing(),
        target: nothing(),
        system: nothing(),
        code: nothing(),
        domain: nothing(),
        reason: nothing(),
        message: "no".into(),
        tried_again: None,
    }
}

/// The answer of a step: nothing, or code and reason.
type Answer = Result<(), (&'static str, &'static str, Option<OperationId>)>;

fn play(state: &mut AppState, config: &Config, step: &Step) -> Answer {
    if step.r#do == "remove_application" {
        let (transition, _) = delete(state, None, now(step)).unwrap();
        transition.iter().for_each(|transition| state.replay(transition));
        return Ok(());
    }
    let before = state.clone();
    let limits = Limits::default();
    let mut draft = Draft::new(&before, &limits, now(step));
    expire(&mut draft);
    let command = order(config, step).map(Command::Operate);
    let answer = command.map(|command| apply(&mut draft, &Request { id: None, command }));
    if step.store.as_deref() == Some("fails") {
        return Err(("UNAVAILABLE", "STORE_UNAVAILABLE", None));
    }
    state.replay(&draft.finish());
    match answer {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(Rejected::Operation(refused))) => Err(refusal(&refused)),
        Some(Err(other)) => panic!("{other}"),
    }
}

fn refusal(refused: &Refused) -> (&'static str, &'static str, Option<OperationId>) {
    match refused {
        Refused::NotFound { .. } => ("NOT_FOUND", "OPERATION_NOT_FOUND", None),
        Refused::StaleFence { .. } => ("ABORTED", "STALE_FENCE", None),
        Refused::Held { id, .. } => ("ABORTED", "OPERATION_HELD", Some(id.clone())),
        Refused::ResumeFirst { id, .. } => {
            ("FAILED_PRECONDITION", "RESUME_FIRST", Some(id.clone()))
        }
        Refused::NotReversible { id, .. } => {
            ("FAILED_PRECONDITION", "OPERATION_STATE", Some(id.clone()))
        }
        Refused::DeadlinePassed { .. } => ("INVALID_ARGUMENT", "INVALID_VALUE", None),
        _ => ("FAILED_PRECONDITION", "OPERATION_STATE", None),
    }
}

fn check(case: &Case, state: &AppState, step: &Step, answer: &Answer) {
    let at = format!("{} at {}", case.id, step.at);
    let expect = &step.expect;
    if let Some(ok) = expect.ok {
        assert_eq!(answer.is_ok(), ok, "{at}: {answer:?}");
    }
    let (code, reason, other) = match answer {
        Ok(()) => ("OK", "", None),
        Err((code, reason, other)) => (*code, *reason, other.clone()),
    };
    if let Some(expected) = &expect.code {
        assert_eq!(code, expected, "{at}");
    }
    if let Some(expected) = &expect.reason {
        assert_eq!(reason, expected, "{at}");
    }
    let id = match &step.op {
        Some(_) => other.unwrap_or_else(|| id(step)),
        None => OperationId::new(case.steps[0].op.as_ref().unwrap()).unwrap(),
    };
    let Some(operation) = state.operations().get(&id) else {
        assert!(expect.state.is_none(), "{at}: {id} is not there");
        return;
    };
    check_operation(&at, expect, operation);
    if let Some(payload) = &expect.payload {
        let kept = state.operations().payload(&id).unwrap();
        assert_eq!(&kept[..], payload.as_bytes(), "{at}");
    }
    if let Some(level) = &expect.app_level {
        assert_eq!(operation.level().unwrap().word(), level, "{at}");
        assert_eq!(state.head().summary.level.word(), level, "{at}: of the application");
    }
}

fn check_operation(at: &str, expect: &Expect, operation: &Operation) {
    if let Some(expected) = &expect.state {
        assert_eq!(operation.state.word(), expected, "{at}: state");
    }
    if let Some(expected) = expect.fence {
        assert_eq!(operation.fence, expected, "{at}: fence");
    }
    if let Some(expected) = expect.attempts_failed {
        assert_eq!(operation.attempts_failed, expected, "{at}: attempts_failed");
    }
    if let Some(expected) = expect.interruptions {
        assert_eq!(operation.interruptions, expected, "{at}: interruptions");
    }
    if let Some(expected) = &expect.operation_reason {
        assert_eq!(operation.reason.word(), expected, "{at}: reason");
    }
    if let Some(expected) = &expect.checkpoint {
        assert_eq!(&operation.checkpoint[..], expected.as_bytes(), "{at}: checkpoint");
    }
    if let Some(expected) = &expect.next_target {
        assert_eq!(&*operation.next_target, expected, "{at}: next_target");
    }
}

#[test]
fn operations() {
    let cases: Vec<Case> = super::read("operations.yaml");
    for case in &cases {
        let mut state = AppState::empty(AppName::new("", "app").unwrap(), Revision(0));
        for step in &case.steps {
            let answer = play(&mut state, &case.config, step);
            check(case, &state, step, &answer);
            let written = state.operations().iter().map(|(id, o)| (id.clone(), Arc::clone(o)));
            assert!(written.filter(|(_, o)| o.is_open()).count() <= 1, "{}", case.id);
        }
    }
    println!("{} operation cases hold", cases.len());
}
