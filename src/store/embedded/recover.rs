//! Applies the groups of the log that the database lacks, at a start after a crash.

use std::sync::Arc;

use redb::{Database, ReadTransaction, ReadableDatabase};

use crate::store::key::{META, META_APPLIED, META_STORE};

use super::log::{Log, LogFiles, Scan};
use super::read::{ReadFailure, read_meta};
use super::tables;

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
) -> Result<(Log, u64), ReadFailure> {
    let applied = read_applied(&database.begin_read()?)?;
    let mut last = applied.sequence;
    let mut scan = Scan::new(files, applied.store_id, applied.sequence)?;
    while let Some(found) = scan.next_groups()? {
        if !applied.is_ours {
            let segment = found.segment.clone();
            let reason = "the database was changed by a version that does not know the log";
            return Err(ReadFailure::Segment { path: segment, reason: reason.to_string() });
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
) -> Result<u64, ReadFailure> {
    let applied = read_applied(&database.begin_read()?)?;
    let mut last = applied.sequence;
    let mut scan = Scan::new(files, applied.store_id, applied.sequence)?;
    while let Some(found) = scan.next_groups()? {
        last = found.last;
    }
    Ok(last - applied.sequence)
}

fn read_applied(txn: &ReadTransaction) -> Result<Applied, ReadFailure> {
    let store_id = read_meta(txn)?.epoch.store_id;
    let table = txn.open_table(META)?;
    let store = table.get(META_STORE)?.map(|store| crc32fast::hash(store.value()));
    let mark = table.get(META_APPLIED)?;
    let mark = mark.and_then(|mark| <[u8; 12]>::try_from(mark.value()).ok());
    let Some(mark) = mark else { return Ok(Applied { store_id, sequence: 0, is_ours: false }) };
    let [s @ .., c0, c1, c2, c3] = mark;
    let is_ours = store == Some(u32::from_le_bytes([c0, c1, c2, c3]));
    Ok(Applied { store_id, sequence: u64::from_le_bytes(s), is_ours })
}
