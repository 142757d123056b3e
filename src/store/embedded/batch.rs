//! A transition in encoded form. The committing task encodes it, so that the writer thread only
//! inserts bytes.

use std::sync::Arc;

use redb::{ReadableTable, Table, WriteTransaction};

use crate::domain::app::Head;
use crate::domain::history::StatusEvent;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::transition::{Transition, Write};
use crate::store::Retention;
use crate::store::codec::{self, HeadRecord, Meta};
use crate::store::heads::HeadStep;
use crate::store::key::{
    EVENTS, HEADS, Key, META, META_FORMAT, META_STORE, RECORDS, key_of, range_of,
};

/// An encoded transition.
pub(super) struct Batch {
    pub(super) app: AppName,
    pub(super) base: Revision,
    pub(super) head: Arc<Head>,
    time: Timestamp,
    head_record: HeadRecord,
    /// The records by key; `None` removes the record.
    records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    events: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Batch {
    pub(super) fn encode(transition: &Transition) -> Batch {
        let app = &transition.app;
        let record = |write: &Write| (key_of(app, write), codec::encode_write(write));
        let events = (transition.first_event()..).zip(&transition.events);
        Batch {
            app: app.clone(),
            base: transition.base,
            head: transition.head.clone(),
            time: transition.time,
            head_record: HeadRecord::encode(&transition.head),
            records: transition.writes.iter().map(record).collect(),
            events: events
                .map(|(n, event)| (Key::Event(app.clone(), n).to_bytes(), codec::encode(event)))
                .collect(),
        }
    }
}

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

    /// Writes one batch, and removes the events and tombstones that exceed the retention.
    pub(super) fn write(
        &mut self,
        batch: Batch,
        step: &HeadStep,
        retention: &Retention,
    ) -> Result<(), redb::Error> {
        let head_key = Key::Head(batch.app.clone()).to_bytes();
        let head = batch.head_record.at(step.change.position);
        self.heads.insert(&*head_key, &*head)?;
        if batch.head.deleted {
            clear(&mut self.records, &batch.app)?;
        }
        for (key, record) in &batch.records {
            match record {
                Some(record) => drop(self.records.insert(&**key, &**record)?),
                None => drop(self.records.remove(&**key)?),
            }
        }
        for (key, event) in &batch.events {
            self.events.insert(&**key, &**event)?;
        }
        if !batch.events.is_empty() {
            let oldest = batch.head.next_event.saturating_sub(retention.events_max);
            self.trim(&batch.app, oldest, batch.time, retention)?;
        }
        for gone in &step.forgotten {
            self.heads.remove(&*Key::Head(gone.app.clone()).to_bytes())?;
            clear(&mut self.records, &gone.app)?;
            clear(&mut self.events, &gone.app)?;
        }
        Ok(())
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

    /// Removes the events with a number below `oldest`, and those that are too old.
    fn trim(
        &mut self,
        app: &AppName,
        oldest: u64,
        now: Timestamp,
        retention: &Retention,
    ) -> Result<(), redb::Error> {
        let whole = range_of(app);
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
                event.is_ok_and(|event| !retention.is_kept(event.time, now))
            };
            if oldest <= number && !is_old() {
                break;
            }
            end = Some(number + 1);
        }
        if let Some(end) = end {
            let end = Key::Event(app.clone(), end).to_bytes();
            self.events.retain_in(&*whole.start..&*end, |_, _| false)?;
        }
        Ok(())
    }
}

/// Removes all entries of an application from a table.
fn clear(table: &mut Bytes<'_>, app: &AppName) -> Result<(), redb::Error> {
    let whole = range_of(app);
    table.retain_in(&*whole.start..&*whole.end, |_, _| false)?;
    Ok(())
}
