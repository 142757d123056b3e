//! Reads from the database, each time as of one commit.

use std::fmt;
use std::path::PathBuf;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};

use crate::domain::app::Head;
use crate::domain::history::StatusEvent;
use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::store::codec::{self, HeadRecord, Meta};
use crate::store::key::{
    EVENTS, HEADS, Key, META, META_STORE, RECORDS, app_of_head, event_place, prefix_of, range_of,
    range_of_events,
};
use crate::store::{Epoch, NumberedEvent, Position, ReadError, Retention, merged};

/// Why a read of the database or of its log failed.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// redb or the operating system reports an error.
    Database(redb::Error),
    /// A record is not valid.
    Record { record: String, reason: String },
    /// A segment of the log is damaged, or does not continue the database of this epoch.
    Segment { path: PathBuf, reason: String, epoch: Epoch },
    /// The database of this epoch has a log, and no segment of it is there.
    NoLog { epoch: Epoch },
}

impl<E: Into<redb::Error>> From<E> for ReadFailure {
    fn from(error: E) -> ReadFailure {
        ReadFailure::Database(error.into())
    }
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadFailure::Database(error) => error.fmt(f),
            ReadFailure::Record { record, reason } => write!(f, "{record}: {reason}"),
            ReadFailure::Segment { path, reason, .. } => write!(f, "{}: {reason}", path.display()),
            ReadFailure::NoLog { .. } => f.write_str("the log is missing"),
        }
    }
}

impl ReadFailure {
    /// Returns whether a part of the log is damaged or missing, which an operator can accept.
    pub(super) fn is_loss(&self) -> bool {
        matches!(self, ReadFailure::Segment { .. } | ReadFailure::NoLog { .. })
    }

    /// Returns the error for the caller that reads an application.
    pub(super) fn into_read_error(self, app: &AppName) -> ReadError {
        match self {
            ReadFailure::Record { record, reason } => ReadError::Corrupt { record, reason },
            ReadFailure::Segment { path, reason, .. } => {
                ReadError::Corrupt { record: path.display().to_string(), reason }
            }
            ReadFailure::NoLog { .. } => {
                ReadError::Corrupt { record: app.to_string(), reason: self.to_string() }
            }
            ReadFailure::Database(
                error @ (redb::Error::Corrupted(_) | redb::Error::TableTypeMismatch { .. }),
            ) => ReadError::Corrupt { record: app.to_string(), reason: error.to_string() },
            ReadFailure::Database(error) => ReadError::Unavailable { reason: error.to_string() },
        }
    }
}

pub(super) fn read_meta(txn: &ReadTransaction) -> Result<Meta, ReadFailure> {
    let bad = |reason| ReadFailure::Record { record: "store record".to_string(), reason };
    let bytes = txn.open_table(META)?.get(META_STORE)?;
    let bytes = bytes.ok_or_else(|| bad("it is missing".to_string()))?;
    codec::decode(bytes.value()).map_err(bad)
}

pub(super) fn read_heads(
    txn: &ReadTransaction,
) -> Result<Vec<(AppName, Position, Head)>, ReadFailure> {
    let mut heads = Vec::new();
    for entry in txn.open_table(HEADS)?.iter()? {
        let (key, record) = entry?;
        let app = app_of_head(key.value()).ok_or_else(|| bad_key(key.value()))?;
        let (position, head) = HeadRecord::decode(record.value())
            .map_err(|reason| in_record(&Key::Head(app.clone()), reason))?;
        heads.push((app, position, head));
    }
    Ok(heads)
}

/// Reads all records of an application, as of one commit. An unknown application is at the revision
/// `floor`.
pub(super) fn read_app(
    database: &Database,
    app: &AppName,
    floor: impl FnOnce() -> Revision,
) -> Result<Records, ReadFailure> {
    let txn = database.begin_read()?;
    let head = match txn.open_table(HEADS)?.get(&*prefix_of(app))? {
        Some(bytes) => {
            let head = HeadRecord::decode(bytes.value());
            head.map_err(|reason| in_record(&Key::Head(app.clone()), reason))?.1
        }
        None => Head::unknown(floor()),
    };
    let mut records = Records::of_head(head);
    let whole = range_of(app);
    for entry in txn.open_table(RECORDS)?.range(&*whole.start..&*whole.end)? {
        let (key, record) = entry?;
        let field = &key.value()[whole.start.len()..];
        let key = Key::record_from_field(app, field).ok_or_else(|| bad_key(key.value()))?;
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
) -> Result<Vec<NumberedEvent>, ReadFailure> {
    let txn = database.begin_read()?;
    let table = txn.open_table(EVENTS)?;
    let read = |is_own: bool| -> Result<Vec<NumberedEvent>, ReadFailure> {
        let mut range = range_of_events(&prefix_of(app), is_own);
        if let Some(before) = before {
            // The number among those of a kind is at most the number among all.
            range.end.clone_from(&range.start);
            range.end.extend_from_slice(&before.to_be_bytes());
        }
        let budget = retention.budget(is_own);
        let mut events = Vec::new();
        for entry in table.range(&*range.start..&*range.end)?.rev() {
            let (key, record) = entry?;
            let place = event_place(key.value()).ok_or_else(|| bad_key(key.value()))?;
            if before.is_some_and(|before| before <= place.number) {
                continue;
            }
            if events.len() == count_max {
                break;
            }
            let event = codec::decode::<StatusEvent>(record.value());
            let event =
                event.map_err(|reason| in_record(&Key::Event(app.clone(), place), reason))?;
            if !budget.is_kept(event.time, now) {
                break;
            }
            events.push(NumberedEvent { number: place.number, event });
        }
        Ok(events)
    };
    Ok(merged(read(true)?, read(false)?, count_max))
}

fn in_record(key: &Key, reason: String) -> ReadFailure {
    ReadFailure::Record { record: key.to_string(), reason }
}

fn bad_key(bytes: &[u8]) -> ReadFailure {
    ReadFailure::Record {
        record: bytes.escape_ascii().to_string(),
        reason: "its key is not known".to_string(),
    }
}
