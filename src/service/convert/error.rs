//! Conversion of errors, verdicts and faults, in both directions.

use std::sync::Arc;
use std::time::Duration;

use super::fields::{Fields, Within};
use super::identity::request_id;
use super::need::{given as given_needs, needs};
use super::value::{count, duration, level};
use crate::domain::classify::finding::{
    Action, Class, ErrorOrigin, ErrorOutcome, Evidence, Finding, Hints,
};
use crate::domain::classify::word::{REASON, is_reason, is_system};
use crate::domain::command::{Command, Request};
use crate::domain::fault::{Fault, FaultKey, InternalDetail, NewError, Resolution};
use crate::domain::limits::{
    INTERNAL_DETAIL_BYTES_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, REQUEST_ID_BYTES_MAX,
    RETRY_AFTER_MAX,
};
use crate::domain::unit::Reporter;
use crate::proto::v1;
use crate::service::code::{Reason, quoted};
use crate::service::convert::rules::ErrorRules;
use crate::service::protobuf::timestamp;

/// Reads a `ReportError`.
pub fn report_error(
    fields: &mut Fields,
    wire: v1::ReportErrorRequest,
    rules: &ErrorRules,
) -> Option<Request> {
    fields.cut_long_texts(wire.cut_long_texts);
    let id = request_id(fields, &wire);
    let reporter = fields.reporter(&wire.unit, wire.incarnation);
    // Classified last, so that a refused request is not counted as classified.
    let command = error_command(fields, reporter, wire.error.as_ref(), rules)?;
    Some(Request { id, command })
}

/// Reads the error that a reporter reports.
pub(super) fn error_command(
    fields: &mut Fields,
    reporter: Reporter,
    given: Option<&v1::ErrorReport>,
    rules: &ErrorRules,
) -> Option<Command> {
    let Some(given) = given else {
        return fields.missing("error", "is required");
    };
    let (component, target, error) = fields.inside(Within::Message("error"), |fields| {
        let component = fields.part("component", &given.component);
        let target = target(fields, &given.target);
        (component, target, error_of(fields, given))
    });
    if fields.is_wrong() {
        return None;
    }
    let finding = rules.classify(&error.evidence);
    let error = Box::new(NewError { finding, ..error });
    Some(Command::ReportError { reporter, component, target, error })
}

/// Reads the object of a failed call.
fn target(fields: &mut Fields, text: &str) -> Arc<str> {
    if text.chars().any(char::is_control) {
        let text = "has control characters; give a host, an object or a URL";
        fields.note("target", Reason::InvalidValue, text);
        return Arc::default();
    }
    fields.text("target", text, NAME_BYTES_MAX).into()
}

fn error_of(fields: &mut Fields, given: &v1::ErrorReport) -> NewError {
    let detail = given.internal_detail.clone();
    let detail = fields.prose("internal_detail", detail, INTERNAL_DETAIL_BYTES_MAX);
    let shortest = given.shortest_wait;
    NewError {
        internal_detail: InternalDetail(detail),
        action: fields.prose("action", given.action.clone(), MESSAGE_BYTES_MAX),
        shortest_wait: fields.duration("shortest_wait", shortest, Duration::ZERO, RETRY_AFTER_MAX),
        operation_id: fields.text("operation_id", &given.operation_id, REQUEST_ID_BYTES_MAX),
        generation: fields.text("generation", &given.generation, NAME_BYTES_MAX),
        attempt: u32::try_from(given.attempt).unwrap_or_else(|_| {
            let text = format!("is {}; give 1 or more, or nothing", given.attempt);
            fields.wrong("attempt", text, given.attempt).unwrap_or_default()
        }),
        needs: needs(fields, &given.needs),
        evidence: evidence(fields, given, MESSAGE_BYTES_MAX),
        finding: Finding::default(),
    }
}

/// Reads the facts that decide the class of an error.
pub(super) fn evidence(
    fields: &mut Fields,
    given: &v1::ErrorReport,
    code_bytes_max: usize,
) -> Evidence {
    Evidence {
        system: system(fields, &given.system),
        code: fields.text("code", &given.code, code_bytes_max),
        origin: origin(fields, given.origin).unwrap_or(ErrorOrigin::Local),
        outcome: outcome(fields, given.outcome),
        domain: fields.text("domain", &given.domain, NAME_BYTES_MAX),
        reason: reason(fields, &given.reason),
        message: fields.prose("message", given.message.clone(), MESSAGE_BYTES_MAX),
        retry_after: retry_after(fields, given),
        hints: Hints {
            user_input: given.user_input,
            own_request: given.own_request,
            quota: given.quota,
            machine_resolvable: given.machine_resolvable,
            deadline_passed: given.deadline_passed,
            own_shutdown: given.own_shutdown,
        },
    }
}

/// Reads the delay that a peer requested.
pub(super) fn retry_after(fields: &mut Fields, given: &v1::ErrorReport) -> Option<Duration> {
    fields.peers_duration("retry_after", given.retry_after, RETRY_AFTER_MAX)
}

fn system(fields: &mut Fields, system: &str) -> Box<str> {
    if system.is_empty() {
        let text = "is required: grpc, http, python, another table, or one of your rules";
        fields.note("system", Reason::MissingField, text);
    } else if !is_system(system) {
        let text = format!("is {}; give lower-case letters, digits, . _ -", quoted(system));
        fields.note("system", Reason::InvalidValue, text).with("value", system);
    }
    system.into()
}

fn reason(fields: &mut Fields, reason: &str) -> Box<str> {
    if !reason.is_empty() && !is_reason(reason) {
        let text = format!("is {}; write {REASON}", quoted(reason));
        fields.note("reason", Reason::InvalidValue, text).with("value", reason);
    }
    reason.into()
}

fn origin(fields: &mut Fields, given: i32) -> Option<ErrorOrigin> {
    match fields.choice("origin", given, "; give peer, transport or local")? {
        v1::ErrorOrigin::Peer => Some(ErrorOrigin::Peer),
        v1::ErrorOrigin::Transport => Some(ErrorOrigin::Transport),
        v1::ErrorOrigin::Local => Some(ErrorOrigin::Local),
        v1::ErrorOrigin::Unspecified => {
            fields.missing("origin", "is required: who answered decides what an error means")
        }
    }
}

fn outcome(fields: &mut Fields, given: i32) -> Option<ErrorOutcome> {
    match fields.choice("outcome", given, "; give not_applied, unknown, rejected, or nothing")? {
        v1::ErrorOutcome::Unspecified => None,
        v1::ErrorOutcome::NotApplied => Some(ErrorOutcome::NotApplied),
        v1::ErrorOutcome::Unknown => Some(ErrorOutcome::Unknown),
        v1::ErrorOutcome::Rejected => Some(ErrorOutcome::Rejected),
    }
}

/// Reads a `ResolveError`.
pub fn resolve_error(fields: &mut Fields, wire: v1::ResolveErrorRequest) -> Option<Request> {
    let reporter = fields.reporter(&wire.unit, wire.incarnation);
    let target = wire.target.as_deref().unwrap_or_default();
    let what = (wire.component.as_str(), wire.all_components);
    let command = success_command(fields, reporter, what, target, &wire.generation);
    Some(Request { id: request_id(fields, &wire), command })
}

/// Reads the success that a reporter reports. Without a target it is about all targets of the
/// component, or of all components.
pub(super) fn success_command(
    fields: &mut Fields,
    reporter: Reporter,
    (component, all_components): (&str, bool),
    target_name: &str,
    generation: &str,
) -> Command {
    if all_components && !(component.is_empty() && target_name.is_empty()) {
        let text = "is given beside a component or a target; give one of them";
        fields.note("all_components", Reason::InvalidValue, text);
    }
    let component = fields.part("component", component);
    let component = (!all_components).then_some(component);
    let target = Some(target(fields, target_name)).filter(|target| !target.is_empty());
    let generation = fields.text("generation", generation, NAME_BYTES_MAX);
    Command::ResolveError { reporter, component, target, generation }
}

/// Reads a `ResolveHold`.
pub fn resolve_hold(fields: &mut Fields, wire: v1::ResolveHoldRequest) -> Option<Request> {
    let unit = fields.unit("unit", &wire.unit);
    let component = fields.part("component", &wire.component);
    let why = fields.text("reason", &wire.reason, MESSAGE_BYTES_MAX);
    let id = request_id(fields, &wire);
    let resolution = match fields.choice("resolution", wire.resolution, "; give retry or skip")? {
        v1::HoldResolution::Retry => Resolution::Retry,
        v1::HoldResolution::Skip => Resolution::Skip,
        v1::HoldResolution::Unspecified => {
            return fields.missing("resolution", "is required: retry or skip");
        }
    };
    Some(Request { id, command: Command::ResolveHold { unit, component, resolution, why } })
}

/// Converts a class.
pub fn class(class: Class) -> v1::ErrorClass {
    match class {
        Class::Unclassified => v1::ErrorClass::Unclassified,
        Class::Transient => v1::ErrorClass::Transient,
        Class::Throttled => v1::ErrorClass::Throttled,
        Class::Conflict => v1::ErrorClass::Conflict,
        Class::Interrupted => v1::ErrorClass::Interrupted,
        Class::Dependency => v1::ErrorClass::Dependency,
        Class::Blocked => v1::ErrorClass::Blocked,
        Class::Gone => v1::ErrorClass::Gone,
        Class::Fatal => v1::ErrorClass::Fatal,
    }
}

fn action(action: Action) -> v1::VerdictAction {
    match action {
        Action::Retry => v1::VerdictAction::Retry,
        Action::RetryAfter => v1::VerdictAction::RetryAfter,
        Action::Reread => v1::VerdictAction::Reread,
        Action::Resume => v1::VerdictAction::Resume,
        Action::Defer => v1::VerdictAction::Defer,
        Action::Block => v1::VerdictAction::Block,
        Action::Recover => v1::VerdictAction::Recover,
        Action::Halt => v1::VerdictAction::Halt,
    }
}

/// Returns the verdict of a finding alone, without the state of its fault.
pub fn finding_verdict(finding: &Finding) -> v1::Verdict {
    v1::Verdict {
        class: class(finding.class) as i32,
        action: action(finding.action) as i32,
        rule: finding.rule.to_string(),
        explanation: finding.explanation.to_string(),
        held: finding.holds(),
        ..v1::Verdict::default()
    }
}

/// Returns the verdict on an open error.
pub fn verdict(fault: &Fault) -> v1::Verdict {
    v1::Verdict {
        retry_after: fault.retry_after().map(duration),
        retry_time: fault.retry_time.map(timestamp),
        attempt: count(fault.attempts),
        attempts_left: count(fault.attempts_left),
        held: fault.held_since.is_some(),
        ..finding_verdict(&fault.error.finding)
    }
}

/// Returns an open error; with its internal detail only if `with_internal_detail`.
pub fn fault(key: &FaultKey, fault: &Fault, with_internal_detail: bool) -> v1::Fault {
    let shown = fault.level();
    v1::Fault {
        unit: key.unit.to_string(),
        component: key.component.as_str().to_string(),
        target: key.target.to_string(),
        class: class(fault.class()) as i32,
        count: count(fault.count),
        first_time: Some(timestamp(fault.first)),
        last_time: Some(timestamp(fault.last)),
        next_retry_time: fault.next_try().map(timestamp),
        last: Some(error_report(key, fault, with_internal_detail)),
        verdict: Some(verdict(fault)),
        level: shown.map_or(v1::Level::Unspecified, level) as i32,
        since_time: shown.map(|_| timestamp(fault.since)),
        ..v1::Fault::default()
    }
}

fn error_report(key: &FaultKey, fault: &Fault, with_internal_detail: bool) -> v1::ErrorReport {
    let error = &fault.error;
    let NewError { evidence, internal_detail, .. } = error;
    let origin = match evidence.origin {
        ErrorOrigin::Peer => v1::ErrorOrigin::Peer,
        ErrorOrigin::Transport => v1::ErrorOrigin::Transport,
        ErrorOrigin::Local => v1::ErrorOrigin::Local,
    };
    let outcome = match evidence.outcome {
        None => v1::ErrorOutcome::Unspecified,
        Some(ErrorOutcome::NotApplied) => v1::ErrorOutcome::NotApplied,
        Some(ErrorOutcome::Unknown) => v1::ErrorOutcome::Unknown,
        Some(ErrorOutcome::Rejected) => v1::ErrorOutcome::Rejected,
    };
    let hints = evidence.hints;
    v1::ErrorReport {
        component: key.component.as_str().to_string(),
        target: key.target.to_string(),
        system: evidence.system.to_string(),
        code: evidence.code.to_string(),
        origin: origin as i32,
        outcome: outcome as i32,
        domain: evidence.domain.to_string(),
        reason: evidence.reason.to_string(),
        message: evidence.message.to_string(),
        internal_detail: match with_internal_detail {
            true => internal_detail.0.to_string(),
            false => String::new(),
        },
        retry_after: evidence.retry_after.map(duration),
        user_input: hints.user_input,
        own_request: hints.own_request,
        quota: hints.quota,
        machine_resolvable: hints.machine_resolvable,
        deadline_passed: hints.deadline_passed,
        own_shutdown: hints.own_shutdown,
        operation_id: error.operation_id.to_string(),
        attempt: count(error.attempt),
        action: error.action.to_string(),
        generation: error.generation.to_string(),
        class: v1::ErrorClass::Unspecified as i32,
        shortest_wait: error.shortest_wait.map(duration),
        needs: given_needs(&fault.needs),
    }
}

/// Returns the hold of a component.
pub fn hold(key: &FaultKey, fault: &Fault) -> v1::Hold {
    v1::Hold {
        component: key.component.as_str().to_string(),
        reason: fault.reason().to_string(),
        since_time: fault.held_since.map(timestamp),
        unit: key.unit.to_string(),
        target: key.target.to_string(),
    }
}
