//! Every limit in force with its name, as `GetServerInfo` returns them.

use std::collections::BTreeMap;

use super::{Config, FileLimits};
use crate::domain::limits;
use crate::domain::usage::Usage;

impl Config {
    /// Returns the limits by name. Those that an operator sets have the names of the configuration
    /// file.
    pub fn limits(&self) -> BTreeMap<&'static str, u64> {
        let mut all = fixed();
        let age = self.service.connection_age_max;
        let named = super::file_limits::named(&self.aggregator, &self.service);
        all.extend(named.into_iter().map(|(name, max)| (name, max as u64)));
        all.extend([
            ("request_ids_max", self.aggregator.limits.request_ids_max as u64),
            ("request_ids_per_unit_max", self.aggregator.limits.request_ids_per_unit_max as u64),
            ("connection_age_seconds_max", age.map_or(0, |age| age.as_secs())),
            ("sessions_max", self.session.sessions_max as u64),
            ("heartbeats_per_second_max", u64::from(self.session.heartbeats_per_second_max)),
            ("heartbeat_interval_seconds", self.session.heartbeat_interval.as_secs()),
            ("events_max", self.retention.events_max),
            ("event_age_max_seconds", self.retention.event_age_max.as_secs()),
            ("tombstones_max", self.retention.tombstones_max as u64),
        ]);
        let total = &self.aggregator.limits.total;
        all.extend([
            ("units_total_max", total.units),
            ("statuses_total_max", total.statuses),
            ("faults_total_max", total.faults),
            ("operations_total_max", total.operations),
            ("data_bytes_total_max", total.data_bytes),
            ("record_bytes_total_max", total.record_bytes),
            ("history_bytes_total_max", total.history_bytes),
        ]);
        all
    }
}

impl FileLimits {
    /// Returns the bounds of all applications together.
    pub(super) fn total(&self, default: Usage) -> Usage {
        Usage {
            units: self.units_total_max.unwrap_or(default.units),
            statuses: self.statuses_total_max.unwrap_or(default.statuses),
            faults: self.faults_total_max.unwrap_or(default.faults),
            operations: self.operations_total_max.unwrap_or(default.operations),
            data_bytes: self.data_bytes_total_max.unwrap_or(default.data_bytes),
            record_bytes: self.record_bytes_total_max.unwrap_or(default.record_bytes),
            history_bytes: self.history_bytes_total_max.unwrap_or(default.history_bytes),
        }
    }
}

/// Returns the limits of the contract, which are the same for every server.
fn fixed() -> BTreeMap<&'static str, u64> {
    let watch = crate::watch::Limits::default();
    BTreeMap::from([
        ("name_bytes_max", limits::NAME_BYTES_MAX as u64),
        ("message_bytes_max", limits::MESSAGE_BYTES_MAX as u64),
        ("short_message_chars_max", limits::SHORT_MESSAGE_CHARS_MAX as u64),
        ("labels_max", limits::LABELS_MAX as u64),
        ("label_bytes_max", limits::LABEL_BYTES_MAX as u64),
        ("request_id_bytes_max", limits::REQUEST_ID_BYTES_MAX as u64),
        ("request_ttl_seconds", limits::REQUEST_TTL.as_secs()),
        ("ttl_min_seconds", limits::TTL_MIN.as_secs()),
        ("ttl_max_seconds", limits::TTL_MAX.as_secs()),
        ("internal_detail_bytes_max", limits::INTERNAL_DETAIL_BYTES_MAX as u64),
        ("data_key_bytes_max", limits::DATA_KEY_BYTES_MAX as u64),
        ("data_value_bytes_max", limits::DATA_VALUE_BYTES_MAX as u64),
        ("data_bytes_max", limits::DATA_BYTES_MAX),
        ("data_keys_max", limits::DATA_KEYS_MAX as u64),
        ("payload_bytes_max", limits::PAYLOAD_BYTES_MAX as u64),
        ("checkpoint_bytes_max", limits::CHECKPOINT_BYTES_MAX as u64),
        ("progress_bytes_max", limits::PROGRESS_BYTES_MAX as u64),
        ("uri_bytes_max", limits::URI_BYTES_MAX as u64),
        ("filters_per_scope_max", watch.filters_per_scope_max as u64),
        ("filters_per_peer_max", watch.filters_per_peer_max as u64),
        ("page_size_max", limits::PAGE_SIZE_MAX as u64),
        ("page_bytes_max", crate::service::PAGE_BYTES_MAX as u64),
        ("page_size_default", limits::PAGE_SIZE_DEFAULT as u64),
    ])
}
