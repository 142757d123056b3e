//! The errors of reading and committing.

use std::time::Duration;

use crate::domain::revision::Revision;

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The store cannot be reached or used now.
    #[error("store is not available: {reason}")]
    Unavailable {
        /// The problem in words.
        reason: String,
    },
    /// The stored bytes are not a valid record.
    #[error("record {record} cannot be read: {reason}")]
    Corrupt {
        /// The record.
        record: String,
        /// The problem in words.
        reason: String,
    },
}

/// Why a commit or a confirmation failed. [`Store`](super::Store) lists all causes and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The stored version is not the one that the transition is based on. Nothing was written.
    #[error("application is at revision {current}, and {cause}")]
    Conflict {
        /// The revision of the application in the store. It may equal the base revision.
        current: Revision,
        /// The comparison that failed.
        cause: ConflictCause,
    },
    /// The store cannot be reached or used now.
    #[error("store is not available: {reason}")]
    Unavailable {
        /// The problem in words.
        reason: String,
        /// Whether the transition was applied.
        applied: Applied,
        /// The time to wait before the next attempt.
        retry_after: Duration,
    },
}

/// The comparison that refused a commit or a confirmation. Where several fail, the first of this
/// list is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConflictCause {
    /// The state was read from another master of the store, see
    /// [`Store::epoch_floor`](super::Store::epoch_floor).
    #[error("the state was read from another master")]
    Master,
    /// The application has another revision.
    #[error("the state has another one")]
    Revision,
    /// The revision is the same, and another process made a quiet commit.
    #[error("the state lacks a quiet commit")]
    QuietCommits,
    /// A later commit of the same process was applied already.
    #[error("a later commit of this process was applied")]
    Overtaken,
    /// Another process answered a request with the same id.
    #[error("another process answered the request")]
    Request,
}

/// Whether a transition was applied by a store that did not acknowledge it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It was not, and will not be.
    No,
    /// It may be in the store, may be applied later, and may be lost again.
    Maybe,
    /// It is in the store, and this process has not read it back yet.
    Yes,
}

impl Applied {
    /// The word for clients: `no`, `maybe` or `yes`.
    pub fn word(self) -> &'static str {
        match self {
            Applied::No => "no",
            Applied::Maybe => "maybe",
            Applied::Yes => "yes",
        }
    }
}
