//! Conversion of operations, in both directions.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_lc_rs::digest;

use super::error::{class, evidence, retry_after};
use super::fields::{Fields, Within};
use super::value::{count, duration};
use crate::domain::bytes::Bytes;
use crate::domain::classify::finding::{Class, Evidence, Finding};
use crate::domain::limits::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, CHECKPOINT_BYTES_MAX, INTERRUPTIONS_DEFAULT, LEASE_DEFAULT,
    LEASE_MAX, LEASE_MIN, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, PROGRESS_BYTES_MAX,
    URI_BYTES_MAX,
};
use crate::domain::name::{AppName, OperationId};
use crate::domain::operation::command::{NewOperation, Observed, OperationAction, PayloadState};
use crate::domain::operation::set::Pending;
use crate::domain::operation::{Failure, Kind, Operation, Payload, State};
use crate::domain::summary::Winner;
use crate::proto::v1;
use crate::service::code::Reason;
use crate::service::convert::rules::ErrorRules;
use crate::service::protobuf::timestamp;

const DIGEST: &str = "sha256:";

// === from the wire ===

/// Reads a `BeginOperation`.
pub fn begin(fields: &mut Fields, wire: &v1::BeginOperationRequest) -> Option<OperationAction> {
    let kind = kind(fields, wire.kind);
    let from_version = fields.text("from_version", &wire.from_version, PROGRESS_BYTES_MAX);
    let target_version = fields.text("target_version", &wire.target_version, PROGRESS_BYTES_MAX);
    if wire.target_version.is_empty() {
        fields.note("target_version", Reason::MissingField, "is required: where it leads");
    }
    let payload = payload(fields, wire);
    let attempts_max = match times(fields, "max_attempts", wire.max_attempts) {
        0 => ATTEMPTS_DEFAULT,
        given => given,
    };
    let interruptions = wire.max_interruptions.unwrap_or(INTERRUPTIONS_DEFAULT as i32);
    let interruptions_max = times(fields, "max_interruptions", interruptions);
    let deadline = fields.moment("deadline", wire.deadline);
    let lease = fields.duration("lease_duration", wire.lease_duration, LEASE_MIN, LEASE_MAX);
    let note = fields.text("reason", &wire.reason, MESSAGE_BYTES_MAX);
    if wire.supersede && wire.reason.is_empty() {
        fields.note("reason", Reason::MissingField, "is required to supersede: say why");
    }
    let (payload, bytes) = payload?;
    let for_unit = fields.unit_or_application("for_unit", &wire.for_unit);
    if !wire.for_unit.is_empty() && !wire.unit.is_empty() && wire.unit != wire.for_unit {
        let text = "is another unit than `unit`; a unit begins only work of its own";
        fields.note("for_unit", Reason::InvalidValue, text).with("value", &wire.for_unit);
    }
    let new = NewOperation {
        unit: for_unit,
        kind,
        from_version,
        target_version,
        payload,
        bytes,
        deterministic: wire.deterministic,
        reversible: wire.reversible,
        attempts_max,
        interruptions_max,
        deadline,
        lease_duration: lease.unwrap_or(LEASE_DEFAULT),
        supersede: wire.supersede,
        note,
    };
    Some(OperationAction::Begin(Box::new(new)))
}

/// Reads the payload's digest, and its bytes if the server stores them.
fn payload(
    fields: &mut Fields,
    wire: &v1::BeginOperationRequest,
) -> Option<(Payload, Option<Bytes>)> {
    let uri =
        fields.checked(|fields| fields.text("payload_uri", &wire.payload_uri, URI_BYTES_MAX))?;
    let given = &wire.payload_digest;
    let hex = given.strip_prefix(DIGEST).unwrap_or_default();
    let is_digest = hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    if !given.is_empty() && !is_digest {
        let text = "is no digest; give sha256: and 64 hex digits";
        return fields.wrong("payload_digest", text, given);
    }
    let given = given.to_ascii_lowercase();
    if !uri.is_empty() {
        if !wire.payload.is_empty() {
            let text = "is given beside payload; give one of them";
            fields.note("payload_uri", Reason::InvalidValue, text);
            return None;
        }
        if given.is_empty() {
            let text = "is required with payload_uri, to check the payload at a resume";
            return fields.missing("payload_digest", text);
        }
        return Some((Payload { uri, digest: given.into() }, None));
    }
    let bytes =
        fields.checked(|fields| fields.bytes("payload", &wire.payload, PAYLOAD_BYTES_MAX))?;
    let digest = match &bytes[..] {
        [] if given.is_empty() => return Some((Payload::default(), None)),
        bytes => digest_of(bytes),
    };
    if !given.is_empty() && given != digest {
        let text = format!("is {given}, but the payload has {digest}: it was cut or changed");
        return fields.wrong("payload_digest", text, given);
    }
    Some((Payload { uri, digest: digest.into() }, Some(bytes)))
}

fn digest_of(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, bytes);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{DIGEST}{hex}")
}

/// Reads an `AcquireOperation`.
pub fn acquire(fields: &mut Fields, wire: &v1::AcquireOperationRequest) -> Option<OperationAction> {
    if wire.unit.is_empty() {
        fields.note("unit", Reason::MissingField, "is required");
    }
    let advice = ", which is not in the enum PayloadState";
    let payload = match fields.choice("payload_state", wire.payload_state, advice)? {
        v1::PayloadState::Unspecified | v1::PayloadState::Intact => PayloadState::Intact,
        v1::PayloadState::Changed => PayloadState::Changed,
        v1::PayloadState::Missing => PayloadState::Missing,
        v1::PayloadState::Undecodable => PayloadState::Undecodable,
    };
    Some(OperationAction::Acquire { verify: wire.verify, payload })
}

/// Reads a `HeartbeatOperation`.
pub fn heartbeat(
    fields: &mut Fields,
    wire: &v1::HeartbeatOperationRequest,
) -> Option<OperationAction> {
    let checkpoint = wire.checkpoint.as_ref();
    let checkpoint =
        checkpoint.map(|bytes| fields.bytes("checkpoint", bytes, CHECKPOINT_BYTES_MAX));
    let progress = wire.progress.as_ref();
    let progress = progress.map(|text| fields.text("progress", text, PROGRESS_BYTES_MAX));
    let fence = fence(fields, wire.fence);
    Some(OperationAction::Heartbeat { fence, checkpoint, progress })
}

/// Reads a `ReleaseOperation`.
pub fn release(fields: &mut Fields, wire: &v1::ReleaseOperationRequest) -> Option<OperationAction> {
    Some(OperationAction::Release { fence: fence(fields, wire.fence) })
}

/// Reads a `CompleteOperation`.
pub fn complete(
    fields: &mut Fields,
    wire: &v1::CompleteOperationRequest,
) -> Option<OperationAction> {
    Some(OperationAction::Complete { fence: fence(fields, wire.fence) })
}

/// Reads a `FailOperation`.
pub fn fail(
    fields: &mut Fields,
    wire: &v1::FailOperationRequest,
    rules: &ErrorRules,
) -> Option<OperationAction> {
    let fence = fence(fields, wire.fence);
    let Some(report) = &wire.error else {
        return fields.missing("error", "is required: what went wrong");
    };
    let within = Within::Message("error");
    let (failure, retry_after) = fields.inside(within, |fields| failure(fields, report, rules));
    Some(OperationAction::Fail { fence, failure, touched: wire.touched, retry_after })
}

/// Reads an error that ended an attempt, and the delay that the peer requested. Its class is by the
/// rules if the report has a system, else as the reporter assigned it.
fn failure(
    fields: &mut Fields,
    report: &v1::ErrorReport,
    rules: &ErrorRules,
) -> (Failure, Option<Duration>) {
    let mut name = |field, text: &str| fields.text(field, text, NAME_BYTES_MAX);
    let component = name("component", &report.component);
    let target = name("target", &report.target);
    if report.system.is_empty() {
        let (code, domain) = (name("code", &report.code), name("domain", &report.domain));
        let (system, reason) = (Box::default(), name("reason", &report.reason));
        let class = reported_class(fields, report.class);
        let message = fields.text("message", &report.message, MESSAGE_BYTES_MAX);
        let tried_again = None;
        let failure = Failure {
            class,
            component,
            target,
            system,
            code,
            domain,
            reason,
            message,
            tried_again,
        };
        return (failure, retry_after(fields, report));
    }
    let evidence = evidence(fields, report, NAME_BYTES_MAX);
    let finding = match fields.is_wrong() {
        true => Finding::default(), // A refused request is not counted as classified.
        false => rules.classify(&evidence),
    };
    let class = finding.class;
    let tried_again = finding.unheld.then(|| match report.action.as_str() {
        "" => finding.remedy,
        action => action.chars().take(MESSAGE_BYTES_MAX / 4).collect::<String>().into(),
    });
    let Evidence { system, code, domain, reason, message, retry_after, .. } = evidence;
    let failure =
        Failure { class, component, target, system, code, domain, reason, message, tried_again };
    (failure, retry_after)
}

fn reported_class(fields: &mut Fields, given: i32) -> Class {
    if given == v1::ErrorClass::Unspecified as i32 {
        return Class::Unclassified;
    }
    let known = Class::ALL.into_iter().find(|known| class(*known) as i32 == given);
    known.unwrap_or_else(|| {
        let text = format!("is {given}, which is not in the enum ErrorClass");
        fields.wrong("class", text, given).unwrap_or(Class::Unclassified)
    })
}

/// Reads a `VerifyOperation`.
pub fn verify(fields: &mut Fields, wire: &v1::VerifyOperationRequest) -> Option<OperationAction> {
    let fence = fence(fields, wire.fence);
    let observed = match wire.observed() {
        v1::Observed::Applied => Observed::Applied,
        v1::Observed::NotApplied => Observed::NotApplied,
        v1::Observed::Undetermined => Observed::Undetermined,
        v1::Observed::Unspecified => fields
            .missing("observed", "is required: applied, not applied, or undetermined")
            .unwrap_or(Observed::Undetermined),
    };
    Some(OperationAction::Verify { fence, observed })
}

fn fence(fields: &mut Fields, fence: u64) -> u64 {
    if fence == 0 {
        let text = "is required: as BeginOperation or AcquireOperation answered it";
        fields.note("fence", Reason::MissingField, text);
    }
    fence
}

fn times(fields: &mut Fields, field: &str, given: i32) -> u32 {
    let read = u32::try_from(given).ok().filter(|n| *n <= ATTEMPTS_MAX);
    read.unwrap_or_else(|| {
        let text = format!("is {given}; give 0 to {ATTEMPTS_MAX}, or nothing");
        let noted = fields.note(field, Reason::InvalidValue, text);
        noted.with("value", given).with("max", ATTEMPTS_MAX);
        ATTEMPTS_MAX
    })
}

fn kind(fields: &mut Fields, kind: i32) -> Kind {
    match fields.choice("kind", kind, ", which is not in the enum OperationKind") {
        Some(v1::OperationKind::Unspecified | v1::OperationKind::Upgrade) => Kind::Upgrade,
        Some(v1::OperationKind::Rollback) => Kind::Rollback,
        Some(v1::OperationKind::Install) => Kind::Install,
        Some(v1::OperationKind::Configure) => Kind::Configure,
        Some(v1::OperationKind::Other) | None => Kind::Other,
    }
}

/// Reads the states of a filter.
pub fn states(fields: &mut Fields, states: &[i32]) -> BTreeSet<State> {
    let read = states.iter().filter_map(|given| {
        let known = State::ALL.into_iter().find(|known| state(*known) as i32 == *given);
        known.or_else(|| {
            let text = format!("has {given}, which is not in the enum OperationState");
            fields.wrong("states", text, given)
        })
    });
    read.collect()
}

// === to the wire ===

fn state(state: State) -> v1::OperationState {
    match state {
        State::Ready => v1::OperationState::Ready,
        State::Running => v1::OperationState::Running,
        State::Interrupted => v1::OperationState::Interrupted,
        State::RetryWait => v1::OperationState::RetryWait,
        State::Verifying => v1::OperationState::Verifying,
        State::Blocked => v1::OperationState::Blocked,
        State::Cancelling => v1::OperationState::Cancelling,
        State::Succeeded => v1::OperationState::Succeeded,
        State::Failed => v1::OperationState::Failed,
        State::Superseded => v1::OperationState::Superseded,
        State::Abandoned => v1::OperationState::Abandoned,
    }
}

fn from_kind(kind: Kind) -> v1::OperationKind {
    match kind {
        Kind::Upgrade => v1::OperationKind::Upgrade,
        Kind::Rollback => v1::OperationKind::Rollback,
        Kind::Install => v1::OperationKind::Install,
        Kind::Configure => v1::OperationKind::Configure,
        Kind::Other => v1::OperationKind::Other,
    }
}

/// Returns the operation that contributes the winner of an application, if one does.
pub fn winning(winner: &Winner) -> Option<v1::WinningOperation> {
    let operation = winner.operation.as_deref()?;
    Some(v1::WinningOperation {
        operation_id: operation.id.to_string(),
        kind: from_kind(operation.kind) as i32,
        target_version: operation.target_version.to_string(),
        state: state(operation.state) as i32,
        progress: operation.progress.to_string(),
        unit: winner.unit.to_string(),
    })
}

/// Returns an operation, with its payload if given.
pub fn operation(
    app: &AppName,
    id: &OperationId,
    operation: &Operation,
    payload: Option<&Bytes>,
) -> v1::Operation {
    v1::Operation {
        checkpoint: operation.checkpoint.to_wire(),
        payload: payload.map_or_else(bytes::Bytes::new, Bytes::to_wire),
        ..operation_line(app, id, operation)
    }
}

/// Returns an operation for a worker of its application.
pub fn pending(app: &AppName, pending: &Pending) -> v1::Operation {
    operation(app, &pending.id, &pending.operation, pending.payload.as_ref())
}

/// Returns an operation without its payload and its checkpoint.
pub fn operation_line(app: &AppName, id: &OperationId, operation: &Operation) -> v1::Operation {
    let (next_step, next_time) = operation.next_step();
    v1::Operation {
        namespace: app.namespace().to_string(),
        application: app.application().to_string(),
        operation_id: id.to_string(),
        kind: from_kind(operation.kind) as i32,
        from_version: operation.from_version.to_string(),
        target_version: operation.target_version.to_string(),
        state: state(operation.state) as i32,
        fence: operation.fence,
        holder: operation.holder().map_or_else(String::new, ToString::to_string),
        lease_expire_time: operation.lease.as_ref().map(|lease| timestamp(lease.expire_time)),
        lease_duration: Some(duration(operation.lease_duration)),
        attempts_failed: count(operation.attempts_failed),
        max_attempts: count(operation.attempts_max),
        interruptions: count(operation.interruptions),
        max_interruptions: count(operation.interruptions_max),
        checkpoint: bytes::Bytes::new(),
        payload: bytes::Bytes::new(),
        payload_uri: operation.payload.uri.to_string(),
        payload_digest: operation.payload.digest.to_string(),
        next_target_version: operation.next_target.to_string(),
        last_error: operation.last_error.as_ref().map(error),
        reason: operation.reason.word().to_string(),
        deterministic: operation.deterministic,
        reversible: operation.reversible,
        create_time: Some(timestamp(operation.create_time)),
        update_time: Some(timestamp(operation.update_time)),
        deadline: operation.deadline.map(timestamp),
        retry_time: operation.retry_time.map(timestamp),
        history: operation.history.iter().map(event).collect(),
        progress: operation.progress.to_string(),
        touched: operation.touched,
        next_step,
        next_time: next_time.map(timestamp),
        note: operation.note.to_string(),
        unit: operation.unit.to_string(),
    }
}

fn event(event: &crate::domain::operation::Event) -> v1::OperationEvent {
    v1::OperationEvent {
        time: Some(timestamp(event.time)),
        from_state: event.from.map_or(v1::OperationState::Unspecified, state) as i32,
        state: state(event.to) as i32,
        unit: event.by.to_string(),
        reason: event.reason.word().to_string(),
        fence: event.fence,
    }
}

fn error(failure: &Failure) -> v1::ErrorReport {
    v1::ErrorReport {
        component: failure.component.to_string(),
        target: failure.target.to_string(),
        system: failure.system.to_string(),
        code: failure.code.to_string(),
        domain: failure.domain.to_string(),
        reason: failure.reason.to_string(),
        message: failure.message.to_string(),
        class: class(failure.class) as i32,
        ..v1::ErrorReport::default()
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt;

    use super::*;
    use crate::domain::classify::Rules;
    use crate::telemetry::Metrics;

    #[test]
    fn digests_are_those_of_sha256sum() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest_of(b""), empty);
    }

    /// Returns the fields that are refused in the error of a `FailOperation`.
    fn refused(error: v1::ErrorReport) -> Vec<String> {
        let rules = ErrorRules::new(Rules::default(), Metrics::disabled());
        let mut fields = Fields::default();
        failure(&mut fields, &error, &rules);
        let status = tonic::Status::from(fields.finish::<()>(None).unwrap_err());
        let refused = status.get_details_bad_request().unwrap().field_violations;
        refused.into_iter().map(|violation| violation.field).collect()
    }

    #[test]
    fn each_wrong_field_of_a_failure_is_refused_once() {
        let long = || "x".repeat(5000);
        let day = prost_types::Duration { seconds: 24 * 3600 + 1, nanos: 0 };
        for system in ["", "grpc"] {
            let error = v1::ErrorReport {
                component: long(),
                target: long(),
                system: system.into(),
                code: long(),
                origin: v1::ErrorOrigin::Peer.into(),
                domain: long(),
                reason: long(),
                message: long(),
                retry_after: Some(day),
                ..v1::ErrorReport::default()
            };
            let mut fields = refused(error);
            fields.sort();
            let expected = ["code", "component", "domain", "message", "reason", "target"];
            assert_eq!(fields, expected, "{system:?}");
        }
        let code = "x".repeat(300);
        let system = "grpc".to_string();
        let origin = v1::ErrorOrigin::Peer.into();
        let error = v1::ErrorReport { system, code, origin, ..v1::ErrorReport::default() };
        assert_eq!(refused(error), ["code"], "the limit is that of FailOperation");
    }
}
