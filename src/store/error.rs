//! The errors of reading, committing and opening.

use std::path::PathBuf;
use std::time::Duration;

use crate::domain::revision::Revision;

use super::Epoch;

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

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the data directory.
    #[error(
        "data directory {} is in use by another process; \
         stop that one, or give this one another --data-dir", path.display()
    )]
    InUse {
        /// The data directory.
        path: PathBuf,
    },
    /// The file is not a valid database.
    #[error(
        "database {} is damaged ({reason}); \
         restore the data directory from a backup, or move it away to start empty: \
         workers send their reports again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem in words.
        reason: String,
    },
    /// A segment of the log in front of the database is not valid, or groups before it are missing.
    #[error(
        "log segment {} is damaged ({reason}); \
         restore the whole data directory from a backup, or start once with \
         --accept-data-loss {epoch} to serve what can be read: \
         each unit is uncertain then until it reports again",
        path.display()
    )]
    DamagedLog {
        /// The segment.
        path: PathBuf,
        /// The problem in words.
        reason: String,
        /// The epoch of the store.
        epoch: Epoch,
    },
    /// The database was not closed, and its log is not there.
    #[error(
        "log of database {} is missing (bellwether.log.*), and has commits that the database \
         lacks; restore the whole data directory from a backup, or start once with \
         --accept-data-loss {epoch} to serve what the database has: \
         each unit is uncertain then until it reports again",
        path.display()
    )]
    MissingLog {
        /// The database.
        path: PathBuf,
        /// The epoch of the store.
        epoch: Epoch,
    },
    /// There is a log without its database.
    #[error(
        "database {} is missing, and its log {} is there; \
         restore the whole data directory from a backup, or move it away to start empty: \
         workers send their reports again",
        path.display(), segment.display()
    )]
    MissingDatabase {
        /// The database.
        path: PathBuf,
        /// The first segment of the log.
        segment: PathBuf,
    },
    /// A newer version wrote the database.
    #[error(
        "database {} has format {found}, and this version reads formats up to {known}; \
         start the newer version of bellwether that wrote it", path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The format of the database.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
    /// The operating system refused.
    #[error("cannot use data directory {}", path.display())]
    Io {
        /// The data directory.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Redis cannot be reached or used now.
    #[error("cannot use Redis: {reason}")]
    Unavailable {
        /// The problem in words.
        reason: String,
    },
    /// The keys in Redis belong to another program.
    #[error(
        "key {key} in Redis is not a key of bellwether ({reason}); give bellwether a prefix of its \
         own by --store-prefix, or another database or Redis by --store"
    )]
    Foreign {
        /// The key.
        key: String,
        /// The problem in words.
        reason: String,
    },
    /// A newer version wrote the keys.
    #[error(
        "keys in Redis ({key}) have format {found}, and this version reads formats up to {known}; \
         start the newer version of bellwether that wrote them"
    )]
    KeysTooNew {
        /// The key with the format.
        key: String,
        /// The format.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
    /// The store was created with another number of buckets.
    #[error(
        "store in Redis ({key}) has {found} buckets, and --store-buckets is {asked}; \
         the number is fixed at the first start: give {found} or leave the flag out, \
         or begin a new store under another --store-prefix"
    )]
    OtherBuckets {
        /// The key with the number.
        key: String,
        /// The number of buckets of the store.
        found: u16,
        /// The number of buckets in the configuration.
        asked: u16,
    },
    /// A record in Redis is not valid.
    #[error(transparent)]
    Unreadable(#[from] super::ReadError),
}

impl OpenError {
    /// Returns the error with its cause, for a text that shows no causes.
    pub fn in_full(&self) -> String {
        match self {
            OpenError::Io { source, .. } => format!("{self}: {source}"),
            other => other.to_string(),
        }
    }
}
