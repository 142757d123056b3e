//! Every limit in force with its name, as `GetServerInfo` returns them.

use std::collections::BTreeMap;

use super::{Config, File, FileLimits, Number};
use crate::domain::limits;
use crate::service::{CONNECTION_SHARE, STREAM_SHARE};

/// Settings of `[sessions]` that limit nothing.
const NO_LIMITS: [&str; 2] = ["vanish_percent_max", "replica_ttl_seconds"];

impl Config {
    /// Returns the limits by name. Those that an operator sets have the names of the configuration
    /// file.
    pub fn limits(&self) -> BTreeMap<&'static str, u64> {
        let mut all = fixed();
        let is_limit = |number: &Number| {
            ["limits", "history", "sessions"].contains(&number.section)
                && !NO_LIMITS.contains(&number.key)
        };
        let own = self.numbers().into_iter().filter(is_limit);
        all.extend(own.map(|number| (number.key, number.value)));
        all
    }
}

impl FileLimits {
    /// Sets the limits of a namespace: by default one namespace may use all that the server has,
    /// and none has a limit above that.
    pub(super) fn set_namespaces(&self, config: &mut Config) {
        let aggregator = &mut config.aggregator;
        let (total, namespace) = (&aggregator.limits.total, &mut aggregator.limits.namespace);
        namespace.units = within(self.units_per_namespace_max, total.units);
        namespace.statuses = within(self.statuses_per_namespace_max, total.statuses);
        namespace.data_bytes = within(self.data_bytes_per_namespace_max, total.data_bytes);
        aggregator.applications_per_namespace_max =
            within(self.applications_per_namespace_max, aggregator.applications_max);
    }
}

impl File {
    /// Sets the shares of one address and of one principal: by default a part of the whole, and
    /// never above it.
    pub(super) fn set_shares(&self, config: &mut Config) {
        let share = |given: Option<usize>, whole: usize, part: usize| {
            within(given.or(Some((whole / part).max(1))), whole)
        };
        let (limits, sessions, service) = (&self.limits, &self.sessions, &mut config.service);
        let whole = service.connections.connections_max;
        service.connections.per_peer_max =
            share(limits.connections_per_peer_max, whole, CONNECTION_SHARE);
        service.account.connections_max =
            share(limits.connections_per_principal_max, whole, STREAM_SHARE);
        let whole = service.watches.streams_max;
        service.watches.streams_per_peer_max =
            share(limits.watch_streams_per_peer_max, whole, STREAM_SHARE);
        service.watches.streams_per_principal_max =
            share(limits.watch_streams_per_principal_max, whole, STREAM_SHARE);
        let whole = config.session.sessions_max;
        service.sessions_per_peer_max = share(sessions.sessions_per_peer_max, whole, STREAM_SHARE);
        service.sessions_per_principal_max =
            share(sessions.sessions_per_principal_max, whole, STREAM_SHARE);
    }
}

/// Returns the limit of a part, by default that of all, and never above it.
fn within<T: Ord + Copy>(given: Option<T>, all: T) -> T {
    given.unwrap_or(all).min(all)
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
        ("request_list_max", crate::service::call::intake::LIST_MAX as u64),
        ("request_parts_max", crate::service::call::intake::PARTS_MAX as u64),
        ("page_size_default", limits::PAGE_SIZE_DEFAULT as u64),
    ])
}
