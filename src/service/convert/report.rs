//! Conversion of reports from the wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fields::{Fields, Within};
use crate::domain::command::{Command, NewStatus};
use crate::domain::leadership::Claim;
use crate::domain::leadership::status::{Mode, NewApplicationStatus};
use crate::domain::limits::{
    MESSAGE_BYTES_MAX, NAME_BYTES_MAX, SHORT_MESSAGE_CHARS_MAX, TTL_MAX, TTL_MIN,
};
use crate::domain::name::PartName;
use crate::domain::status::Kind;
use crate::domain::status::report::Report;
use crate::domain::unit::Reporter;
use crate::proto::v1;
use crate::service::code::{Reason, quoted};

/// Reads one status, and its kind if given.
fn new_status(
    fields: &mut Fields,
    within: Within,
    given: v1::StatusReport,
) -> Option<(Option<Kind>, NewStatus)> {
    let outer = std::mem::replace(&mut fields.within, within);
    let component = fields.part("component", &given.component);
    let key = fields.part("key", &given.key);
    let kind = fields.kind(given.kind);
    let observe_time = fields.moment("observe_time", given.observe_time.as_ref());
    let report = report_of(fields, given);
    fields.within = outer;
    let status = NewStatus {
        component: component?,
        key: key?,
        report: Arc::new(report?),
        observe_time: observe_time?,
    };
    Some((kind?, status))
}

fn report_of(fields: &mut Fields, given: v1::StatusReport) -> Option<Report> {
    let level = fields.level("level", given.level);
    let message = fields.owned_text("message", given.message, MESSAGE_BYTES_MAX);
    if SHORT_MESSAGE_CHARS_MAX < given.short_message.chars().count() {
        let text = format!("has more than {SHORT_MESSAGE_CHARS_MAX} characters");
        fields
            .note("short_message", Reason::MessageTooLong, text)
            .with("max", SHORT_MESSAGE_CHARS_MAX);
    }
    let reason = fields.owned_text("reason", given.reason, NAME_BYTES_MAX);
    let check = fields.owned_text("check", given.check, MESSAGE_BYTES_MAX);
    let action = fields.owned_text("action", given.action, MESSAGE_BYTES_MAX);
    let priority = fields.weight("priority", given.priority);
    let precedence = fields.weight("precedence", given.precedence);
    let labels = fields.labels(&given.labels);
    let ttl = fields.duration("ttl", given.ttl.as_ref(), TTL_MIN, TTL_MAX);
    Some(Report {
        level: level?,
        message: message?,
        short_message: given.short_message.into(),
        reason: reason?,
        check: check?,
        action: action?,
        priority: priority?,
        precedence: precedence?,
        labels: labels?,
        ttl: ttl?,
    })
}

pub(super) fn reporter(
    fields: &mut Fields,
    unit: &str,
    incarnation: Option<u64>,
) -> Option<Reporter> {
    let unit = fields.unit("unit", unit)?;
    Some(Reporter::new(unit, incarnation))
}

/// Reads a `ReportStatus`.
pub fn report(fields: &mut Fields, request: &mut v1::ReportStatusRequest) -> Option<Command> {
    let reporter = reporter(fields, &request.unit, request.incarnation);
    let Some(status) = request.status.take() else {
        fields.note("status", Reason::MissingField, "is required");
        return None;
    };
    let (kind, status) = new_status(fields, Within::Message("status"), status)?;
    Some(Command::Report(reporter?, kind.unwrap_or(Kind::Push), status))
}

/// Reads a `ReplaceStatuses`.
pub fn replace(fields: &mut Fields, request: &mut v1::ReplaceStatusesRequest) -> Option<Command> {
    let reporter = reporter(fields, &request.unit, request.incarnation);
    let statuses = std::mem::take(&mut request.statuses);
    let set = pull_set(fields, request.component.as_deref(), statuses);
    let (component, set) = set?;
    Some(Command::Replace(reporter?, component, set))
}

/// Reads several statuses of one message; the default kind is push.
pub(super) fn statuses(
    fields: &mut Fields,
    given: Vec<v1::StatusReport>,
) -> Option<Vec<(Kind, NewStatus)>> {
    let read = given.into_iter().enumerate().map(|(n, status)| {
        let (kind, status) = new_status(fields, Within::Nth("statuses", n), status)?;
        Some((kind.unwrap_or(Kind::Push), status))
    });
    // Reads all of them, so that the error has every violation.
    read.collect::<Vec<_>>().into_iter().collect()
}

/// Reads a pull set, of one component or of all.
pub(super) fn pull_set(
    fields: &mut Fields,
    component: Option<&str>,
    statuses: Vec<v1::StatusReport>,
) -> Option<(Option<PartName>, Vec<NewStatus>)> {
    let component = match component {
        Some(component) => fields.part("component", component).map(Some),
        None => Some(None),
    };
    let mut set = Vec::with_capacity(statuses.len());
    let mut places: BTreeMap<(PartName, PartName), usize> = BTreeMap::new();
    for (n, status) in statuses.into_iter().enumerate() {
        let within = Within::Nth("statuses", n);
        let Some((kind, mut status)) = new_status(fields, within, status) else {
            continue;
        };
        if kind == Some(Kind::Push) {
            let text = "is push; a pull set holds pull statuses, report this one separately";
            fields.note(&format!("statuses[{n}].kind"), Reason::InvalidValue, text);
        }
        if let Some(Some(component)) = &component {
            if status.component == PartName::default() {
                status.component = component.clone();
            } else if status.component != *component {
                let text = format!(
                    "is {}, but the set is that of {}; leave one of them out",
                    quoted(status.component.as_str()),
                    quoted(component.as_str())
                );
                fields
                    .note(&format!("statuses[{n}].component"), Reason::InvalidValue, text)
                    .with("value", status.component.as_str());
            }
        }
        let place = (status.component.clone(), status.key.clone());
        if let Some(first) = places.insert(place, n) {
            let text = format!(
                "names the same component {} and key {} as statuses[{first}]; \
                 a pull set has each once",
                quoted(status.component.as_str()),
                quoted(status.key.as_str())
            );
            fields.note(&format!("statuses[{n}]"), Reason::InvalidValue, text).with("first", first);
        }
        set.push(status);
    }
    Some((component?, set))
}

/// Reads a `ClearStatus`.
pub fn clear(fields: &mut Fields, request: &v1::ClearStatusRequest) -> Option<Command> {
    let reporter = reporter(fields, &request.unit, request.incarnation);
    let mut part = |field: &str, text: &Option<String>| match text {
        Some(text) => fields.part(field, text).map(Some),
        None => Some(None),
    };
    let component = part("component", &request.component);
    let key = part("key", &request.key);
    let kind = fields.kind(request.kind);
    Some(Command::Clear { reporter: reporter?, component: component?, key: key?, kind: kind? })
}

/// Reads the unit and the epoch of a leader.
pub fn claim(fields: &mut Fields, unit: &str, lease_epoch: u64) -> Option<Claim> {
    let unit = fields.unit_or_application("unit", unit)?;
    Some(Claim { unit, lease_epoch })
}

/// Reads a `SetApplicationStatus`.
pub fn application_status(
    fields: &mut Fields,
    request: v1::SetApplicationStatusRequest,
) -> Option<NewApplicationStatus> {
    let level = fields.level("level", request.level);
    let message = fields.owned_text("message", request.message, MESSAGE_BYTES_MAX);
    let reason = fields.owned_text("reason", request.reason, NAME_BYTES_MAX);
    let action = fields.owned_text("action", request.action, MESSAGE_BYTES_MAX);
    let ttl = fields.duration("ttl", request.ttl.as_ref(), TTL_MIN, TTL_MAX);
    let observe_time = fields.moment("observe_time", request.observe_time.as_ref());
    let mode = match v1::ApplicationStatusMode::try_from(request.mode) {
        Ok(v1::ApplicationStatusMode::Override) => Some(Mode::Override),
        Ok(_) => Some(Mode::Contribute),
        Err(_) => {
            let text = format!("is {}; give contribute or override", request.mode);
            fields.note("mode", Reason::InvalidValue, text).with("value", request.mode);
            None
        }
    };
    Some(NewApplicationStatus {
        mode: mode?,
        level: level?,
        message: message?,
        reason: reason?,
        action: action?,
        ttl: ttl?,
        observe_time: observe_time?,
    })
}
