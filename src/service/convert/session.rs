//! Conversion of the messages of a worker's session, in both directions.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;

use super::error;
use super::fields::{Fields, Within};
use super::identity::request_id;
use super::need::needs_met;
use super::operation::pending;
use super::output::status_report;
use super::page::{PAGE_BYTES_MAX, first_of};
use super::report::{pull_set, statuses};
use super::value::{count, duration};
use crate::domain::command::{Command, Request};
use crate::domain::limits::{CALLBACK_AFTER, NAME_BYTES_MAX, TTL_MAX, TTL_MIN};
use crate::domain::name::AppName;
use crate::domain::request::RequestId;
use crate::domain::unit::{Newcomer, Reporter, Topic};
use crate::proto::v1;
use crate::proto::v1::connect_request::Message as Payload;
use crate::proto::v1::connect_response::Message as Answer;
use crate::service::call::Access;
use crate::service::code::{ApiError, Reason};
use crate::service::convert::rules::ErrorRules;
use crate::service::protobuf::timestamp;
use crate::session::{Hello, Inbound, MayRead, Outbound, Welcome};

/// Maximum statuses in one message: equal to the limit of one unit in one component.
const STATUSES_MAX: usize = 1024;

/// Reads the first message. The caller needs the right to act as its unit, for all later messages
/// are of that unit.
pub fn hello(access: &Access, message: Option<Payload>) -> Result<Hello, ApiError> {
    let mut fields = Fields::default();
    let Some(Payload::Hello(hello)) = message else {
        fields.note("hello", Reason::MissingField, "is required as the first message");
        return fields.finish(None);
    };
    fields.within = Within::Message("hello");
    let app = fields.app(&hello.namespace, &hello.application);
    if let Some(app) = &app {
        access.check(app, &hello.unit, false)?;
    }
    let v1::Hello { unit, incarnation, stateless, labels, .. } = &*hello;
    let (unit, labels) = (fields.unit("unit", unit), fields.labels(labels));
    let who = Newcomer { unit, incarnation: *incarnation, stateless: *stateless, labels };
    let reader = access.reader();
    let may_read: MayRead = Arc::new(move |app| reader.may_read(app));
    fields.finish(app.map(|app| Hello { app, who, may_read }))
}

/// Reads a `RegisterUnit`: the unit, its ttl and the id of the request.
pub fn register_unit(
    fields: &mut Fields,
    wire: &v1::RegisterUnitRequest,
) -> Option<(Newcomer, Option<Duration>, Option<RequestId>)> {
    let (unit, labels) = (fields.unit("unit", &wire.unit), fields.labels(&wire.labels));
    let (incarnation, stateless) = (wire.previous_incarnation, wire.stateless);
    let who = Newcomer { unit, incarnation, stateless, labels };
    let ttl = fields.duration("ttl", wire.ttl, TTL_MIN, TTL_MAX);
    Some((who, ttl, request_id(fields, wire)))
}

/// Reads an `AnnounceStop`.
pub fn announce_stop(fields: &mut Fields, wire: v1::AnnounceStopRequest) -> Option<Request> {
    let reporter = fields.reporter(&wire.unit, wire.incarnation);
    Some(Request { id: request_id(fields, &wire), command: Command::AnnounceStop(reporter) })
}

/// Reads a `RequestCallback`.
pub fn request_callback(fields: &mut Fields, wire: v1::RequestCallbackRequest) -> Option<Request> {
    let reporter = fields.reporter(&wire.unit, wire.incarnation);
    let (component, key) =
        (fields.part("component", &wire.component), fields.part("key", &wire.key));
    let (min, max) = (*CALLBACK_AFTER.start(), *CALLBACK_AFTER.end());
    let after = fields.duration("after", wire.after, min, max);
    let reason = fields.text("reason", &wire.reason, NAME_BYTES_MAX);
    let topic = Topic::requested(component, key);
    let command = Command::RequestCallback { reporter, topic, after, reason };
    Some(Request { id: request_id(fields, &wire), command })
}

/// Reads every later message of a worker of an application.
pub fn inbound(
    (app, reporter): (&AppName, &Reporter),
    rules: &ErrorRules,
    message: Option<Payload>,
) -> Inbound<ApiError> {
    let reporter = || reporter.clone();
    match message {
        Some(Payload::Heartbeat(_)) => Inbound::Heartbeat,
        Some(Payload::Goodbye(goodbye)) => Inbound::Goodbye { removed: goodbye.removed },
        Some(Payload::Report(report)) => {
            numbered(app, report.seq, None, |fields| report_of(fields, reporter(), report))
        }
        Some(Payload::Replace(replace)) => {
            let question = u64::from_str_radix(&replace.collect_id, 16).ok();
            numbered(app, replace.seq, question, |fields| {
                let component = replace.component.as_deref();
                let (component, set) = pull_set(fields, component, replace.statuses);
                Some(Command::Replace(reporter(), component, set))
            })
        }
        Some(Payload::Unchanged(unchanged)) => {
            let question = u64::from_str_radix(&unchanged.collect_id, 16).ok();
            numbered(app, unchanged.seq, question, |fields| {
                let component = unchanged.component.as_ref();
                let component = component.map(|text| fields.part("component", text));
                Some(Command::Confirm(reporter(), component))
            })
        }
        Some(Payload::Stopping(stopping)) => {
            numbered(app, stopping.seq, None, |_| Some(Command::AnnounceStop(reporter())))
        }
        Some(Payload::Clear(clear)) => numbered(app, clear.seq, None, |fields| {
            let component = Some(fields.part("component", &clear.component));
            let key = Some(fields.part("key", &clear.key));
            let kind = fields.kind(clear.kind);
            Some(Command::Clear { reporter: reporter(), component, key, kind })
        }),
        Some(Payload::Error(error)) => numbered(app, error.seq, None, |fields| {
            error::error_command(fields, reporter(), error.error.as_ref(), rules)
        }),
        Some(Payload::Resolve(resolve)) => numbered(app, resolve.seq, None, |fields| {
            let v1::ConnectResolve { component, target, generation, all_components, .. } = &resolve;
            let what = (component.as_str(), *all_components);
            Some(error::success_command(fields, reporter(), what, target, generation))
        }),
        Some(Payload::ClaimLeadership(_)) => unnumbered(Command::ClaimLeadership(reporter(), None)),
        Some(Payload::ReleaseLeadership(_)) => unnumbered(Command::StepBack(reporter())),
        Some(Payload::Hello(_)) => {
            Inbound::Broken(ApiError::of_value("hello", "was sent already; a session has one"))
        }
        None => {
            let text = "is empty, or of a newer version of the contract";
            Inbound::Broken(ApiError::of_value("message", text))
        }
    }
}

fn numbered(
    app: &AppName,
    seq: u64,
    answers: Option<u64>,
    read: impl FnOnce(&mut Fields) -> Option<Command>,
) -> Inbound<ApiError> {
    let mut fields = Fields::about(app);
    if seq == 0 {
        fields.note("seq", Reason::MissingField, "is required: 1 or more, and growing");
    }
    let command = read(&mut fields);
    match fields.finish(command) {
        Ok(command) => Inbound::Command { seq, command, answers },
        Err(refusal) => Inbound::Refused { seq, refusal },
    }
}

fn unnumbered(command: Command) -> Inbound<ApiError> {
    Inbound::Command { seq: 0, command, answers: None }
}

fn report_of(
    fields: &mut Fields,
    reporter: Reporter,
    report: v1::ConnectReport,
) -> Option<Command> {
    let count = report.statuses.len();
    if STATUSES_MAX < count {
        let text = format!("are {count}; at most {STATUSES_MAX} in one message");
        let noted = fields.note("statuses", Reason::InvalidValue, text);
        noted.with("count", count).with("max", STATUSES_MAX);
        return None;
    }
    let mut statuses = statuses(fields, report.statuses)?;
    Some(match statuses.len() {
        1 => {
            let (kind, status) = statuses.remove(0);
            Command::Report(reporter, kind, status)
        }
        _ => Command::ReportAll(reporter, statuses),
    })
}

/// Returns the message to the worker.
pub fn outbound(outbound: Outbound<ApiError>, app: &AppName) -> v1::ConnectResponse {
    let message = match outbound {
        Outbound::Welcome(welcome) => Answer::Welcome(welcome_of(*welcome, app)),
        Outbound::Ack { seq, revision } => Answer::Ack(v1::Ack { seq, revision: revision.0 }),
        Outbound::Refused { seq, refusal } => reject(seq, refusal),
        Outbound::Rejected { seq, error } => reject(seq, ApiError::of(app, error)),
        Outbound::Collect(question) => Answer::Collect(v1::Collect {
            collect_id: format!("{:x}", question.id),
            component: question.component.map(|component| component.as_str().to_string()),
            recompute: question.recompute,
            deadline: Some(timestamp(question.deadline)),
        }),
        Outbound::NeedsMet(source) => Answer::NeedsMet(needs_met(&source)),
        Outbound::RetryDue { topic, operation_id } => Answer::RetryDue(v1::RetryDue {
            component: topic.component.as_str().to_string(),
            target: topic.target.to_string(),
            operation_id: operation_id.to_string(),
        }),
        Outbound::CallbackDue { topic, request } => Answer::CallbackDue(v1::CallbackDue {
            component: topic.component.as_str().to_string(),
            key: topic.key.map_or_else(String::new, |key| key.as_str().to_string()),
            reason: request.reason.to_string(),
            request_time: Some(timestamp(request.time)),
        }),
        Outbound::Verdict { seq, finding, fault } => {
            let verdict = fault.map(|fault| error::verdict(&fault));
            let verdict = verdict.unwrap_or_else(|| error::finding_verdict(&finding));
            Answer::Verdict(v1::ConnectVerdict { seq, verdict: Some(verdict) })
        }
        Outbound::Hold { key, fault } => Answer::Hold(error::hold(&key, &fault)),
        Outbound::HoldReleased { component, reason } => Answer::HoldReleased(v1::HoldReleased {
            component: component.as_str().to_string(),
            reason: reason.to_string(),
        }),
        Outbound::Leadership { leader, lease_epoch, is_self, heartbeat_interval } => {
            Answer::Leadership(v1::Leadership {
                leader: leader.map_or_else(String::new, |leader| leader.to_string()),
                lease_epoch,
                is_self,
                heartbeat_interval: heartbeat_interval.map(duration),
            })
        }
        Outbound::DataChanged { etag } => Answer::AppDataChanged(v1::AppDataChanged { etag }),
        Outbound::Superseded { incarnation } => Answer::Superseded(v1::Superseded { incarnation }),
        Outbound::Drain { reconnect_after } => {
            Answer::Drain(v1::ConnectDrain { reconnect_after: Some(duration(reconnect_after)) })
        }
    };
    v1::ConnectResponse { message: Some(message) }
}

fn reject(seq: u64, problem: ApiError) -> Answer {
    let status = tonic::Status::from(problem);
    // The status details in the trailers of a call are exactly this message.
    let status = tonic_types::pb::Status::decode(status.details()).ok();
    Answer::Reject(v1::Reject { seq, status })
}

fn welcome_of(welcome: Welcome, app: &AppName) -> v1::Welcome {
    let Welcome { session, .. } = welcome;
    let retained = welcome.retained.iter().map(|(key, status)| status_report(key, status));
    let (retained, retained_rest) = first_of(retained, PAGE_BYTES_MAX);
    let holds = welcome.holds.iter().map(|(key, fault)| error::hold(key, fault));
    let (holds, holds_rest) = first_of(holds, PAGE_BYTES_MAX);
    v1::Welcome {
        session_id: format!("{:016x}-{}", session.replica.0, session.number),
        incarnation: welcome.incarnation,
        heartbeat_interval: Some(duration(welcome.heartbeat_interval)),
        retained,
        retained_rest_count: count(retained_rest),
        operations: welcome.pending.iter().map(|p| pending(app, p)).collect(),
        leader: welcome.leader.map_or_else(String::new, |leader| leader.to_string()),
        lease_epoch: welcome.lease_epoch,
        holds,
        holds_rest_count: count(holds_rest),
        server_time: Some(timestamp(welcome.server_time)),
        unacknowledged_max: UNACKNOWLEDGED_MAX,
    }
}

/// Maximum messages of a worker without an acknowledgement: two chunks, so that one can fill while
/// the other commits.
const UNACKNOWLEDGED_MAX: i32 = 512;
