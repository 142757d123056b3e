//! Why a command or a read was not served.

use std::time::Duration;

use crate::domain::command::Rejected;
use crate::store::{CommitError, ReadError};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The command does not fit what is known.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// Too many commands wait for this application.
    #[error("{mailbox_max} commands wait for this application already; send fewer, or batch them")]
    Overloaded {
        /// How many may wait.
        mailbox_max: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// Other replicas changed the application each time this one tried.
    #[error("application was changed by others {attempts} times while this was decided")]
    Contention {
        /// How often this was decided.
        attempts: usize,
    },
    /// The store cannot be used now. A command may or may not have been applied.
    #[error("store is not available: {reason}")]
    Unavailable {
        /// What is wrong with it.
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// A record is not what was written.
    #[error("record {record} cannot be read: {reason}")]
    Corrupt {
        /// Which record.
        record: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server is stopping.
    #[error("server is stopping; connect again, to another replica if there is one")]
    Draining,
}

/// When to try a read again that found the store away.
const READ_RETRY_AFTER: Duration = Duration::from_secs(1);

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        match error {
            ReadError::Unavailable { reason } => {
                Error::Unavailable { reason, retry_after: READ_RETRY_AFTER }
            }
            ReadError::Corrupt { record, reason } => Error::Corrupt { record, reason },
        }
    }
}

impl Error {
    /// What a failed commit means to the commands in it, decided `attempts` times.
    pub(super) fn of_commit(error: CommitError, attempts: usize) -> Error {
        match error {
            CommitError::Conflict { .. } => Error::Contention { attempts },
            CommitError::Unavailable { reason, retry_after } => {
                Error::Unavailable { reason, retry_after }
            }
        }
    }
}
