//! Conversion of leadership, and of the status and the data that a leader sets, in both directions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fields::Fields;
use super::identity::request_id;
use super::report::pull_set;
use super::value::{count, duration};
use crate::domain::app::AppState;
use crate::domain::command::{Command, Request};
use crate::domain::data::DataPatch;
use crate::domain::leadership::status::{Mode, NewApplicationStatus};
use crate::domain::limits::{
    LEASE_DURATION_MAX, LEASE_DURATION_MIN, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, TTL_MAX, TTL_MIN,
};
use crate::domain::name::UnitName;
use crate::proto::v1;
use crate::service::code::{Reason, quoted};
use crate::service::protobuf::timestamp;
use crate::store::Moment;

/// Reads a `ClaimLeadership`.
pub fn claim_leadership(fields: &mut Fields, wire: v1::ClaimLeadershipRequest) -> Option<Request> {
    let reporter = fields.reporter(&wire.unit, wire.incarnation);
    let given = wire.lease_duration;
    let duration = fields.duration("lease_duration", given, LEASE_DURATION_MIN, LEASE_DURATION_MAX);
    let id = request_id(fields, &wire);
    Some(Request { id, command: Command::ClaimLeadership(reporter, duration) })
}

/// Reads a `RenewLeadership`.
pub fn renew_leadership(fields: &mut Fields, wire: v1::RenewLeadershipRequest) -> Option<Request> {
    let claim = fields.claim(&wire.unit, wire.lease_epoch);
    Some(Request { id: None, command: Command::RenewLeadership(claim) })
}

/// Reads a `ReleaseLeadership`.
pub fn release_leadership(
    fields: &mut Fields,
    wire: v1::ReleaseLeadershipRequest,
) -> Option<Request> {
    let claim = fields.claim(&wire.unit, wire.lease_epoch);
    Some(Request { id: request_id(fields, &wire), command: Command::ReleaseLeadership(claim) })
}

/// Reads a `TransferLeadership`.
pub fn transfer_leadership(
    fields: &mut Fields,
    wire: v1::TransferLeadershipRequest,
) -> Option<Request> {
    let unit = fields.unit("to_unit", &wire.to_unit);
    Some(Request { id: request_id(fields, &wire), command: Command::TransferLeadership(unit) })
}

/// Reads a `SetApplicationStatus`.
pub fn set_application_status(
    fields: &mut Fields,
    wire: v1::SetApplicationStatusRequest,
) -> Option<Request> {
    fields.cut_long_texts(wire.cut_long_texts);
    let claim = fields.writer(&wire.unit, wire.lease_epoch, wire.decided_outside);
    let id = request_id(fields, &wire);
    let status = application_status(fields, wire);
    Some(Request { id, command: Command::SetApplicationStatus(claim, status) })
}

fn application_status(
    fields: &mut Fields,
    request: v1::SetApplicationStatusRequest,
) -> NewApplicationStatus {
    NewApplicationStatus {
        level: fields.level("level", request.level),
        message: fields.prose("message", request.message, MESSAGE_BYTES_MAX),
        reason: fields.owned_text("reason", request.reason, NAME_BYTES_MAX),
        action: fields.prose("action", request.action, MESSAGE_BYTES_MAX),
        ttl: fields.duration("ttl", request.ttl, TTL_MIN, TTL_MAX),
        observe_time: fields.moment("observe_time", request.observe_time),
        mode: mode(fields, request.mode),
    }
}

fn mode(fields: &mut Fields, given: i32) -> Mode {
    match fields.choice("mode", given, "; give contribute or override") {
        Some(v1::ApplicationStatusMode::Override) => Mode::Override,
        _ => Mode::Contribute,
    }
}

/// Reads a `ReplaceApplicationStatuses`.
pub fn replace_application_statuses(
    fields: &mut Fields,
    wire: v1::ReplaceApplicationStatusesRequest,
) -> Option<Request> {
    fields.cut_long_texts(wire.cut_long_texts);
    let claim = fields.writer(&wire.unit, wire.lease_epoch, wire.decided_outside);
    let id = request_id(fields, &wire);
    let (component, set) = pull_set(fields, wire.component.as_deref(), wire.statuses);
    Some(Request { id, command: Command::ReplaceApplicationStatuses(claim, component, set) })
}

/// Reads a `ClearApplicationStatus`.
pub fn clear_application_status(
    fields: &mut Fields,
    wire: v1::ClearApplicationStatusRequest,
) -> Option<Request> {
    let claim = fields.writer(&wire.unit, wire.lease_epoch, wire.decided_outside);
    Some(Request { id: request_id(fields, &wire), command: Command::ClearApplicationStatus(claim) })
}

/// Reads an `UpdateAppData`.
pub fn update_app_data(fields: &mut Fields, wire: v1::UpdateAppDataRequest) -> Option<Request> {
    let claim = fields.writer(&wire.unit, wire.lease_epoch, wire.decided_outside);
    let id = request_id(fields, &wire);
    let patch = data_patch(fields, wire)?;
    Some(Request { id, command: Command::UpdateData(claim, patch) })
}

fn data_patch(fields: &mut Fields, wire: v1::UpdateAppDataRequest) -> Option<DataPatch> {
    let set = wire.set.into_iter();
    let set: BTreeMap<Arc<str>, _> = set.map(|(k, v)| (k.into(), v.into())).collect();
    let delete: Vec<Arc<str>> = wire.delete.into_iter().map(Arc::from).collect();
    let mut keys = set.keys().map(|key| ("set", key)).chain(delete.iter().map(|k| ("delete", k)));
    if let Some((field, _)) = keys.find(|(_, key)| key.is_empty()) {
        fields.note(field, Reason::InvalidValue, "has an empty key; keys have 1 to 256 bytes");
        return None;
    }
    if let Some(both) = delete.iter().find(|key| set.contains_key(*key)) {
        let text = format!("has {}, which is also set; name each key once", quoted(both));
        return fields.wrong("delete", text, both);
    }
    Some(DataPatch { set, delete, etag: wire.etag.map(String::into_boxed_str) })
}

/// Returns the lease at a moment. An expired lease gives `None`, even if its end is not committed
/// yet.
pub fn lease(state: &AppState, moment: &Moment) -> Option<v1::Lease> {
    let head = state.head();
    if head.config.external_leader.is_some() {
        let unit = head.leader()?.to_string();
        return Some(v1::Lease { unit, ..v1::Lease::default() });
    }
    let lease = head.lease.as_ref()?;
    let ends = state.deadlines_after(&moment.outages).of_lease(lease);
    if ends.is_some_and(|ends| ends <= moment.judged) {
        return None;
    }
    Some(v1::Lease {
        unit: lease.holder.to_string(),
        incarnation: lease.incarnation,
        lease_epoch: head.lease_epoch,
        duration: Some(duration(lease.duration)),
        acquire_time: Some(timestamp(lease.acquire_time)),
        expire_time: ends.map(timestamp),
    })
}

/// Returns the first candidates in the order of their claims, and the number of all.
pub fn candidates(state: &AppState, count_max: usize) -> (Vec<String>, i32) {
    let waiting = state.units_after(None);
    let mut waiting: Vec<(u64, &UnitName)> =
        waiting.filter_map(|(name, unit)| Some((unit.candidate?, name))).collect();
    waiting.sort_unstable();
    let all = count(waiting.len());
    (waiting.into_iter().take(count_max).map(|(_, name)| name.to_string()).collect(), all)
}

/// Returns the current data.
pub fn app_data(state: &AppState) -> v1::AppData {
    let data = state.data().iter();
    v1::AppData {
        data: data.map(|(key, value)| (key.to_string(), value.to_wire())).collect(),
        etag: state.head().data.etag(),
        revision: state.head().revision.0,
    }
}
