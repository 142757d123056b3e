//! The database file: made, opened, checked and read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{
    Builder, Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageError,
};

use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::time::Timestamp;
use crate::domain::transition::StatusEvent;
use crate::store::codec::{self, FORMAT, HeadRecord, Meta};
use crate::store::heads::{Heads, Marks};
use crate::store::key::{EVENTS, HEADS, Key, META, META_FORMAT, META_STORE, RECORDS, range_of};
use crate::store::{
    Change, Epoch, NumberedEvent, OpenError, ReadError, Retention, random_store_id,
};

use super::batch::Tables;

/// The file within the data directory.
const FILE_NAME: &str = "bellwether.redb";
/// Pages kept in memory. Applications in use are kept by whoever uses them, so this serves writes.
const CACHE_BYTES: usize = 64 << 20;

/// How redb gets at the file. Tests put a disk in between that fails.
pub(super) type OpenFile =
    Arc<dyn Fn(&Builder, &Path) -> Result<Database, DatabaseError> + Send + Sync>;

/// The way of everybody but tests.
pub(super) fn open_file() -> OpenFile {
    Arc::new(|builder, path| builder.open(path))
}

/// Where the database is, and how to get at it.
#[derive(Clone)]
pub(super) struct Location {
    dir: PathBuf,
    file: PathBuf,
    open_file: OpenFile,
}

/// A database that was opened, with what is kept of it in memory.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) meta: Meta,
    pub(super) heads: Heads,
}

impl Location {
    pub(super) fn new(dir: &Path, open_file: OpenFile) -> Location {
        Location {
            dir: dir.to_path_buf(),
            file: dir.join(FILE_NAME),
            open_file,
        }
    }

    /// Makes the directory and the file if they are not there.
    pub(super) fn create(&self) -> Result<(), OpenError> {
        let mut dir = DirBuilder::new();
        let made = dir.recursive(true).mode(0o700).create(&self.dir);
        made.map_err(|e| self.io(e))?;
        if self.file.try_exists().map_err(|e| self.io(e))? {
            return Ok(());
        }
        // Drafted under another name: a file of that name is whole, or damaged, but never half
        // made.
        let store_id = random_store_id();
        let draft = self.dir.join(format!("{FILE_NAME}.{store_id:016x}"));
        let created = self.draft(&draft, store_id).and_then(|()| {
            let linked = fs::hard_link(&draft, &self.file);
            match linked {
                // Another process was quicker; which of us may have it is decided by its lock.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked.map_err(|e| self.io(e)),
            }
        });
        let removed = fs::remove_file(&draft).or_else(|e| match e.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(e),
        });
        created?;
        removed
            .and_then(|()| File::open(&self.dir)?.sync_all())
            .map_err(|e| self.io(e))
    }

    fn draft(&self, draft: &Path, store_id: u64) -> Result<(), OpenError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(draft).map_err(|e| self.io(e))?;
        let database = Builder::new().create(draft);
        let database = database.map_err(|e| self.database_error(e))?;
        let epoch = Epoch {
            store_id,
            losses: 0,
        };
        let meta = Meta::new(epoch, Timestamp::default(), Marks::default());
        write_meta(&database, &meta, true).map_err(|e| self.error(e))
    }

    /// Opens the database, checks every page of it, and reads what is kept in memory.
    pub(super) fn open(&self) -> Result<Opened, OpenError> {
        // redb takes an empty file for a new one.
        let found = fs::metadata(&self.file).map_err(|e| self.io(e))?;
        if found.len() == 0 {
            return Err(self.damaged("it is empty"));
        }
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let mut builder = Builder::new();
            builder
                .set_cache_size(CACHE_BYTES)
                .set_check_integrity_on_open(true);
            let database = (self.open_file)(&builder, &self.file);
            let database = database.map_err(|e| self.database_error(e))?;
            let (meta, heads) = self.read(&database)?;
            Ok(Opened {
                database,
                meta,
                heads,
            })
        }));
        opened.unwrap_or_else(|panic| Err(self.damaged(&panic_text(&*panic))))
    }

    fn read(&self, database: &Database) -> Result<(Meta, Heads), OpenError> {
        let txn = database.begin_read().map_err(|e| self.error(e.into()))?;
        let meta = txn.open_table(META).map_err(|e| self.error(e.into()))?;
        let format = meta.get(META_FORMAT).map_err(|e| self.error(e.into()))?;
        let format = format.and_then(|f| Some(u32::from_le_bytes(f.value().try_into().ok()?)));
        match format {
            None => return Err(self.damaged("it has no format")),
            Some(found) if u32::from(FORMAT) < found => {
                return Err(OpenError::TooNew {
                    path: self.file.clone(),
                    found,
                    known: FORMAT.into(),
                });
            }
            Some(_) => {}
        }
        let meta = read_meta(&txn).map_err(|e| self.fault(e))?;
        let heads = read_heads(&txn).map_err(|e| self.fault(e))?;
        Ok((meta, Heads::restore(heads, meta.marks())))
    }

    fn damaged(&self, reason: &str) -> OpenError {
        OpenError::Damaged {
            path: self.file.clone(),
            reason: reason.to_string(),
        }
    }

    fn io(&self, source: io::Error) -> OpenError {
        OpenError::Io {
            path: self.dir.clone(),
            source,
        }
    }

    fn fault(&self, fault: Fault) -> OpenError {
        match fault {
            Fault::Database(error) => self.error(error),
            Fault::Record { record, reason } => {
                self.damaged(&format!("{record} cannot be read: {reason}"))
            }
        }
    }

    fn database_error(&self, error: DatabaseError) -> OpenError {
        match error {
            DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
                OpenError::InUse {
                    path: self.dir.clone(),
                }
            }
            DatabaseError::Storage(StorageError::Io(source)) if !is_content(&source) => {
                self.io(source)
            }
            other => self.damaged(&other.to_string()),
        }
    }

    fn error(&self, error: redb::Error) -> OpenError {
        match error {
            redb::Error::Io(source) if !is_content(&source) => self.io(source),
            other => self.damaged(&other.to_string()),
        }
    }
}

/// Whether the operating system did as it was asked, but what it read makes no sense.
fn is_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "panic".to_string())
}

// === writing what holds for the store as a whole ===

/// Writes the meta record in a transaction of its own; with `is_new` all that makes a file a
/// database of ours.
pub(super) fn write_meta(
    database: &Database,
    meta: &Meta,
    is_new: bool,
) -> Result<(), redb::Error> {
    let mut txn = database.begin_write()?;
    txn.set_durability(Durability::Immediate)?;
    {
        let mut tables = Tables::open(&txn)?;
        tables.write_meta(meta)?;
        if is_new {
            tables.write_format(FORMAT.into())?;
        }
    }
    Ok(txn.commit()?)
}

// === reading ===

/// Why something could not be read from the database.
pub(super) enum Fault {
    /// By redb.
    Database(redb::Error),
    /// By us: a record is not what was written.
    Record { record: String, reason: String },
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Fault {
        Fault::Database(error.into())
    }
}

impl Fault {
    /// As the one who reads `what` is told.
    pub(super) fn into_read_error(self, what: impl FnOnce() -> String) -> ReadError {
        match self {
            Fault::Record { record, reason } => ReadError::Corrupt { record, reason },
            Fault::Database(
                error @ (redb::Error::Corrupted(_) | redb::Error::TableTypeMismatch { .. }),
            ) => ReadError::Corrupt {
                record: what(),
                reason: error.to_string(),
            },
            Fault::Database(error) => ReadError::Unavailable {
                reason: error.to_string(),
            },
        }
    }
}

fn read_meta(txn: &ReadTransaction) -> Result<Meta, Fault> {
    let record = || "what holds for the store as a whole".to_string();
    let Some(bytes) = txn.open_table(META)?.get(META_STORE)? else {
        let (record, reason) = (record(), "it is not there".to_string());
        return Err(Fault::Record { record, reason });
    };
    codec::decode(bytes.value()).map_err(|reason| Fault::Record {
        record: record(),
        reason,
    })
}

fn read_heads(txn: &ReadTransaction) -> Result<Vec<Change>, Fault> {
    let mut heads = Vec::new();
    for entry in txn.open_table(HEADS)?.iter()? {
        let (key, record) = entry?;
        let Some(Key::Head(app)) = Key::head_from_bytes(key.value()) else {
            return Err(bad_key(key.value()));
        };
        let (position, head) = HeadRecord::decode(record.value())
            .map_err(|reason| in_record(&Key::Head(app.clone()), reason))?;
        heads.push(Change {
            app,
            position,
            head: Arc::new(head),
        });
    }
    Ok(heads)
}

/// Everything known of an application, as of one commit.
pub(super) fn read_app(database: &Database, app: &AppName) -> Result<Records, Fault> {
    let txn = database.begin_read()?;
    let head_key = Key::Head(app.clone());
    let head = match txn.open_table(HEADS)?.get(&*head_key.to_bytes())? {
        Some(bytes) => {
            let head = HeadRecord::decode(bytes.value());
            head.map_err(|reason| in_record(&head_key, reason))?.1
        }
        None => Head::empty(read_meta(&txn)?.marks().revision_floor),
    };
    let mut records = Records {
        head,
        units: Vec::new(),
        statuses: Vec::new(),
        requests: Vec::new(),
    };
    let whole = range_of(app);
    let table = txn.open_table(RECORDS)?;
    for entry in table.range(&*whole.start..&*whole.end)? {
        let (key, record) = entry?;
        let bytes = record.value();
        let key = Key::record_from_bytes(key.value()).ok_or_else(|| bad_key(key.value()))?;
        let bad = |reason| in_record(&key, reason);
        match &key {
            Key::Unit(_, name) => {
                let unit = codec::decode(bytes).map_err(bad)?;
                records.units.push((name.clone(), unit));
            }
            Key::Status(_, status_key) => {
                let status = codec::decode(bytes).map_err(bad)?;
                records.statuses.push(((**status_key).clone(), status));
            }
            Key::Request(_, id) => {
                let answer = codec::decode(bytes).map_err(bad)?;
                records.requests.push((id.clone(), answer));
            }
            Key::Head(_) | Key::Event(..) => {}
        }
    }
    Ok(records)
}

/// The events of an application before one, newest first.
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
        reason: "it has no name that is known".to_string(),
    }
}
