//! Reads from the database, each time as of one commit.

use std::sync::Arc;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};

use crate::domain::app::Head;
use crate::domain::history::StatusEvent;
use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::store::codec::{self, HeadRecord, Meta};
use crate::store::heads::mk_change;
use crate::store::key::{EVENTS, HEADS, Key, META, META_STORE, RECORDS, range_of};
use crate::store::{Change, NumberedEvent, ReadError, Retention};

/// Why a read from the database failed.
pub(super) enum Fault {
    /// redb reports an error.
    Database(redb::Error),
    /// A record is not valid.
    Record { record: String, reason: String },
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Fault {
        Fault::Database(error.into())
    }
}

impl Fault {
    /// Returns the error for the caller that reads `what`.
    pub(super) fn into_read_error(self, what: impl FnOnce() -> String) -> ReadError {
        match self {
            Fault::Record { record, reason } => ReadError::Corrupt { record, reason },
            Fault::Database(
                error @ (redb::Error::Corrupted(_) | redb::Error::TableTypeMismatch { .. }),
            ) => ReadError::Corrupt { record: what(), reason: error.to_string() },
            Fault::Database(error) => ReadError::Unavailable { reason: error.to_string() },
        }
    }
}

pub(super) fn read_meta(txn: &ReadTransaction) -> Result<Meta, Fault> {
    let record = || "store record".to_string();
    let Some(bytes) = txn.open_table(META)?.get(META_STORE)? else {
        let (record, reason) = (record(), "it is missing".to_string());
        return Err(Fault::Record { record, reason });
    };
    codec::decode(bytes.value()).map_err(|reason| Fault::Record { record: record(), reason })
}

pub(super) fn read_heads(txn: &ReadTransaction) -> Result<Vec<Change>, Fault> {
    let mut heads = Vec::new();
    for entry in txn.open_table(HEADS)?.iter()? {
        let (key, record) = entry?;
        let Some(Key::Head(app)) = Key::head_from_bytes(key.value()) else {
            return Err(bad_key(key.value()));
        };
        let (position, head) = HeadRecord::decode(record.value())
            .map_err(|reason| in_record(&Key::Head(app.clone()), reason))?;
        heads.push(mk_change(app, position, Arc::new(head)));
    }
    Ok(heads)
}

/// Reads all records of an application, as of one commit. An unknown application is at the revision
/// `floor`.
pub(super) fn read_app(
    database: &Database,
    app: &AppName,
    floor: impl FnOnce() -> Revision,
) -> Result<Records, Fault> {
    let txn = database.begin_read()?;
    let head_key = Key::Head(app.clone());
    let head = match txn.open_table(HEADS)?.get(&*head_key.to_bytes())? {
        Some(bytes) => {
            let head = HeadRecord::decode(bytes.value());
            head.map_err(|reason| in_record(&head_key, reason))?.1
        }
        None => Head::empty(floor()),
    };
    let mut records = Records::of_head(head);
    let whole = range_of(app);
    let table = txn.open_table(RECORDS)?;
    for entry in table.range(&*whole.start..&*whole.end)? {
        let (key, record) = entry?;
        let key = Key::record_from_bytes(key.value()).ok_or_else(|| bad_key(key.value()))?;
        let decoded = codec::decode_into(&mut records, &key, record.value());
        decoded.map_err(|reason| in_record(&key, reason))?;
    }
    Ok(records)
}

/// Reads the events of an application before a number, newest first.
pub(super) fn read_events(
    database: &Database,
    app: &AppName,
    before: Option<u64>,
    count_max: usize,
    retention: &Retention,
    now: Timestamp,
) -> Result<Vec<NumberedEvent>, Fault> {
    let txn = database.begin_read()?;
    let mut range = range_of(app);
    if let Some(before) = before {
        range.end = Key::Event(app.clone(), before).to_bytes();
    }
    let mut events = Vec::new();
    let table = txn.open_table(EVENTS)?;
    let entries = table.range(&*range.start..&*range.end)?;
    for entry in entries.rev().take(count_max) {
        let (key, record) = entry?;
        let key = Key::event_from_bytes(key.value()).ok_or_else(|| bad_key(key.value()))?;
        let event = codec::decode::<StatusEvent>(record.value());
        let event = event.map_err(|reason| in_record(&key, reason))?;
        if !retention.is_kept(event.time, now) {
            break;
        }
        if let Key::Event(_, number) = key {
            events.push(NumberedEvent { number, event });
        }
    }
    Ok(events)
}

fn in_record(key: &Key, reason: String) -> Fault {
    let record = key.to_string();
    Fault::Record { record, reason }
}

fn bad_key(bytes: &[u8]) -> Fault {
    Fault::Record {
        record: bytes.escape_ascii().to_string(),
        reason: "its key is not known".to_string(),
    }
}
