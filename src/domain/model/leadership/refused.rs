//! The reasons for which a command on leadership is refused.

use crate::domain::model::limits::LimitExceeded;
use crate::domain::model::name::{ApplicationNotFound, UnitName};
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::refused::{IdentityError, LookupError};

/// Another unit leads; the sender waits in line now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unit {leader} leads, with lease epoch {lease_epoch}; your unit waits in line, stay and \
     ask again"
)]
pub struct LeaseHeld {
    /// The leader.
    pub leader: UnitName,
    /// Epoch of the lease.
    pub lease_epoch: u64,
    /// When it ends without a renewal; `None`: not before the leader's session does.
    pub ends: Option<Timestamp>,
}

/// Leadership is decided outside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "leadership is decided outside, by `external_leader` of the configuration; \
     clear that to elect a leader here"
)]
pub struct LeaderIsExternal {
    /// The leader; `""` if no unit leads.
    pub leader: UnitName,
}

/// A unit that is lost or has left cannot lead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unit {unit} is lost or has left; transfer to one that is there")]
pub struct UnitNotThere {
    /// The unit.
    pub unit: UnitName,
}

/// The sender does not lead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", not_leader(unit, leader.as_ref(), *lease_epoch))]
pub struct NotLeader {
    /// The sender.
    pub unit: UnitName,
    /// The leader.
    pub leader: Option<UnitName>,
    /// Epoch of that lease.
    pub lease_epoch: u64,
}

fn not_leader(unit: &UnitName, leader: Option<&UnitName>, lease_epoch: u64) -> String {
    let reporter = match unit.as_str() {
        "" => "a sender without a unit".to_string(),
        unit => format!("unit {unit}"),
    };
    match leader {
        Some(leader) if leader == unit => {
            format!(
                "{reporter} does not lead by that epoch: its lease has {lease_epoch}, or is over"
            )
        }
        Some(leader) => {
            format!("{reporter} does not lead: {leader} does, with lease epoch {lease_epoch}")
        }
        None => format!("{reporter} does not lead, and no unit does"),
    }
}

/// The reason for which a unit does not get the lease that it claims.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum ClaimError {
    Identity(#[from] IdentityError),
    Quota(#[from] LimitExceeded),
    External(#[from] LeaderIsExternal),
    Held(#[from] LeaseHeld),
}

/// The reason for which a lease is not renewed or released.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum LeaseError {
    Application(#[from] ApplicationNotFound),
    NotLeader(#[from] NotLeader),
}

/// The reason for which the set of the application's own statuses is not replaced.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum OwnSetError {
    NotLeader(#[from] NotLeader),
    Quota(#[from] LimitExceeded),
}

/// The reason for which leadership is not transferred.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum TransferError {
    Lookup(#[from] LookupError),
    External(#[from] LeaderIsExternal),
    NotThere(#[from] UnitNotThere),
}
