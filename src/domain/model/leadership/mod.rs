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
/// it is above the stored value, above all values that clients received before the loss, above the
/// epoch floor, and above the counts of earlier applications of the name. It may exceed 2^53: JSON
/// carries it as text.
pub(in crate::domain) fn next_count(
    last: u64,
    (losses, epoch_floor): (u32, u64),
    counts_above: u64,
) -> u64 {
    last.max(counts_start(losses, epoch_floor).saturating_add(counts_above)) + 1
}

/// Returns what counts begin above in this history and under this master, without those of earlier
/// applications.
fn counts_start(losses: u32, epoch_floor: u64) -> u64 {
    (u64::from(losses) * COUNTS_PER_HISTORY).max(epoch_floor)
}

/// Returns how far a count has risen above its start. The loss count of a head can be behind that
/// of the store, which is left out.
pub(in crate::domain) fn risen(count: u64, losses: u32, epoch_floor: u64) -> u64 {
    count.saturating_sub(counts_start(losses, epoch_floor)) % COUNTS_PER_HISTORY
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
