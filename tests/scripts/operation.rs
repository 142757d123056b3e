//! Lines of a script that are about operations.

use std::fmt::Write as _;

use bellwether::domain::app::AppState;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::classify::finding::Class;
use bellwether::domain::command::Command;
use bellwether::domain::limits::{ATTEMPTS_DEFAULT, INTERRUPTIONS_DEFAULT};
use bellwether::domain::name::{OperationId, UnitName};
use bellwether::domain::operation::command::{
    NewOperation, Observed, OperationAction, OperationCommand, PayloadState,
};
use bellwether::domain::operation::{Failure, Kind, Payload};
use bellwether::domain::time::Timestamp;
use std::time::Duration;

use super::line::Line;

/// Whether a line asks something of an operation.
pub fn is_order(line: &Line) -> bool {
    let words = [
        "begin",
        "acquire",
        "heartbeat",
        "release",
        "complete",
        "fail",
        "verify",
        "cancel",
        "retry-op",
    ];
    // A leader releases its lease, with its epoch.
    words.contains(&line.word(0)) && line.option("epoch").is_none()
}

/// Returns the command of a line on an operation; `None` if the line has another subject.
pub fn command(line: &Line, now: Timestamp) -> Option<Command> {
    if !is_order(line) {
        return None;
    }
    let fence = || line.option("fence").unwrap().parse().unwrap();
    let has = |word: &str| line.words.iter().any(|w| w == word);
    let action = match line.word(0) {
        "begin" => OperationAction::Begin(Box::new(begin(line, now))),
        "acquire" => OperationAction::Acquire {
            verify: has("verify"),
            payload: match line.option("payload") {
                None => PayloadState::Intact,
                Some("changed") => PayloadState::Changed,
                Some("missing") => PayloadState::Missing,
                Some("undecodable") => PayloadState::Undecodable,
                Some(other) => panic!("no payload state {other}"),
            },
        },
        "heartbeat" => OperationAction::Heartbeat {
            fence: fence(),
            checkpoint: line.option("checkpoint").map(bytes),
            progress: line.option("progress").map(Into::into),
        },
        "release" => OperationAction::Release { fence: fence() },
        "complete" => OperationAction::Complete { fence: fence() },
        "fail" => OperationAction::Fail {
            fence: fence(),
            failure: failure(line.word(2), line.words.last().unwrap()),
            touched: has("touched"),
            retry_after: line.duration("retry_after"),
        },
        "verify" => OperationAction::Verify {
            fence: fence(),
            observed: match line.word(2) {
                "applied" => Observed::Applied,
                "not-applied" => Observed::NotApplied,
                "undetermined" => Observed::Undetermined,
                other => panic!("nothing is observed as {other}"),
            },
        },
        "cancel" => OperationAction::Cancel,
        _ => OperationAction::Retry,
    };
    let by = line.option("by").map_or_else(UnitName::application, |by| UnitName::new(by).unwrap());
    Some(Command::Operate(OperationCommand { id: id(line.word(1)), by, action }))
}

fn id(text: &str) -> OperationId {
    OperationId::new(text).unwrap()
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes().to_vec())
}

/// `begin up-v2 v1 -> v2`.
fn begin(line: &Line, now: Timestamp) -> NewOperation {
    assert_eq!(line.word(3), "->", "begin up-v2 v1 -> v2");
    let has = |word: &str| line.words.iter().any(|w| w == word);
    let times = |name: &str, otherwise: u32| {
        line.option(name).map_or(otherwise, |times| times.parse().unwrap())
    };
    NewOperation {
        unit: line.option("of").map_or_else(UnitName::application, |of| UnitName::new(of).unwrap()),
        kind: if has("rollback") { Kind::Rollback } else { Kind::Upgrade },
        from_version: line.word(2).into(),
        target_version: line.word(4).into(),
        payload: Payload::default(),
        bytes: line.option("payload").map(bytes),
        deterministic: has("deterministic"),
        reversible: has("reversible"),
        attempts_max: times("attempts", ATTEMPTS_DEFAULT),
        interruptions_max: times("interruptions", INTERRUPTIONS_DEFAULT),
        deadline: line.duration("deadline").map(|allowed| now.after(allowed)),
        lease_duration: line.duration("lease").unwrap_or(Duration::from_secs(10)),
        supersede: line.option("supersede").is_some(),
        note: line.option("supersede").unwrap_or("").into(),
    }
}

fn failure(class: &str, message: &str) -> Failure {
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
        message: message.into(),
        tried_again: None,
    }
}

/// Where an operation stands, and what is next.
pub fn show(state: &AppState, name: &str) -> String {
    let id = id(name);
    let Some(operation) = state.operations().get(&id) else {
        return format!("{name} is not known");
    };
    let mut out = format!(
        "{name} is {} ({}), fence {}",
        operation.state.word(),
        operation.reason.word(),
        operation.fence
    );
    if let Some(lease) = &operation.lease {
        write!(out, ", {} until t={}s", lease.holder, lease.expire_time.millis() / 1000).unwrap();
    }
    let (failed, interrupted) = (operation.attempts_failed, operation.interruptions);
    write!(out, "\n  | failed {failed}, interrupted {interrupted}").unwrap();
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    if let Some(payload) = state.operations().payload(&id) {
        write!(out, ", payload {}", text(payload)).unwrap();
    }
    if !operation.checkpoint.is_empty() {
        write!(out, ", checkpoint {}", text(&operation.checkpoint)).unwrap();
    }
    if !operation.next_target.is_empty() {
        write!(out, ", then {}", operation.next_target).unwrap();
    }
    let (next, at) = operation.next_step();
    if !next.is_empty() {
        let at = at.map_or_else(String::new, |at| format!(" (t={}s)", at.millis() / 1000));
        write!(out, "\n  | next: {next}{at}").unwrap();
    }
    out
}
