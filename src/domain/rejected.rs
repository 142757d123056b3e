//! The reasons for the rejection of a command.

use std::sync::Arc;

use crate::domain::name::UnitName;
use crate::domain::operation::refused::Refused;
use crate::domain::time::Timestamp;

/// The reason for the rejection of a command. A rejected command changes nothing, except an
/// operation's record (it may lapse, store a next target, or lose its payload) and the waiting
/// position of [`Rejected::LeaseHeld`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// No application of this name was reported.
    #[error("application is not known")]
    ApplicationNotFound,
    /// The application has no such unit.
    #[error("unit {unit} is not known")]
    UnitNotFound {
        /// The requested unit.
        unit: UnitName,
    },
    /// A newer incarnation of the unit has reported.
    #[error(
        "unit {unit} has been replaced: incarnation {given} is older than {current}; \
         stop reporting, or start again as a new incarnation"
    )]
    StaleIncarnation {
        /// The unit.
        unit: UnitName,
        /// The incarnation of the sender.
        given: u64,
        /// The valid incarnation.
        current: u64,
    },
    /// The incarnation was never assigned.
    #[error(
        "incarnation {given} of unit {unit} was never given out; the newest is {current}: give the \
         one that welcome or RegisterUnit answered, or none"
    )]
    UnknownIncarnation {
        /// The unit.
        unit: UnitName,
        /// The incarnation of the request.
        given: u64,
        /// The newest one known; 0 if none is.
        current: u64,
    },
    /// The record of the unit has the highest possible incarnation, which an earlier version took
    /// from a report.
    #[error(
        "unit {unit} has the highest incarnation there is, and cannot begin another one; remove \
         the unit, and begin again after 10 minutes"
    )]
    IncarnationsUsedUp {
        /// The unit.
        unit: UnitName,
    },
    /// The unit was removed, and the command is from before the removal.
    #[error(
        "unit {unit} has been removed, and incarnation {given} with it; \
         stop reporting, or start again as a new incarnation"
    )]
    UnitRemoved {
        /// The unit.
        unit: UnitName,
        /// The incarnation of the sender.
        given: u64,
    },
    /// The id of the request was used for a different request before.
    #[error(
        "request_id {id:?} was given to another request before, a {method}; give each request an \
         id of its own, and repeat a request unchanged"
    )]
    RequestIdReused {
        /// The id.
        id: Arc<str>,
        /// Method of the first request.
        method: Arc<str>,
    },
    /// The unit has opened a newer session, or lost this one.
    #[error("this session of unit {unit} is over; use the newest session, or connect again")]
    SessionOver {
        /// The unit.
        unit: UnitName,
    },
    /// The command would exceed a limit.
    #[error("{what} would be more than {max}; remove some first, or raise the limit {limit}")]
    LimitExceeded {
        /// Name of the limit.
        limit: &'static str,
        /// The items that would be too many.
        what: String,
        /// The limit.
        max: usize,
    },
    /// The operation refuses the command.
    #[error(transparent)]
    Operation(#[from] Refused),
    /// Another unit leads; the sender waits in line now.
    #[error(
        "unit {leader} leads, with lease epoch {lease_epoch}; your unit waits in line, stay and \
         ask again"
    )]
    LeaseHeld {
        /// The leader.
        leader: UnitName,
        /// Epoch of the lease.
        lease_epoch: u64,
        /// When it ends without a renewal; `None`: not before the leader's session does.
        ends: Option<Timestamp>,
    },
    /// Leadership is decided outside.
    #[error(
        "leadership is decided outside, by `external_leader` of the configuration; \
         clear that to elect a leader here"
    )]
    LeaderIsExternal {
        /// The leader; `""` if no unit leads.
        leader: UnitName,
    },
    /// A unit that is lost or has left cannot lead.
    #[error("unit {unit} is lost or has left; transfer to one that is there")]
    UnitNotThere {
        /// The unit.
        unit: UnitName,
    },
    /// The data have changed since the version that the change was made for.
    #[error("the data have changed since they were read, their etag is {current}; read them again")]
    EtagMismatch {
        /// The current etag.
        current: String,
    },
    /// A part of the data is too large.
    #[error("{what} would be {bytes} bytes; at most {max}")]
    ValueTooLarge {
        /// The part.
        what: String,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The sender does not lead.
    #[error("{}", not_leader(unit, leader.as_ref(), *lease_epoch))]
    NotLeader {
        /// The sender.
        unit: UnitName,
        /// The leader.
        leader: Option<UnitName>,
        /// Epoch of that lease.
        lease_epoch: u64,
    },
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
