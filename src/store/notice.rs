//! What processes that share a store tell each other about an application beside its changes.
//!
//! A notice travels the way changes do, so it needs no connection of its own and comes after the
//! changes that were committed before it. It is kept by nobody: who hears it late ignores it.

use serde::{Deserialize, Serialize};

use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::revision::Revision;
use crate::domain::session::ReplicaId;
use crate::domain::time::Timestamp;

/// One thing told to all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// About which application.
    pub app: AppName,
    /// Who tells.
    pub from: ReplicaId,
    /// What.
    pub word: Word,
}

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// Ask the units that are connected to you how they are.
    Collect {
        /// Names the question.
        id: u64,
        /// Of which component; of all without.
        component: Option<PartName>,
        /// They shall look anew.
        recompute: bool,
        /// After this nobody waits for the answers.
        deadline: Timestamp,
    },
    /// These have answered.
    Collected {
        /// The question.
        id: u64,
        /// Who asked it.
        to: ReplicaId,
        /// The units, each with the revision at which its answer is in force.
        units: Vec<(UnitName, Revision)>,
    },
}
