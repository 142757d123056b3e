//! Conversion of leadership and application data, in both directions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fields::Fields;
use super::output::{duration, timestamp};
use crate::domain::app::AppState;
use crate::domain::data::DataPatch;
use crate::domain::name::UnitName;
use crate::domain::time::Timestamp;
use crate::domain::unit::Reporter;
use crate::proto::v1;
use crate::service::code::{Reason, quoted};

/// Reads a unit that calls outside of a session.
pub fn reporter(fields: &mut Fields, unit: &str, incarnation: Option<u64>) -> Option<Reporter> {
    Some(Reporter::new(fields.unit("unit", unit)?, incarnation))
}

/// Reads the change of an `UpdateAppData`, without its caller.
pub fn data_patch(
    fields: &mut Fields,
    request: &mut v1::UpdateAppDataRequest,
) -> Option<DataPatch> {
    let set = std::mem::take(&mut request.set);
    let set: BTreeMap<Arc<str>, _> = set.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
    let delete = std::mem::take(&mut request.delete);
    let delete: Vec<Arc<str>> = delete.into_iter().map(Arc::from).collect();
    let mut keys = set.keys().map(|key| ("set", key)).chain(delete.iter().map(|k| ("delete", k)));
    if let Some((field, _)) = keys.find(|(_, key)| key.is_empty()) {
        fields.note(field, Reason::InvalidValue, "has an empty key; keys have 1 to 256 bytes");
        return None;
    }
    if let Some(both) = delete.iter().find(|key| set.contains_key(*key)) {
        let text = format!("has {}, which is also set; name each key once", quoted(both));
        fields.note("delete", Reason::InvalidValue, text).with("value", both);
        return None;
    }
    let etag = request.etag.take().map(String::into_boxed_str);
    Some(DataPatch { set, delete, etag })
}

/// Returns the lease as of `now`. An expired lease gives `None`, even if its end is not committed
/// yet.
pub fn lease(state: &AppState, now: Timestamp) -> Option<v1::Lease> {
    let head = state.head();
    if head.config.external_leader.is_some() {
        let unit = head.leader()?.to_string();
        return Some(v1::Lease { unit, ..v1::Lease::default() });
    }
    let lease = head.lease.as_ref()?;
    if lease.ends.is_some_and(|ends| ends <= now) {
        return None;
    }
    Some(v1::Lease {
        unit: lease.holder.to_string(),
        incarnation: lease.incarnation,
        lease_epoch: head.lease_epoch,
        duration: Some(duration(lease.duration)),
        acquire_time: Some(timestamp(lease.acquire_time)),
        expire_time: lease.ends.map(timestamp),
    })
}

/// Returns the first candidates in the order of their claims, and the number of all.
pub fn candidates(state: &AppState, count_max: usize) -> (Vec<String>, i32) {
    let waiting = state.units_after(None);
    let mut waiting: Vec<(u64, &UnitName)> =
        waiting.filter_map(|(name, unit)| Some((unit.candidate?, name))).collect();
    waiting.sort_unstable();
    let count = i32::try_from(waiting.len()).unwrap_or(i32::MAX);
    (waiting.into_iter().take(count_max).map(|(_, name)| name.to_string()).collect(), count)
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
