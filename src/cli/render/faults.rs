//! Open errors as lines beneath an explanation.

use jiff::Timestamp;

use crate::cli::render::{one_line, time};
use crate::cli::span;
use crate::cli::target::retry_command;
use crate::proto::v1::{ErrorClass, ExplainApplicationResponse, Fault, Hold};

/// Returns label and text of each line. `hint` makes a command line of a command.
pub fn lines(
    why: &ExplainApplicationResponse,
    now: Timestamp,
    hint: &dyn Fn(&str) -> String,
) -> Vec<(&'static str, String)> {
    let application = why.application.as_ref().map_or("", |a| a.name.as_str());
    let mut errors: Vec<String> = why.faults.iter().map(|given| line(given, now)).collect();
    let listed = i32::try_from(why.faults.len()).unwrap_or(i32::MAX);
    if listed < why.fault_count {
        errors.push(format!("and {} more", why.fault_count - listed));
    }
    let holds = why.holds.iter().map(|hold| held(application, hold, now, hint));
    let rest = Some(why.holds_rest_count).filter(|rest| 0 < *rest);
    let holds = holds.chain(rest.map(|rest| format!("and {rest} more")));
    beneath("errors", errors).chain(beneath("held", holds)).collect()
}

/// Returns the lines with a label in front of the first.
pub fn beneath<T>(
    label: &'static str,
    lines: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = (&'static str, T)> {
    std::iter::once(label).chain(std::iter::repeat("")).zip(lines)
}

/// Formats `api/1 database pg:5432  TRANSIENT 4x in 12s, next try in 2s: connection refused`.
pub fn line(fault: &Fault, now: Timestamp) -> String {
    let class = class_word(fault.class);
    let since = time::from_wire(fault.first_time.as_ref());
    let since = since.map_or_else(String::new, |from| span::short(time::age(from, now)));
    let next = time::from_wire(fault.next_retry_time.as_ref());
    let next = next.map_or_else(String::new, |next| match next <= now {
        true => ", to be tried now".to_string(),
        false => format!(", next try in {}", span::short(time::age(now, next))),
    });
    let last = fault.last.clone().unwrap_or_default();
    let says = match last.message.as_str() {
        "" => fault.verdict.clone().unwrap_or_default().explanation,
        message => message.to_string(),
    };
    let who = place(&fault.unit, &fault.component, &fault.target);
    one_line(&format!("{who}  {class} {}x in {since}{next}: {says}", fault.count))
}

/// Formats `api/1 database  for 3m: FATAL; `... --retry` tries again, --skip goes on without it`.
fn held(application: &str, hold: &Hold, now: Timestamp, hint: &dyn Fn(&str) -> String) -> String {
    let since = time::from_wire(hold.since_time.as_ref());
    let since =
        since.map_or_else(String::new, |at| format!("for {}: ", span::short(time::age(at, now))));
    let who = place(&hold.unit, &hold.component, &hold.target);
    let command = hint(&retry_command(application, &hold.unit, &hold.component));
    let reason = reason_word(&hold.reason);
    one_line(&format!("{who}  {since}{reason}; `{command}` tries again, --skip goes on without it"))
}

/// Returns the class that a hold names, in the spelling of a class; any other reason unchanged.
fn reason_word(reason: &str) -> String {
    let upper = reason.to_ascii_uppercase();
    match ErrorClass::from_str_name(&format!("ERROR_CLASS_{upper}")) {
        Some(_) => upper,
        None => reason.to_string(),
    }
}

/// Returns `TRANSIENT`, for example: a class of errors, as every command writes it.
pub fn class_word(class: i32) -> &'static str {
    let class = ErrorClass::try_from(class).unwrap_or_default();
    class.as_str_name().trim_start_matches("ERROR_CLASS_")
}

fn place(unit: &str, component: &str, target: &str) -> String {
    let parts = [unit, component, target].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Application, ErrorReport};

    #[test]
    fn errors_and_holds_have_a_line_each() {
        let now: Timestamp = "2026-02-24T12:41:02Z".parse().expect("a timestamp");
        let at =
            |seconds: i64| prost_types::Timestamp { seconds: now.as_second() + seconds, nanos: 0 };
        let why = ExplainApplicationResponse {
            application: Some(Application { name: "api".into(), ..Application::default() }),
            faults: vec![Fault {
                unit: "api/1".into(),
                component: "database".into(),
                target: "pg:5432".into(),
                class: ErrorClass::Transient.into(),
                count: 4,
                first_time: Some(at(-12)),
                next_retry_time: Some(at(2)),
                last: Some(ErrorReport { message: "refused".into(), ..ErrorReport::default() }),
                ..Fault::default()
            }],
            fault_count: 3,
            holds: vec![Hold {
                unit: "api/1".into(),
                component: "database".into(),
                reason: "Fatal".into(),
                since_time: Some(at(-180)),
                ..Hold::default()
            }],
            ..ExplainApplicationResponse::default()
        };
        let held = "api/1 database  for 3m: FATAL; \
                    `bellwether -n prod resolve api/1 --component database --retry` tries again, \
                    --skip goes on without it";
        let hint = |command: &str| format!("bellwether -n prod {command}");
        let error = "api/1 database pg:5432  TRANSIENT 4x in 12s, next try in 2s: refused";
        assert_eq!(
            lines(&why, now, &hint),
            [
                ("errors", error.to_string()),
                ("", "and 2 more".to_string()),
                ("held", held.to_string()),
            ]
        );
    }
}
