//! The operation that contributes the winner, as the head of its application has it, so that lists
//! and watchers need no record of an operation.

use serde::{Deserialize, Serialize};

use crate::domain::model::name::OperationId;
use crate::domain::model::operation::{Kind, Operation, State};

/// The operation that contributes the winner, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WinningOperation {
    /// The operation.
    pub id: OperationId,
    /// Kind of the work.
    pub kind: Kind,
    /// Version after the operation.
    pub target_version: Box<str>,
    /// Its state.
    pub state: State,
    /// Progress for people, as the holder reports it.
    pub progress: Box<str>,
}

impl WinningOperation {
    pub(in crate::domain) fn of(id: &OperationId, operation: &Operation) -> WinningOperation {
        WinningOperation {
            id: id.clone(),
            kind: operation.kind,
            target_version: operation.target_version.clone(),
            state: operation.state,
            progress: operation.progress.clone(),
        }
    }
}
