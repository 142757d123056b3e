//! Answers stored by request id, so that a retry is applied once.

pub mod log;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::model::name::UnitName;
use crate::domain::model::policy::Config;
use crate::domain::model::revision::Revision;
use crate::domain::model::time::Timestamp;

/// The outcome of a command. The topics leave the revision out;
/// [`apply`](crate::domain::rules::apply::apply) adds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The revision from which the outcome is in force.
    pub revision: Revision,
    /// Whether the command changed anything.
    pub changed: bool,
    /// Number of statuses removed or cleared.
    pub removed: u32,
    /// Incarnation that the unit began or continued; else 0.
    #[serde(default)]
    pub incarnation: u64,
    /// Fence of the operation; else 0.
    #[serde(default)]
    pub fence: u64,
    /// Epoch of the lease; else 0.
    #[serde(default)]
    pub lease_epoch: u64,
    /// Version of the data after a change; else 0.
    #[serde(default)]
    pub data_version: u64,
    /// Number of reports dropped because they are older than what is stored.
    #[serde(default)]
    pub late: u32,
}

/// Fingerprint of a request: the same id with another fingerprint is a different request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Name of the method, as on the wire.
    pub method: Arc<str>,
    /// The first 128 bits of the SHA-256 of the decoded request.
    pub digest: [u64; 2],
}

/// The id of a request, with its fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    /// The id under which the answer is stored.
    pub id: Arc<str>,
    /// The fingerprint; `None` matches any request with this id.
    pub fingerprint: Option<Fingerprint>,
}

impl From<&str> for RequestId {
    /// Returns an id that matches any request.
    fn from(id: &str) -> RequestId {
        RequestId { id: id.into(), fingerprint: None }
    }
}

/// The id of the request was used for a different request before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "request_id {id:?} was given to another request before, a {method}; give each request an \
     id of its own, and repeat a request unchanged"
)]
pub struct IdReused {
    /// The id.
    pub id: Arc<str>,
    /// Method of the first request.
    pub method: Arc<str>,
}

/// A stored answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Time of the answer.
    pub time: Timestamp,
    /// The outcome.
    pub outcome: Outcome,
    /// The fingerprint of the request. `None` in a fence, and in a record of an earlier version
    /// without fingerprints: it matches any request.
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
    /// The unit that sent the request, whose limit of ids it counts for; `""` for a request of no
    /// unit.
    #[serde(default)]
    pub unit: UnitName,
    /// The configuration at the revision of the outcome, if the request changes the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Arc<Config>>,
}

impl Remembered {
    /// Returns a record of an outcome that no request asked for.
    pub(in crate::domain) fn of(time: Timestamp, outcome: Outcome) -> Remembered {
        let unit = UnitName::application();
        Remembered { time, outcome, fingerprint: None, unit, config: None }
    }

    /// Returns the answer to a repeat of the request. A different request with the same id is
    /// rejected.
    pub(in crate::domain) fn repeat(&self, asked: &RequestId) -> Result<Outcome, IdReused> {
        match (&self.fingerprint, &asked.fingerprint) {
            (Some(first), Some(now)) if first != now => {
                let (id, method) = (asked.id.clone(), first.method.clone());
                Err(IdReused { id, method })
            }
            _ => Ok(self.outcome),
        }
    }
}

/// Prefix of the ids of fences. Request ids contain no control characters.
const FENCE: &str = "\u{1}removed ";

/// Returns the id under which the fence of a unit is stored.
pub(in crate::domain) fn fence_id(unit: &UnitName) -> Arc<str> {
    Arc::from(format!("{FENCE}{unit}"))
}

/// Returns whether this is the id of a fence.
pub(in crate::domain) fn is_fence(id: &str) -> bool {
    id.starts_with(FENCE)
}
