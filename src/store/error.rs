//! How reading, committing and opening can fail.

use std::path::PathBuf;
use std::time::Duration;

use crate::domain::revision::Revision;

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The store cannot be reached or used now.
    #[error("store is not available: {reason}")]
    Unavailable {
        /// What is wrong with it.
        reason: String,
    },
    /// A record is not what was written.
    #[error("record {record} cannot be read: {reason}")]
    Corrupt {
        /// Which record.
        record: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Why something could not be committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The application is at another revision. Nothing was written.
    #[error("application is at revision {current}")]
    Conflict {
        /// Where it is.
        current: Revision,
    },
    /// The store cannot be reached or used now. The transition may or may not have been applied.
    #[error("store is not available: {reason}")]
    Unavailable {
        /// What is wrong with it.
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "data directory {} is in use by another process; \
         stop that one, or give this one another --data-dir", path.display()
    )]
    InUse {
        /// The data directory.
        path: PathBuf,
    },
    /// The files are not what was written.
    #[error(
        "database {} is damaged ({reason}); \
         restore it from a backup, or move it away to start empty: \
         workers report again by themselves",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Written by a newer version.
    #[error(
        "database {} has format {found}, and this version reads formats up to {known}; \
         start the newer version of bellwether that wrote it", path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// The operating system refused.
    #[error("cannot use data directory {}: {source}", path.display())]
    Io {
        /// The data directory.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Redis cannot be reached or used now.
    #[error("cannot use Redis: {reason}")]
    Unavailable {
        /// What is wrong with it.
        reason: String,
    },
    /// The keys in Redis are somebody else's.
    #[error(
        "key {key} in Redis is not ours ({reason}); \
         give bellwether a database or a key prefix of its own"
    )]
    Foreign {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Written by a newer version.
    #[error(
        "keys in Redis ({key}) have format {found}, and this version reads formats up to {known}; \
         start the newer version of bellwether that wrote them"
    )]
    KeysTooNew {
        /// The key that says so.
        key: String,
        /// The format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// Made with another number of buckets.
    #[error(
        "store in Redis ({key}) was made with {found} buckets and {asked} are configured; \
         the number stays as it was at the first start: configure {found}"
    )]
    OtherBuckets {
        /// The key that says so.
        key: String,
        /// How many it has.
        found: u16,
        /// How many were asked for.
        asked: u16,
    },
    /// A record in Redis is not what was written.
    #[error(transparent)]
    Unreadable(#[from] super::ReadError),
}
