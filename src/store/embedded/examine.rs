//! Looks at a data directory as a start would, without creating or changing anything in it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Builder, DatabaseError};

use crate::sync::panic_text;

use super::error::OpenError;
use super::file::{Files, Location};
use super::log::LogEnd;
use super::overlay::Overlay;
use super::recover::Examined;

/// What a data directory has.
pub(crate) struct Contents {
    /// What refuses a log without its database.
    pub(crate) log_alone: Option<OpenError>,
    /// The database with its log, or why a start refuses them; `None` if there is no database.
    pub(crate) database: Option<Result<Readable, OpenError>>,
    /// The files that other users may read or write, each as a sentence.
    pub(crate) open_to_others: Vec<String>,
}

/// A database that a start accepts.
pub(crate) struct Readable {
    /// Its file.
    pub(crate) file: PathBuf,
    pub(crate) condition: Condition,
    /// The number of groups of the log that the next start adds.
    pub(crate) groups: u64,
    /// The last group.
    pub(crate) last: u64,
    /// An incomplete group at the end of the log.
    pub(crate) incomplete: Option<Incomplete>,
}

/// In which condition a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Its process closed it.
    Closed,
    /// Its process ended without closing it.
    NotClosed,
    /// It is a backup from which no store was started.
    Backup,
}

/// Where a log ends in an incomplete group.
pub(crate) struct Incomplete {
    pub(crate) segment: PathBuf,
    /// The byte of the segment.
    pub(crate) place: usize,
}

/// Looks at a data directory.
pub(crate) fn look(dir: &Path) -> Contents {
    let location = Location::new(dir, Files::of(dir));
    let is_there = location.is_there();
    Contents {
        log_alone: location.log_alone(),
        database: is_there.then(|| database(&location)),
        open_to_others: if is_there { location.open_to_others() } else { Vec::new() },
    }
}

/// Reads the database and its log as a server would, but repairs only a copy in memory.
fn database(location: &Location) -> Result<Readable, OpenError> {
    let read = catch_unwind(AssertUnwindSafe(|| {
        let database = Builder::new().open_read_only(&location.file);
        Ok(match database {
            Err(DatabaseError::RepairAborted) => {
                let repaired = Overlay::open(&location.file).map_err(DatabaseError::from);
                let repaired = repaired.and_then(|file| Builder::new().create_with_backend(file));
                let repaired = repaired.map_err(|error| location.database_error(error))?;
                let condition = match location.check_format(&repaired)? {
                    true => Condition::Backup,
                    false => Condition::NotClosed,
                };
                (condition, location.examine(&repaired)?)
            }
            opened => {
                let opened = opened.map_err(|error| location.database_error(error))?;
                let condition = match location.check_format(&opened)? {
                    true => Condition::Backup,
                    false => Condition::Closed,
                };
                (condition, location.examine(&opened)?)
            }
        })
    }));
    let read = read.unwrap_or_else(|panic| Err(location.damaged(panic_text(&*panic))));
    let (condition, Examined { groups, last, end }) = read?;
    let incomplete = end.filter(|end| end.is_incomplete);
    let incomplete = incomplete.map(|LogEnd { segment, place, .. }| Incomplete { segment, place });
    Ok(Readable { file: location.file.clone(), condition, groups, last, incomplete })
}
