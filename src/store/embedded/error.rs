//! Why the embedded store cannot be opened.

use std::path::PathBuf;

use crate::store::Epoch;

/// Why the embedded store cannot be opened.
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
