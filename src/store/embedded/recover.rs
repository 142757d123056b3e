//! Applies the groups of the log that the database lacks, at a start after a crash.

use std::sync::Arc;

use redb::{Database, ReadTransaction, ReadableDatabase};

use crate::store::Epoch;
use crate::store::key::{META, META_APPLIED, META_FORMAT, META_STORE};

use super::log::{Log, LogEnd, LogFiles, Scan};
use super::read::{ReadFailure, read_meta};
use super::tables::{self, WITH_LOG};
use super::{data_loss, limits::Limits};

/// What a database says about its log.
struct Applied {
    epoch: Epoch,
    /// The sequence of the last group that the database has.
    sequence: u64,
    /// Whether only a version that knows the log has written since.
    is_ours: bool,
    /// Whether a log exists.
    has_log: bool,
}

/// The last group that a running process has acknowledged.
pub(super) struct Acknowledged {
    pub(super) epoch: Epoch,
    pub(super) sequence: u64,
}

/// What a log has in addition to its database.
pub(super) struct Examined {
    /// The number of groups that the database lacks.
    pub(super) groups: u64,
    /// The sequence of the last group.
    pub(super) last: u64,
    /// The end of the log; `None` if it has no segment in use.
    pub(super) end: Option<LogEnd>,
}

/// Applies the groups of the log that the database lacks, and returns the log that continues.
/// Returns also the sequence of the last group.
///
/// If a part of the log is damaged or missing, nothing is changed, unless `accepted` is the epoch
/// of the store: then what can be read is applied, and a data loss is recorded. Nothing is changed
/// either if the log ends before the last group that the process has acknowledged: what is left of
/// that group stays.
pub(super) fn recover(
    database: &Database,
    files: Arc<dyn LogFiles>,
    limits: &Limits,
    accepted: Option<&str>,
    acknowledged: Option<&Acknowledged>,
) -> Result<(Log, u64), ReadFailure> {
    let applied = read_applied(&database.begin_read()?)?;
    let loss = match check(&applied, files.clone()) {
        Ok(examined) => {
            acknowledged.map_or(Ok(()), |acknowledged| acknowledged.check(&applied, &examined))?;
            warn_of_incomplete(&examined);
            None
        }
        Err(failure) if failure.is_loss() && accepted == Some(&*applied.epoch.to_string()) => {
            Some(failure)
        }
        Err(failure) => return Err(failure),
    };
    let mut last = applied.sequence;
    let mut scan = Scan::new(files, applied.epoch, applied.sequence)?;
    if applied.is_ours || loss.is_none() {
        loop {
            let found = match scan.next_groups() {
                // What was accepted ends what can be read.
                Err(failure) if failure.is_loss() && loss.is_some() => None,
                found => found?,
            };
            let Some(found) = found else { break };
            tables::apply_groups(database, found.ops(), found.last, true)?;
            last = found.last;
        }
    }
    if applied.sequence < last {
        let groups = last - applied.sequence;
        tracing::info!(
            groups,
            last_group = last,
            "the log had commits that the database lacked, and they are applied"
        );
    }
    if let Some(failure) = loss {
        let epoch = data_loss::record(database, last)?;
        tracing::warn!(
            %failure, last_group = last, %epoch,
            "goes on without the rest of the log, as --accept-data-loss says: acknowledged \
             commits may be lost, so each unit is uncertain until it reports again; the segments \
             of the log are kept beside the new one"
        );
        return Ok((scan.begin_anew(limits.segment_bytes, &format!(".lost-{epoch}"))?, last));
    }
    if applied.has_log || scan.has_segments() {
        // redb can fall back to its last but one transaction. That one must not need the log
        // either, before it is removed.
        tables::write_no_log(database, last)?;
        tables::write_no_log(database, last)?;
    }
    Ok((scan.begin(limits.segment_bytes)?, last))
}

impl Acknowledged {
    /// Returns an error if the database and the log of this store end before the group.
    fn check(&self, applied: &Applied, examined: &Examined) -> Result<(), ReadFailure> {
        let Acknowledged { epoch, sequence } = *self;
        if applied.epoch != epoch || sequence <= examined.last {
            return Ok(());
        }
        let Some(end) = &examined.end else { return Err(ReadFailure::NoLog { epoch }) };
        let last = examined.last;
        let reason = format!("it ends with group {last}, and group {sequence} was acknowledged");
        Err(ReadFailure::Segment { path: end.segment.clone(), reason, epoch })
    }
}

fn warn_of_incomplete(examined: &Examined) {
    if let Some(LogEnd { segment, place, is_incomplete: true, .. }) = &examined.end {
        tracing::warn!(
            segment = %segment.display(), place, last_group = examined.last,
            "the log ends in an incomplete group, and the last group before it is the last one \
             that is served; a loss of power leaves this of a group that was not acknowledged, \
             but so can damage: then acknowledged commits after the last group are lost"
        );
    }
}

/// Applies the groups of the log that the database lacks, and leaves the log as it is. The log was
/// examined.
pub(super) fn apply_missing(
    database: &Database,
    files: Arc<dyn LogFiles>,
) -> Result<(), ReadFailure> {
    let Applied { epoch, sequence, .. } = read_applied(&database.begin_read()?)?;
    let mut scan = Scan::new(files, epoch, sequence)?;
    while let Some(found) = scan.next_groups()? {
        tables::apply_groups(database, found.ops(), found.last, true)?;
    }
    Ok(())
}

/// Returns the sequence of the last group that a database has.
pub(super) fn last_applied(database: &Database) -> Result<u64, ReadFailure> {
    Ok(read_applied(&database.begin_read()?)?.sequence)
}

/// Checks the log without applying or changing anything.
pub(super) fn examine(
    database: &impl ReadableDatabase,
    files: Arc<dyn LogFiles>,
) -> Result<Examined, ReadFailure> {
    check(&read_applied(&database.begin_read()?)?, files)
}

/// Reads the whole log. Returns an error if a group is damaged or missing.
fn check(applied: &Applied, files: Arc<dyn LogFiles>) -> Result<Examined, ReadFailure> {
    let Applied { epoch, sequence, is_ours, has_log } = *applied;
    let mut last = sequence;
    let mut scan = Scan::new(files, epoch, sequence)?;
    while let Some(found) = scan.next_groups()? {
        if !is_ours {
            let reason = "the database was changed by a version that does not know the log";
            let (path, reason) = (found.segment, reason.to_string());
            return Err(ReadFailure::Segment { path, reason, epoch });
        }
        last = found.last;
    }
    let end = scan.end().cloned();
    if has_log && end.is_none() {
        return Err(ReadFailure::NoLog { epoch });
    }
    Ok(Examined { groups: last - sequence, last, end })
}

fn read_applied(txn: &ReadTransaction) -> Result<Applied, ReadFailure> {
    let epoch = read_meta(txn)?.epoch;
    let table = txn.open_table(META)?;
    let store = table.get(META_STORE)?.map(|store| crc32fast::hash(store.value()));
    let format = table.get(META_FORMAT)?;
    let format = format.and_then(|format| <[u8; 4]>::try_from(format.value()).ok());
    let has_log = format.is_some_and(|format| u32::from_le_bytes(format) & WITH_LOG != 0);
    let mark = table.get(META_APPLIED)?;
    let mark = mark.and_then(|mark| <[u8; 12]>::try_from(mark.value()).ok());
    let Some(mark) = mark else {
        return Ok(Applied { epoch, sequence: 0, is_ours: false, has_log });
    };
    let [s @ .., c0, c1, c2, c3] = mark;
    let is_ours = store == Some(u32::from_le_bytes([c0, c1, c2, c3]));
    Ok(Applied { epoch, sequence: u64::from_le_bytes(s), is_ours, has_log })
}
