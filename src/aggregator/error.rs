//! The reasons for which a command or a read failed.

use std::time::Duration;

use crate::domain::rejected::Rejected;
use crate::store::{Applied, CommitError, ReadError};

/// The reason for which a command or a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The application's state does not allow the command.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// Too many commands wait for this application.
    #[error("{mailbox_max} commands wait for this application already; send fewer, or batch them")]
    Overloaded {
        /// The maximum number of waiting commands.
        mailbox_max: usize,
        /// When to retry.
        retry_after: Duration,
    },
    /// Other replicas changed the application at each attempt.
    #[error("application was changed by others {attempts} times while this was decided")]
    Contention {
        /// Number of attempts.
        attempts: usize,
    },
    /// The store is unavailable.
    #[error("store is not available: {reason}")]
    Unavailable {
        /// The cause.
        reason: String,
        /// Whether the command was applied.
        applied: Applied,
        /// When to retry.
        retry_after: Duration,
    },
    /// A record is unreadable.
    #[error("record {record} cannot be read: {reason}")]
    Corrupt {
        /// The record.
        record: String,
        /// The cause.
        reason: String,
    },
    /// The task of the application has panicked.
    #[error(
        "the server failed at this application, and its log says where; the request may have been \
         applied"
    )]
    Failed,
    /// The server is stopping.
    #[error("server is stopping; connect again, to another replica if there is one")]
    Draining,
}

/// When to retry a read after the store was unavailable.
const READ_RETRY_AFTER: Duration = Duration::from_secs(1);

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        match error {
            ReadError::Unavailable { reason } => {
                let retry_after = READ_RETRY_AFTER;
                Error::Unavailable { reason, applied: Applied::No, retry_after }
            }
            ReadError::Corrupt { record, reason } => Error::Corrupt { record, reason },
        }
    }
}

impl Error {
    /// Returns the error for the commands of a failed commit, after `attempts` attempts.
    pub(super) fn of_commit(error: CommitError, attempts: usize) -> Error {
        match error {
            CommitError::Conflict { .. } => Error::Contention { attempts },
            CommitError::Unavailable { reason, applied, retry_after } => {
                Error::Unavailable { reason, applied, retry_after }
            }
        }
    }
}
