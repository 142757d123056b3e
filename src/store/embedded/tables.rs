//! The tables of the database in one write transaction.

use redb::{Database, Durability, ReadableTable, Table, WriteTransaction};

use crate::domain::history::StatusEvent;
use crate::store::codec::{self, Meta};
use crate::store::key::{
    EVENTS, HEADS, Key, META, META_APPLIED, META_FORMAT, META_STORE, RECORDS, range_of_prefix,
};

use super::newest::Newest;
use super::op::{Op, Ops, Place, Trim};

type Bytes<'txn> = Table<'txn, &'static [u8], &'static [u8]>;

/// The tables of one write transaction.
pub(super) struct Tables<'txn> {
    meta: Bytes<'txn>,
    heads: Bytes<'txn>,
    records: Bytes<'txn>,
    events: Bytes<'txn>,
}

impl<'txn> Tables<'txn> {
    /// Opens the tables, and creates missing ones.
    pub(super) fn open(txn: &'txn WriteTransaction) -> Result<Tables<'txn>, redb::Error> {
        Ok(Tables {
            meta: txn.open_table(META)?,
            heads: txn.open_table(HEADS)?,
            records: txn.open_table(RECORDS)?,
            events: txn.open_table(EVENTS)?,
        })
    }

    /// Applies the operations of groups, in order.
    pub(super) fn apply<'a>(
        &mut self,
        groups: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), redb::Error> {
        let mut newest = Newest::default();
        for group in groups {
            let mut ops = Ops::new(group);
            for op in ops.by_ref() {
                match op {
                    Op::Put(place, key, value) => newest.put(place, key, Some(value)),
                    Op::Remove(place, key) => newest.put(place, key, None),
                    Op::Trim(trim) => newest.trim(trim),
                    Op::Clear(place, prefix) => {
                        self.write(std::mem::take(&mut newest))?;
                        let whole = range_of_prefix(prefix);
                        self.table(place).retain_in(&*whole.start..&*whole.end, |_, _| false)?;
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
        for (place, key, value) in values {
            match value {
                Some(value) => drop(self.table(place).insert(key, value)?),
                None => drop(self.table(place).remove(key)?),
            }
        }
        trims.try_for_each(|trim| self.trim(trim))
    }

    /// Writes the record of the store as a whole.
    pub(super) fn write_meta(&mut self, meta: &Meta) -> Result<(), redb::Error> {
        self.meta.insert(META_STORE, &*codec::encode(meta))?;
        Ok(())
    }

    /// Writes the format of the database.
    pub(super) fn write_format(&mut self, format: u32) -> Result<(), redb::Error> {
        self.meta.insert(META_FORMAT, &format.to_le_bytes()[..])?;
        Ok(())
    }

    /// Writes the sequence of the last applied group, with the checksum of the store record. A
    /// version that does not know the log changes the record alone.
    pub(super) fn write_applied(&mut self, sequence: u64) -> Result<(), redb::Error> {
        let crc = self.meta.get(META_STORE)?.map(|store| crc32fast::hash(store.value()));
        let mut mark = [0; 12];
        mark[..8].copy_from_slice(&sequence.to_le_bytes());
        mark[8..].copy_from_slice(&crc.unwrap_or_default().to_le_bytes());
        self.meta.insert(META_APPLIED, &mark[..])?;
        Ok(())
    }

    fn table(&mut self, place: Place) -> &mut Bytes<'txn> {
        match place {
            Place::Meta => &mut self.meta,
            Place::Heads => &mut self.heads,
            Place::Records => &mut self.records,
            Place::Events => &mut self.events,
        }
    }

    fn trim(&mut self, Trim { prefix, oldest, cutoff }: Trim<'_>) -> Result<(), redb::Error> {
        let whole = range_of_prefix(prefix);
        let mut end = None;
        for entry in self.events.range(&*whole.start..&*whole.end)? {
            let (key, event) = entry?;
            let number = match Key::event_from_bytes(key.value()) {
                Some(Key::Event(_, number)) => number,
                _ => break,
            };
            // An event that cannot be read stays until its number is below `oldest`.
            let is_old = || {
                let event = codec::decode::<StatusEvent>(event.value());
                event.is_ok_and(|event| event.time < cutoff)
            };
            if oldest <= number && !is_old() {
                break;
            }
            let mut bytes = key.value().to_vec();
            // The number is the last part of the key, so the key after this one is one byte longer.
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
    let mut txn = database.begin_write()?;
    txn.set_durability(if is_durable { Durability::Immediate } else { Durability::None })?;
    {
        let mut tables = Tables::open(&txn)?;
        tables.apply(groups)?;
        tables.write_applied(last)?;
    }
    Ok(txn.commit()?)
}
