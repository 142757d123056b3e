//! Messages about an application that processes sharing a store send to each other, beside its
//! changes.
//!
//! A message travels through the log like a change. It needs no connection of its own, and arrives
//! after the changes that were committed before it. No process stores it: a receiver ignores a
//! message that arrives too late.

use serde::{Deserialize, Serialize};

use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::ReplicaId;

/// A message broadcast to all processes that share the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broadcast {
    /// The application that the message is about.
    pub app: AppName,
    /// The process that sends the message.
    pub from: ReplicaId,
    /// The content of the message.
    pub word: BroadcastKind,
}

/// The content of a broadcast message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BroadcastKind {
    /// Asks each process to collect the statuses of the units that are connected to it.
    Collect {
        /// The id of the question.
        id: u64,
        /// The component to collect; `None` for all components.
        component: Option<PartName>,
        /// Whether the units compute their statuses again.
        recompute: bool,
        /// The time after which the asking process waits for no more answers.
        deadline: Timestamp,
    },
    /// Answers the question: these units have answered.
    Collected {
        /// The id of the question.
        id: u64,
        /// The process that asked the question.
        to: ReplicaId,
        /// The units, each with the revision that contains its answer.
        units: Vec<(UnitName, Revision)>,
    },
}
