//! Every limit in force with its name, as `GetServerInfo` returns them.

use std::collections::BTreeMap;

use super::{Config, Number};
use crate::domain::limits;

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
