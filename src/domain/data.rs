//! The data that the leader of an application keeps for all its units; they outlive leaders and
//! units.
//!
//! Values appear in no event, log or metric. They are not for secrets: every reader of the
//! application may read them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::app::DataHead;
use super::apply::Effect;
use super::bytes::Bytes;
use super::command::{Claim, Rejected};
use super::draft::Draft;
use super::limits::{DATA_BYTES_MAX, DATA_KEY_BYTES_MAX, DATA_KEYS_MAX, DATA_VALUE_BYTES_MAX};
use super::quota::{Total, within};

/// Values by key.
pub type Data = BTreeMap<Arc<str>, Bytes>;

/// A change of the data: keys that are not named keep their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataPatch {
    /// Values to set; an empty one deletes its key.
    pub set: BTreeMap<Arc<str>, Bytes>,
    /// Keys to delete.
    pub delete: Vec<Arc<str>>,
    /// The etag of the version that was read, if the change is valid only for that version.
    pub etag: Option<Box<str>>,
}

impl DataHead {
    /// Returns the current etag, for compare-and-set: an opaque text.
    pub fn etag(&self) -> String {
        etag(self.version)
    }
}

/// Returns the etag of a version of the data.
pub fn etag(version: u64) -> String {
    format!("{version:x}")
}

impl Draft<'_> {
    /// Applies a change from the leader, as a whole or not at all.
    pub(super) fn update_data(
        &mut self,
        claim: &Claim,
        patch: &DataPatch,
    ) -> Result<Effect, Rejected> {
        self.may_lead(claim)?;
        let current = self.head.data.etag();
        if patch.etag.as_ref().is_some_and(|given| **given != *current) {
            return Err(Rejected::EtagMismatch { current });
        }
        let deleted = patch.delete.iter().map(|key| (key.clone(), Bytes::default()));
        let all = deleted.chain(patch.set.iter().map(|(key, value)| (key.clone(), value.clone())));
        let mut changes: BTreeMap<Arc<str>, Option<Bytes>> = BTreeMap::new();
        let (mut keys, mut bytes) = (self.head.data.keys, self.head.data.bytes);
        for (key, value) in all {
            check(&key, &value)?;
            let old = self.value(&key);
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
            let data_version = self.head.data.version;
            return Ok(Effect { data_version, ..Effect::default() });
        }
        let what = || "keys of the application's data".to_string();
        within("data_keys_max", DATA_KEYS_MAX, keys as usize, what)?;
        if DATA_BYTES_MAX < bytes {
            let what = "all keys and values together".to_string();
            return Err(Rejected::ValueTooLarge { what, bytes, max: DATA_BYTES_MAX });
        }
        if self.head.data.bytes < bytes {
            self.check_total(Total::DataBytes, bytes)?;
        }
        let removed = changes.values().filter(|value| value.is_none()).count() as u32;
        self.data.extend(changes);
        self.head_changed(false);
        let version = self.next_count(self.head.data.version);
        self.head.data = DataHead { version, keys, bytes };
        Ok(Effect { changed: true, removed, data_version: version, ..Effect::default() })
    }

    fn value(&self, key: &str) -> Option<&Bytes> {
        match self.data.get(key) {
            Some(value) => value.as_ref(),
            None => self.base.data.get(key),
        }
    }
}

fn check(key: &str, value: &Bytes) -> Result<(), Rejected> {
    let max = DATA_KEY_BYTES_MAX as u64;
    if DATA_KEY_BYTES_MAX < key.len() {
        let start: String = key.chars().take(16).collect();
        let what = format!("key {start:?}…");
        return Err(Rejected::ValueTooLarge { what, bytes: key.len() as u64, max });
    }
    if DATA_VALUE_BYTES_MAX < value.len() {
        let (what, max) = (format!("value of {key:?}"), DATA_VALUE_BYTES_MAX as u64);
        return Err(Rejected::ValueTooLarge { what, bytes: value.len() as u64, max });
    }
    Ok(())
}
