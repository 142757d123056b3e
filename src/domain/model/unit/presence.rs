//! Presence of units: sessions and contact promises.
//!
//! A session costs no writes while nothing changes: the replica that holds it detects silence, and
//! only the holder is stored. A replica's view of a session takes effect by a commit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Identifies a server process for its lifetime.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct ReplicaId(pub u64);

/// Identifies a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    /// The replica that holds it.
    pub replica: ReplicaId,
    /// Number of the session within that replica, never reused.
    pub number: u64,
}

/// How a unit is expected to keep contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Presence {
    /// No expectation: the unit reports when it needs to.
    #[default]
    Unbound,
    /// An open session; the replica that holds it detects silence.
    Connected(SessionId),
    /// Contact within this time of the last one: the unit promised it, or its session has closed
    /// and it has this time to open another.
    Promised(Duration),
}
