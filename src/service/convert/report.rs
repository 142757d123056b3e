//! Conversion of reports from the wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fields::{Fields, Within};
use super::identity::request_id;
use super::need::needs;
use crate::domain::command::{Command, NewStatus, Request};
use crate::domain::limits::{MESSAGE_BYTES_MAX, NAME_BYTES_MAX, TTL_MAX, TTL_MIN};
use crate::domain::name::PartName;
use crate::domain::status::Kind;
use crate::domain::status::report::{Details, Report};
use crate::proto::v1;
use crate::service::code::{Reason, quoted};

/// Reads one status, and its kind if given.
fn new_status(
    fields: &mut Fields,
    within: Within,
    given: v1::StatusReport,
) -> Option<(Option<Kind>, NewStatus)> {
    fields.checked(|fields| {
        fields.inside(within, |fields| {
            let component = fields.part("component", &given.component);
            let key = fields.part("key", &given.key);
            let kind = fields.kind(given.kind);
            let observe_time = fields.moment("observe_time", given.observe_time);
            let report = Arc::new(report_of(fields, given));
            (kind, NewStatus { component, key, report, observe_time })
        })
    })
}

fn report_of(fields: &mut Fields, given: v1::StatusReport) -> Report {
    let level = fields.level("level", given.level);
    let message = fields.prose("message", given.message, MESSAGE_BYTES_MAX);
    let end_after = fields.duration("end_after", given.end_after, TTL_MIN, TTL_MAX);
    let details = Details {
        short_message: fields.short_message(given.short_message),
        reason: fields.owned_text("reason", given.reason, NAME_BYTES_MAX),
        check: fields.prose("check", given.check, MESSAGE_BYTES_MAX),
        action: fields.prose("action", given.action, MESSAGE_BYTES_MAX),
        priority: fields.weight("priority", given.priority),
        precedence: fields.weight("precedence", given.precedence),
        labels: fields.labels(&given.labels),
        end_after,
        needs: needs(fields, &given.needs),
        since_unknown: given.since_unknown,
    };
    let ttl = fields.duration("ttl", given.ttl, TTL_MIN, TTL_MAX);
    Report { level, message, ttl, ..Report::default() }.with(details)
}

/// Reads a `ReportStatus`.
pub fn report(fields: &mut Fields, wire: v1::ReportStatusRequest) -> Option<Request> {
    fields.cut_long_texts(wire.cut_long_texts);
    let id = request_id(fields, &wire);
    let reporter = fields.reporter(&wire.unit, wire.incarnation);
    let Some(status) = wire.status else {
        return fields.missing("status", "is required");
    };
    let (kind, status) = new_status(fields, Within::Message("status"), status)?;
    let command = Command::Report(reporter, kind.unwrap_or(Kind::Push), status);
    Some(Request { id, command })
}

/// Reads a `ReplaceStatuses`.
pub fn replace(fields: &mut Fields, wire: v1::ReplaceStatusesRequest) -> Option<Request> {
    fields.cut_long_texts(wire.cut_long_texts);
    let id = request_id(fields, &wire);
    let reporter = fields.reporter(&wire.unit, wire.incarnation);
    let (component, set) = pull_set(fields, wire.component.as_deref(), wire.statuses);
    Some(Request { id, command: Command::Replace(reporter, component, set) })
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
) -> (Option<PartName>, Vec<NewStatus>) {
    let component =
        component.and_then(|text| fields.checked(|fields| fields.part("component", text)));
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
        if let Some(component) = &component {
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
    (component, set)
}

/// Reads a `ClearStatus`.
pub fn clear(fields: &mut Fields, wire: v1::ClearStatusRequest) -> Option<Request> {
    let reporter = fields.reporter(&wire.unit, wire.incarnation);
    let component = wire.component.as_ref().map(|text| fields.part("component", text));
    let key = wire.key.as_ref().map(|text| fields.part("key", text));
    let kind = fields.kind(wire.kind);
    let id = request_id(fields, &wire);
    Some(Request { id, command: Command::Clear { reporter, component, key, kind } })
}
