//! Applies the groups of the log that the database lacks, at a start after a crash.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use redb::{Database, ReadTransaction, ReadableDatabase};

use crate::store::key::{META, META_APPLIED, META_STORE};

use super::log::{Log, LogFiles, Scan, ScanError};
use super::read::{Fault, read_meta};
use super::tables;

/// Why the groups of the log cannot be applied.
pub(super) enum RecoverError {
    /// The database cannot be read or written.
    Database(Fault),
    /// The files of the log cannot be read or removed.
    Io(io::Error),
    /// The log is damaged, or does not continue the database.
    Damaged { segment: PathBuf, reason: String },
}

impl From<redb::Error> for RecoverError {
    fn from(error: redb::Error) -> RecoverError {
        RecoverError::Database(error.into())
    }
}

impl From<Fault> for RecoverError {
    fn from(fault: Fault) -> RecoverError {
        RecoverError::Database(fault)
    }
}

impl From<io::Error> for RecoverError {
    fn from(error: io::Error) -> RecoverError {
        RecoverError::Io(error)
    }
}

impl From<ScanError> for RecoverError {
    fn from(error: ScanError) -> RecoverError {
        match error {
            ScanError::Io(error) => RecoverError::Io(error),
            ScanError::Damaged { segment, reason } => RecoverError::Damaged { segment, reason },
        }
    }
}

/// What a database says about its log.
struct Applied {
    store_id: u64,
    /// The sequence of the last group that the database has.
    sequence: u64,
    /// Whether only a version that knows the log has written since.
    is_ours: bool,
}

/// Applies the groups of the log that the database lacks, and returns the log that continues.
/// Returns also the sequence of the last group.
pub(super) fn recover(
    database: &Database,
    files: Arc<dyn LogFiles>,
    segment_bytes: u64,
) -> Result<(Log, u64), RecoverError> {
    let applied = read_applied(&database.begin_read().map_err(redb::Error::from)?)?;
    let mut last = applied.sequence;
    let mut scan = Scan::new(files, applied.store_id, applied.sequence)?;
    while let Some(found) = scan.next_groups()? {
        if !applied.is_ours {
            let segment = found.segment.clone();
            let reason = "the database was changed by a version that does not know the log";
            return Err(RecoverError::Damaged { segment, reason: reason.to_string() });
        }
        tables::apply_groups(database, found.ops(), found.last, true)?;
        last = found.last;
    }
    if applied.sequence < last {
        // redb can fall back to its last but one transaction. That one must have the groups too
        // before the log is removed.
        tables::apply_groups(database, std::iter::empty(), last, true)?;
        let groups = last - applied.sequence;
        tracing::info!(
            groups,
            "the log had commits that the database lacked, and they are applied"
        );
    }
    Ok((scan.begin(segment_bytes)?, last))
}

/// Checks the log without applying or changing anything. Returns the number of groups that the
/// database lacks.
pub(super) fn examine(
    database: &impl ReadableDatabase,
    files: Arc<dyn LogFiles>,
) -> Result<u64, RecoverError> {
    let applied = read_applied(&database.begin_read().map_err(redb::Error::from)?)?;
    let mut last = applied.sequence;
    let mut scan = Scan::new(files, applied.store_id, applied.sequence)?;
    while let Some(found) = scan.next_groups()? {
        last = found.last;
    }
    Ok(last - applied.sequence)
}

fn read_applied(txn: &ReadTransaction) -> Result<Applied, Fault> {
    let store_id = read_meta(txn)?.epoch().store_id;
    let table = txn.open_table(META)?;
    let store = table.get(META_STORE)?.map(|store| crc32fast::hash(store.value()));
    let mark = table.get(META_APPLIED)?;
    let mark = mark.and_then(|mark| <[u8; 12]>::try_from(mark.value()).ok());
    let Some(mark) = mark else {
        return Ok(Applied { store_id, sequence: 0, is_ours: false });
    };
    let [s @ .., c0, c1, c2, c3] = mark;
    let is_ours = store == Some(u32::from_le_bytes([c0, c1, c2, c3]));
    Ok(Applied { store_id, sequence: u64::from_le_bytes(s), is_ours })
}
