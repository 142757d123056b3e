//! The data that the leader of an application keeps for all its units; they outlive leaders and
//! units.
//!
//! Values appear in no event, log or metric. They are not for secrets: every reader of the
//! application may read them.

pub mod refused;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::model::bytes::Bytes;

/// Version and size of an application's data, available without reading the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DataHead {
    /// Grows with each change; 0 before the first change.
    pub version: u64,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of all keys and values.
    pub bytes: u64,
    /// How far lease epochs, fences and data versions of an earlier application of the name may
    /// have risen whose tombstone is pruned. New ones are above it. Not written if 0. It is here
    /// because no further field at the end of a head can be left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub counts_above: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

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
