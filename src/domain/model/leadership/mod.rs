//! Leadership: one lease for each application, with an epoch that grows with each grant.
//!
//! A lease ends at a time that every check compares, or lasts as long as the session of its holder:
//! a connected leader renews it without a write. Candidates wait in the order of their requests;
//! their numbers are part of their unit records. A configured `external_leader` replaces all of
//! this.

pub mod refused;
pub mod status;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::model::name::UnitName;
use crate::domain::model::time::Timestamp;

/// The lease of an application. Its epoch is in the head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The leading unit.
    pub holder: UnitName,
    /// Incarnation of the leader; 0 if not given. A newer incarnation of the same unit must claim
    /// again.
    pub incarnation: u64,
    /// How long the lease lasts without a renewal.
    pub duration: Duration,
    /// When it was granted.
    pub acquire_time: Timestamp,
    /// When it ends; `None`: it lasts as long as the session of its holder.
    pub ends: Option<Timestamp>,
}

/// Range of a count between two data losses of the store: each loss raises the minimum by this
/// much, above every value that clients may have received.
const COUNTS_PER_HISTORY: u64 = 1 << 32;

/// Returns the next value of a count that must only rise, even if the store has lost the last ones:
/// it is above the stored value, above all values that clients received before the loss, and above
/// the epoch floor. It may exceed 2^53: JSON carries it as text.
pub(in crate::domain) fn next_count(last: u64, losses: u32, epoch_floor: u64) -> u64 {
    let given_out = u64::from(losses) * COUNTS_PER_HISTORY;
    last.max(given_out).max(epoch_floor) + 1
}

/// The leader, as it identifies itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The unit; `""` if leadership is decided outside and no unit leads.
    pub unit: UnitName,
    /// Epoch of its lease; 0 if leadership is decided outside.
    pub lease_epoch: u64,
    /// Whether the sender has been made the leader outside: its write first makes it the external
    /// leader here.
    pub decided_outside: bool,
}
