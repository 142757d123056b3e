//! Formats operations: a list, and one with its history.

use jiff::Timestamp;

use crate::cli::render::paint::Paint;
use crate::cli::render::table::{Cell, Table};
use crate::cli::render::text::labelled;
use crate::cli::render::{Screen, one_line, time};
use crate::cli::span;
use crate::proto::v1::{Level, Operation, OperationState};

/// Columns before the value of a field.
const LABEL: usize = 13;

/// Returns `retry wait` for OPERATION_STATE_RETRY_WAIT.
pub fn state_word(state: i32) -> String {
    let name = OperationState::try_from(state).unwrap_or_default().as_str_name();
    name.trim_start_matches("OPERATION_STATE_").to_lowercase().replace('_', " ")
}

/// Returns the level that the operation contributes to its application, if it contributes one.
pub fn level_of(operation: &Operation) -> Level {
    match operation.state() {
        OperationState::Unspecified | OperationState::Superseded | OperationState::Abandoned => {
            Level::Unspecified
        }
        OperationState::Succeeded => Level::Active,
        OperationState::Blocked => Level::Blocked,
        OperationState::Failed => Level::Error,
        OperationState::Cancelling => Level::Waiting,
        _ => Level::Maintenance,
    }
}

/// The scope of a list of operations. It decides which columns identify the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListScope {
    /// One application: no column.
    Application,
    /// One namespace: the name.
    Namespace,
    /// All namespaces: the namespace and the name.
    Everything,
}

/// Formats one operation a line.
pub fn list(operations: &[Operation], now: Timestamp, scope: ListScope, screen: Screen) -> String {
    let of_object = ["Application", "Operation", "Unit", "Target"];
    let of_work = ["State", "Holder", "Failed", "Interrupted", "Age", "Next"];
    let mut table = Table::new(&[&of_object[..], &of_work].concat())
        .right(&["Failed", "Interrupted", "Age"])
        .names(&["Application", "Operation", "Unit", "Target", "Holder"])
        .wrap("Next")
        .only_if(scope != ListScope::Application, &["Application"]);
    for operation in operations {
        let application = match scope {
            ListScope::Everything => format!("{}/{}", operation.namespace, operation.application),
            ListScope::Namespace | ListScope::Application => operation.application.clone(),
        };
        let paint = Paint::of_level(level_of(operation).into());
        table.row(vec![
            application.into(),
            operation.operation_id.as_str().into(),
            Cell::or_dash(&operation.unit),
            operation.target_version.as_str().into(),
            Cell::painted(state_word(operation.state), paint),
            Cell::or_dash(&operation.holder),
            format!("{}/{}", operation.attempts_failed, operation.max_attempts).into(),
            format!("{}/{}", operation.interruptions, operation.max_interruptions).into(),
            time::short_age(operation.update_time.as_ref(), now).into(),
            next(operation, now).into(),
        ]);
    }
    table.render(screen)
}

/// Whether the operation is under way, or waits for a worker or a person.
pub fn is_open(operation: &Operation) -> bool {
    use OperationState::{Abandoned, Succeeded, Superseded, Unspecified};
    ![Unspecified, Succeeded, Superseded, Abandoned].contains(&operation.state())
}

/// Formats `up-v2 -> v2  step 3/7  web/0  28s left`: one line for the overview.
pub fn brief(operation: &Operation, now: Timestamp) -> String {
    let mut parts = vec![format!("{} -> {}", operation.operation_id, operation.target_version)];
    if !operation.progress.is_empty() {
        parts.push(operation.progress.clone());
    }
    match (operation.holder.as_str(), time::from_wire(operation.lease_expire_time.as_ref())) {
        ("", _) => {
            parts.push(format!("{}, no worker holds it", state_word(operation.state)));
            parts.extend((!operation.next_step.is_empty()).then(|| next(operation, now)));
        }
        (holder, Some(end)) if now < end => {
            parts.push(holder.to_string());
            parts.push(format!("{} left", span::short(time::age(now, end))));
        }
        (holder, _) => parts.push(holder.to_string()),
    }
    parts.join("  ")
}

/// Describes the next step, and its time.
pub(super) fn next(operation: &Operation, now: Timestamp) -> String {
    let at = time::from_wire(operation.next_time.as_ref());
    match (operation.next_step.as_str(), at) {
        ("", _) => String::new(),
        (step, None) => step.to_string(),
        (step, Some(at)) => format!("{step} ({})", time::clock(at, now)),
    }
}

/// Formats one operation field by field, then its history.
pub fn show(operation: &Operation, now: Timestamp, screen: Screen) -> String {
    let title = format!(
        "{} of {} to {} is {}",
        operation.operation_id,
        operation.application,
        operation.target_version,
        state_word(operation.state),
    );
    let mut text = format!("{}\n", one_line(&title));
    let mut field = |label: &str, value: &str| {
        if !one_line(value).is_empty() {
            text.push_str(&labelled(label, LABEL, value, screen.width));
        }
    };
    let of = |count: i32, max: i32| format!("{count} of {max}");
    let clock = |at: Option<&prost_types::Timestamp>| {
        time::from_wire(at).map_or_else(String::new, |at| time::clock(at, now))
    };
    let holder = match operation.holder.as_str() {
        "" => String::new(),
        holder => {
            let until = clock(operation.lease_expire_time.as_ref());
            format!("{holder}, fence {}, lease until {until}", operation.fence)
        }
    };
    field("unit", &operation.unit);
    field("from", &operation.from_version);
    field("reason", &operation.reason);
    field("progress", &operation.progress);
    field("holder", &holder);
    field("failed", &of(operation.attempts_failed, operation.max_attempts));
    field("cut off", &of(operation.interruptions, operation.max_interruptions));
    field("error", operation.last_error.as_ref().map_or("", |error| &error.message));
    field("touched", if operation.touched { "a failed attempt has changed something" } else { "" });
    field("payload", &payload(operation));
    field("deadline", &clock(operation.deadline.as_ref()));
    field("then", &operation.next_target_version);
    field("note", &operation.note);
    field("next", &next(operation, now));
    let mut table = Table::new(&["Time", "State", "Unit", "Fence", "Why"]).right(&["Fence"]);
    for event in &operation.history {
        let moment = time::from_wire(event.time.as_ref());
        table.row(vec![
            moment.map_or("-".to_string(), time::full).into(),
            state_word(event.state).into(),
            Cell::or_dash(&event.unit),
            event.fence.to_string().into(),
            event.reason.to_lowercase().replace('_', " ").into(),
        ]);
    }
    format!("{text}\n{}", table.render(screen))
}

fn payload(operation: &Operation) -> String {
    match (operation.payload_uri.as_str(), operation.payload.len()) {
        ("", 0) => operation.payload_digest.clone(),
        ("", bytes) => format!("{bytes} bytes, {}", operation.payload_digest),
        (uri, _) => format!("{uri}, {}", operation.payload_digest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::OperationEvent;

    fn mk_time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn mk_operation() -> Operation {
        let wire = |text| Some(time::to_wire(mk_time(text)));
        Operation {
            namespace: "default".into(),
            application: "web".into(),
            operation_id: "up-v2".into(),
            from_version: "v1".into(),
            target_version: "v2".into(),
            state: OperationState::RetryWait.into(),
            reason: "TRANSIENT".into(),
            fence: 2,
            attempts_failed: 1,
            max_attempts: 5,
            max_interruptions: 10,
            progress: "step 3/7".into(),
            update_time: wire("2026-02-24T12:41:02Z"),
            next_time: wire("2026-02-24T12:42:02Z"),
            next_step: "a worker may acquire it for attempt 2 of 5".into(),
            history: vec![OperationEvent {
                time: wire("2026-02-24T12:41:02Z"),
                state: OperationState::RetryWait.into(),
                unit: "web/0".into(),
                reason: "TRANSIENT".into(),
                fence: 2,
                ..OperationEvent::default()
            }],
            ..Operation::default()
        }
    }

    #[test]
    fn a_line_names_the_next_step() {
        let now = mk_time("2026-02-24T12:41:09Z");
        let expected = "\
Operation  Unit  Target  State       Holder  Failed  Interrupted  Age  Next
up-v2      -     v2      retry wait  -          1/5         0/10   7s  \
a worker may acquire it for attempt 2 of 5 (12:42:02Z)
";
        assert_eq!(list(&[mk_operation()], now, ListScope::Application, Screen::PLAIN), expected);
        for (scope, name) in [(ListScope::Namespace, "web"), (ListScope::Everything, "default/web")]
        {
            let table = list(&[mk_operation()], now, scope, Screen::PLAIN);
            let [header, line] = table.lines().collect::<Vec<_>>()[..] else { panic!("{table}") };
            assert!(header.starts_with("Application  "), "{table}");
            assert!(line.starts_with(&format!("{name} ")), "{table}");
        }
    }

    #[test]
    fn the_overview_has_holder_progress_and_time_left() {
        let now = mk_time("2026-02-24T12:41:09Z");
        let held = Operation {
            state: OperationState::Running.into(),
            holder: "web/0".into(),
            lease_expire_time: Some(time::to_wire(mk_time("2026-02-24T12:41:37Z"))),
            next_time: None,
            ..mk_operation()
        };
        assert_eq!(brief(&held, now), "up-v2 -> v2  step 3/7  web/0  28s left");
        let expected = "up-v2 -> v2  step 3/7  retry wait, no worker holds it  \
                        a worker may acquire it for attempt 2 of 5 (12:42:02Z)";
        assert_eq!(brief(&mk_operation(), now), expected);
    }

    #[test]
    fn an_operation_is_printed_in_full() {
        let now = mk_time("2026-02-24T12:41:09Z");
        let expected = "\
up-v2 of web to v2 is retry wait
  from       v1
  reason     TRANSIENT
  progress   step 3/7
  failed     1 of 5
  cut off    0 of 10
  next       a worker may acquire it for attempt 2 of 5 (12:42:02Z)

Time                  State       Unit   Fence  Why
2026-02-24 12:41:02Z  retry wait  web/0      2  transient
";
        assert_eq!(show(&mk_operation(), now, Screen::PLAIN), expected);
    }
}
