//! Changes of the leader's data in a draft.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::bytes::Bytes;
use crate::domain::model::data::refused::{EtagMismatch, UpdateError, ValueTooLarge};
use crate::domain::model::data::{DataHead, DataPatch};
use crate::domain::model::leadership::Claim;
use crate::domain::model::limits::{
    DATA_BYTES_MAX, DATA_KEY_BYTES_MAX, DATA_KEYS_MAX, DATA_VALUE_BYTES_MAX,
};
use crate::domain::model::request::Outcome;
use crate::domain::rules::leadership::{lead_outside, may_lead};
use crate::domain::rules::quota::{Total, check_total, within};

fn check(key: &str, value: &Bytes) -> Result<(), ValueTooLarge> {
    let max = DATA_KEY_BYTES_MAX as u64;
    if DATA_KEY_BYTES_MAX < key.len() {
        let start: String = key.chars().take(16).collect();
        let what = format!("key {start:?}…");
        return Err(ValueTooLarge { what, bytes: key.len() as u64, max });
    }
    if DATA_VALUE_BYTES_MAX < value.len() {
        let (what, max) = (format!("value of {key:?}"), DATA_VALUE_BYTES_MAX as u64);
        return Err(ValueTooLarge { what, bytes: value.len() as u64, max });
    }
    Ok(())
}

/// Applies a change from the leader, as a whole or not at all.
pub fn update_data(
    draft: &mut Draft<'_>,
    claim: &Claim,
    patch: &DataPatch,
) -> Result<Outcome, UpdateError> {
    may_lead(draft, claim)?;
    let current = draft.head.data.etag();
    if patch.etag.as_ref().is_some_and(|given| **given != *current) {
        return Err(EtagMismatch { current }.into());
    }
    let deleted = patch.delete.iter().map(|key| (key.clone(), Bytes::default()));
    let set = patch.set.iter().map(|(key, value)| (key.clone(), value.clone()));
    // A key that is named twice counts once.
    let all: BTreeMap<Arc<str>, Bytes> = deleted.chain(set).collect();
    let mut changes: BTreeMap<Arc<str>, Option<Bytes>> = BTreeMap::new();
    let (mut keys, mut bytes) = (draft.head.data.keys, draft.head.data.bytes);
    for (key, value) in all {
        check(&key, &value)?;
        let old = draft.data.get(&key);
        let new = (!value.is_empty()).then_some(value);
        if old == new.as_ref() {
            continue;
        }
        let size = |value: &Bytes| (key.len() + value.len()) as u64;
        keys = keys + u64::from(new.is_some()) - u64::from(old.is_some());
        bytes = bytes + new.as_ref().map_or(0, size) - old.map_or(0, size);
        changes.insert(key, new);
    }
    if changes.is_empty() {
        let changed = lead_outside(draft, claim);
        let data_version = draft.head.data.version;
        return Ok(Outcome { changed, data_version, ..Outcome::default() });
    }
    within("data_keys_max", DATA_KEYS_MAX, keys as usize, "keys of the application's data")?;
    if DATA_BYTES_MAX < bytes {
        let what = "all keys and values together".to_string();
        return Err(ValueTooLarge { what, bytes, max: DATA_BYTES_MAX }.into());
    }
    if draft.head.data.bytes < bytes {
        check_total(draft, Total::DataBytes, bytes)?;
    }
    lead_outside(draft, claim);
    let removed = changes.values().filter(|value| value.is_none()).count() as u32;
    draft.data.put(changes);
    let version = draft.next_count(draft.head.data.version);
    draft.head.set_data(DataHead { version, keys, bytes, ..draft.head.data });
    Ok(Outcome { changed: true, removed, data_version: version, ..Outcome::default() })
}
