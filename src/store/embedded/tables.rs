//! The tables of the database in one write transaction.

use redb::{Database, Durability, ReadableTable, Table, WriteTransaction};

use crate::domain::history::StatusEvent;
use crate::store::codec::{self, FORMAT, Meta};
use crate::store::key::{
    EVENTS, HEADS, META, META_APPLIED, META_FORMAT, META_STORE, RECORDS, event_place,
    range_of_events, range_of_prefix, split_own,
};

use super::newest::Newest;
use super::op::{Op, Ops, TableId, Trim};

/// The format of a database with a log beside it has this bit. A version that does not know the log
/// refuses such a database, because the log has commits that the database lacks.
pub(super) const WITH_LOG: u32 = 0x100;

/// The format of a backup has this bit until its first start, which begins a new history. A version
/// that does not know backups refuses it.
pub(super) const FROM_BACKUP: u32 = 0x200;

type Bytes<'txn> = Table<'txn, &'static [u8], &'static [u8]>;

/// The tables of one write transaction.
struct Tables<'txn> {
    meta: Bytes<'txn>,
    heads: Bytes<'txn>,
    records: Bytes<'txn>,
    events: Bytes<'txn>,
}

/// Returns the free bytes within a file of a database, of which the disk has so many.
pub(super) fn free_bytes(database: &Database, allocated: u64) -> Result<u64, redb::Error> {
    let stats = database.begin_write()?.stats()?;
    Ok(allocated.saturating_sub(stats.allocated_pages() * stats.page_size() as u64))
}

impl<'txn> Tables<'txn> {
    /// Opens the tables, and creates missing ones.
    fn open(txn: &'txn WriteTransaction) -> Result<Tables<'txn>, redb::Error> {
        Ok(Tables {
            meta: txn.open_table(META)?,
            heads: txn.open_table(HEADS)?,
            records: txn.open_table(RECORDS)?,
            events: txn.open_table(EVENTS)?,
        })
    }

    /// Applies the operations of groups, in order.
    fn apply<'a>(&mut self, groups: impl Iterator<Item = &'a [u8]>) -> Result<(), redb::Error> {
        let mut newest = Newest::default();
        for group in groups {
            let mut ops = Ops::new(group);
            for op in ops.by_ref() {
                match op {
                    Op::Put(table, key, value) => newest.put(table, key, Some(value)),
                    Op::Remove(table, key) => newest.put(table, key, None),
                    Op::Trim(trim) => newest.trim(trim),
                    Op::Clear(table, prefix) => {
                        self.write(std::mem::take(&mut newest))?;
                        let whole = range_of_prefix(prefix);
                        self.table(table).retain_in(&*whole.start..&*whole.end, |_, _| false)?;
                    }
                }
            }
            if let [tag, ..] = ops.rest() {
                // The checksum of the group was right, so a newer version wrote it.
                let reason = format!("operation {tag:#04x} in the log is not known");
                return Err(redb::Error::Corrupted(reason));
            }
        }
        self.write(newest)
    }

    fn write(&mut self, newest: Newest<'_>) -> Result<(), redb::Error> {
        let (values, mut trims) = newest.into_parts();
        for (table, key, value) in values {
            match value {
                Some(value) => drop(self.table(table).insert(key, value)?),
                None => drop(self.table(table).remove(key)?),
            }
        }
        trims.try_for_each(|trim| self.trim(trim))
    }

    /// Writes the sequence of the last applied group, with the checksum of the store record. A
    /// version that does not know the log changes the record alone.
    fn write_applied(&mut self, sequence: u64) -> Result<(), redb::Error> {
        let crc = self.meta.get(META_STORE)?.map(|store| crc32fast::hash(store.value()));
        let crc = crc.unwrap_or_default().to_le_bytes();
        self.meta.insert(META_APPLIED, &*[&sequence.to_le_bytes()[..], &crc].concat())?;
        Ok(())
    }

    fn table(&mut self, table: TableId) -> &mut Bytes<'txn> {
        match table {
            TableId::Meta => &mut self.meta,
            TableId::Heads => &mut self.heads,
            TableId::Records => &mut self.records,
            TableId::Events => &mut self.events,
        }
    }

    fn trim(&mut self, Trim { prefix, oldest, cutoff }: Trim<'_>) -> Result<(), redb::Error> {
        let (app, is_own) = split_own(prefix);
        let whole = range_of_events(app, is_own);
        let mut end = None;
        for entry in self.events.range(&*whole.start..&*whole.end)? {
            let (key, event) = entry?;
            let Some(place) = event_place(key.value()) else { break };
            // An event that cannot be read stays until its number is below `oldest`.
            let is_old = || {
                let event = codec::decode::<StatusEvent>(event.value());
                event.is_ok_and(|event| event.time < cutoff)
            };
            if oldest <= place.rank && !is_old() {
                break;
            }
            let mut bytes = key.value().to_vec();
            // The numbers are the last part of the key: no other key begins with this one.
            bytes.push(0);
            end = Some(bytes);
        }
        if let Some(end) = end {
            self.events.retain_in(&*whole.start..&*end, |_, _| false)?;
        }
        Ok(())
    }
}

/// Applies the operations of groups up to `last` in one transaction.
pub(super) fn apply_groups<'a>(
    database: &Database,
    groups: impl Iterator<Item = &'a [u8]>,
    last: u64,
    is_durable: bool,
) -> Result<(), redb::Error> {
    in_transaction(database, is_durable, |tables| {
        tables.apply(groups)?;
        tables.write_applied(last)
    })
}

/// Writes the meta record and the format in a transaction of its own, which makes the file a
/// Bellwether database. The database has all groups of the log up to `applied`.
pub(super) fn write_meta(
    database: &Database,
    meta: &Meta,
    applied: u64,
    has_log: bool,
) -> Result<(), redb::Error> {
    let format = u32::from(FORMAT) | if has_log { WITH_LOG } else { 0 };
    in_transaction(database, true, |tables| {
        tables.meta.insert(META_STORE, &*codec::encode(meta))?;
        tables.meta.insert(META_FORMAT, &format.to_le_bytes()[..])?;
        tables.write_applied(applied)
    })
}

/// Writes that there is no log any more. The database has all its groups up to `applied`.
pub(super) fn write_no_log(database: &Database, applied: u64) -> Result<(), redb::Error> {
    in_transaction(database, true, |tables| {
        tables.meta.insert(META_FORMAT, &u32::from(FORMAT).to_le_bytes()[..])?;
        tables.write_applied(applied)
    })
}

/// Writes the meta record and the heads after a data loss: key and record of each. There is no log
/// any more.
pub(super) fn write_data_loss(
    database: &Database,
    meta: &Meta,
    heads: &[(Vec<u8>, Vec<u8>)],
    applied: u64,
) -> Result<(), redb::Error> {
    in_transaction(database, true, |tables| {
        for (key, record) in heads {
            tables.heads.insert(&**key, &**record)?;
        }
        tables.meta.insert(META_STORE, &*codec::encode(meta))?;
        tables.meta.insert(META_FORMAT, &u32::from(FORMAT).to_le_bytes()[..])?;
        tables.write_applied(applied)
    })
}

/// Changes the tables in one transaction.
fn in_transaction(
    database: &Database,
    is_durable: bool,
    change: impl FnOnce(&mut Tables<'_>) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let mut txn = database.begin_write()?;
    txn.set_durability(if is_durable { Durability::Immediate } else { Durability::None })?;
    change(&mut Tables::open(&txn)?)?;
    Ok(txn.commit()?)
}
