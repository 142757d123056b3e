//! Copies a database as of one read transaction.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use redb::{Builder, Durability, ReadTransaction, ReadableTable, TableError};

use crate::store::codec::FORMAT;
use crate::store::embedded::file::CACHE_BYTES;
use crate::store::embedded::tables::FROM_BACKUP;
use crate::store::key::{EVENTS, HEADS, META, META_FORMAT, RECORDS};

/// Records between two looks at whether the copy is still wanted.
const LOOK_EVERY: u64 = 1024;

/// Writes what a transaction reads into a new file, marked as a backup. Returns whether it is
/// complete: `is_ended` stops it.
pub(super) fn copy(
    txn: &ReadTransaction,
    file: &Path,
    is_ended: impl Fn() -> bool,
) -> Result<bool, redb::Error> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    // The default would hold a whole copy of 1 GiB in the memory of the server.
    let database = Builder::new().set_cache_size(CACHE_BYTES).create(file)?;
    let mut to = database.begin_write()?;
    to.set_durability(Durability::Immediate)?;
    let mut count: u64 = 0;
    for table in [META, HEADS, RECORDS, EVENTS] {
        let from = match txn.open_table(table) {
            Err(TableError::TableDoesNotExist(_)) => continue,
            opened => opened?,
        };
        let mut into = to.open_table(table)?;
        for entry in from.iter()? {
            let (key, value) = entry?;
            into.insert(key.value(), value.value())?;
            count += 1;
            if count.is_multiple_of(LOOK_EVERY) && is_ended() {
                return Ok(false);
            }
        }
    }
    // The log stays behind: the transaction has all its groups.
    let format = u32::from(FORMAT) | FROM_BACKUP;
    to.open_table(META)?.insert(META_FORMAT, &format.to_le_bytes()[..])?;
    to.commit()?;
    Ok(true)
}
