//! The database file: how it is created, opened and checked.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Builder, Database, DatabaseError, ReadableDatabase};

use crate::domain::time::Timestamp;
use crate::store::codec::{FORMAT, Meta};
use crate::store::heads::{Heads, Watermarks};
use crate::store::key::{META, META_FORMAT};
use crate::store::moment::Life;
use crate::store::{Bucket, Epoch, KeptHead, random_store_id};
use crate::sync::panic_text;

use super::data_loss;
use super::error::OpenError;
use super::header::{HEADER_BYTES, is_newest_slot_damaged};
use super::life::LifeFile;
use super::limits::Limits;
use super::log::{Log, LogDir, LogFiles};
use super::read::{ReadFailure, read_heads, read_meta};
use super::recover::{self, Acknowledged, Examined};
use super::reserve::Reserve;
use super::tables::{FROM_BACKUP, WITH_LOG, write_meta};

/// The name of the file in the data directory.
pub(super) const FILE_NAME: &str = "bellwether.redb";
/// The size of the page cache. Active applications are in memory above the store, so this cache
/// only saves reads of the applier.
pub(super) const CACHE_BYTES: usize = 16 << 20;

/// Opens a database file. Tests replace it with a disk that fails.
pub(super) type OpenFile =
    Arc<dyn Fn(&Builder, &Path) -> Result<Database, DatabaseError> + Send + Sync>;

/// How the store reaches its files. Tests replace it with a disk that fails, and with small limits.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) open_file: OpenFile,
    pub(super) log: Arc<dyn LogFiles>,
    pub(super) limits: Limits,
}

impl Files {
    /// Returns the real files of a directory.
    pub(super) fn of(dir: &Path) -> Files {
        let open_file: OpenFile = Arc::new(|builder, path| builder.open(path));
        Files { open_file, log: Arc::new(LogDir::new(dir)), limits: Limits::default() }
    }
}

/// The location of the database and its log.
#[derive(Clone)]
pub(super) struct Location {
    dir: PathBuf,
    /// The path of the database.
    pub(super) file: PathBuf,
    /// Room on the disk for deletions.
    pub(super) reserve: Reserve,
    pub(super) files: Files,
}

/// An opened database with the data that stays in memory.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) meta: Meta,
    pub(super) heads: Heads,
    /// The log, which continues after the group `applied`.
    pub(super) log: Log,
    /// The sequence of the last group of the log. The database has all groups.
    pub(super) applied: u64,
}

impl Location {
    pub(super) fn new(dir: &Path, files: Files) -> Location {
        let (file, reserve) = (dir.join(FILE_NAME), Reserve::new(dir));
        Location { dir: dir.to_path_buf(), file, reserve, files }
    }

    /// Returns the data directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the bytes of the file for which the disk has blocks.
    pub(super) fn allocated_bytes(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |file| file.len().min(512 * file.blocks()))
    }

    /// Returns whether the file exists, even if it cannot be read.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self.file.try_exists(), Ok(false))
    }

    /// Returns the error for a log without its database, if that is the case.
    pub(super) fn log_alone(&self) -> Option<OpenError> {
        // In this order: another process may create both now, the database first.
        let generations = self.files.log.list().ok()?;
        let segment = self.files.log.path(*generations.first()?);
        (!self.is_there()).then(|| OpenError::MissingDatabase { path: self.file.clone(), segment })
    }

    /// Creates the directory and the file if they do not exist.
    pub(super) fn create(&self) -> Result<(), OpenError> {
        let mut dir = DirBuilder::new();
        dir.recursive(true).mode(0o700).create(&self.dir).map_err(|e| self.io(e))?;
        self.log_alone().map_or(Ok(()), Err)?;
        if self.file.try_exists().map_err(|e| self.io(e))? {
            return Ok(());
        }
        // The file is created under another name and linked when it is complete. So a file of the
        // final name is never half written.
        let store_id = random_store_id();
        let draft = self.dir.join(format!("{FILE_NAME}.{store_id:016x}"));
        let created = self.draft(&draft, store_id);
        let created = created.and_then(|()| match fs::hard_link(&draft, &self.file) {
            // Another process was faster. The lock on the file decides which process uses it.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked.map_err(|e| self.io(e)),
        });
        let removed = fs::remove_file(&draft).or_else(|e| match e.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(e),
        });
        created?;
        removed.and_then(|()| File::open(&self.dir)?.sync_all()).map_err(|e| self.io(e))
    }

    fn draft(&self, draft: &Path, store_id: u64) -> Result<(), OpenError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(draft).map_err(|e| self.io(e))?;
        let database = Builder::new().create(draft);
        let database = database.map_err(|e| self.database_error(e))?;
        let epoch = Epoch { store_id, losses: 0 };
        let meta = Meta { epoch, clock: Timestamp::default(), marks: Watermarks::default() };
        write_meta(&database, &meta, 0, false).map_err(|e| self.error(e))
    }

    /// Opens the database, checks every page, applies what the log has in addition, and reads the
    /// data that stays in memory. `accepted` is the epoch of a store that may lose commits;
    /// `acknowledged` is what this process knows.
    pub(super) fn open(
        &self,
        accepted: Option<&str>,
        acknowledged: Option<&Acknowledged>,
    ) -> Result<Opened, OpenError> {
        // redb takes an empty file for a new database.
        if fs::metadata(&self.file).map_err(|e| self.io(e))?.len() == 0 {
            return Err(self.damaged("it is empty"));
        }
        if self.is_newest_slot_damaged() {
            let file = self.file.display();
            tracing::warn!(
                %file,
                "the newest transaction of the database is damaged, and the one before it is used; \
                 the commits since then are applied from the log"
            );
        }
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let mut builder = Builder::new();
            builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
            let database = (self.files.open_file)(&builder, &self.file);
            let database = database.map_err(|e| self.database_error(e))?;
            if self.check_format(&database)? {
                self.begin_from_backup(&database)?;
            }
            let Files { log, limits, .. } = &self.files;
            let log = log.clone();
            let recovered = recover::recover(&database, log, limits, accepted, acknowledged);
            let (log, applied) = recovered.map_err(|e| self.error(e))?;
            let (meta, heads) = self.read(&database)?;
            Ok(Opened { database, meta, heads, log, applied })
        }));
        opened.unwrap_or_else(|panic| Err(self.damaged(panic_text(&*panic))))
    }

    /// Opens the file that says until when a process was able to act, and reads it.
    pub(super) fn open_life(&self, store_id: u64) -> Result<(LifeFile, Life), OpenError> {
        LifeFile::open(&self.dir, store_id).map_err(|e| self.io(e))
    }

    /// Returns whether the header shows that redb will use the commit before the newest one. False
    /// if the header cannot be read: redb refuses such a file itself.
    fn is_newest_slot_damaged(&self) -> bool {
        let mut header = [0; HEADER_BYTES];
        let read = File::open(&self.file).and_then(|mut file| file.read_exact(&mut header));
        read.is_ok() && is_newest_slot_damaged(&header)
    }

    /// Returns what other users of this machine can do with the directory and the file, a sentence
    /// each.
    pub(super) fn open_to_others(&self) -> Vec<String> {
        let places = [("data directory", &self.dir, 0o700), ("file", &self.file, 0o600)];
        let open = places.into_iter().filter_map(|(what, path, right)| {
            let mode = fs::metadata(path).ok()?.mode() & 0o777;
            let can = match mode & 0o077 {
                0 => return None,
                others if others & 0o022 != 0 => "change",
                _ => "read",
            };
            let path = path.display();
            Some(format!(
                "{what} {path} has mode {mode:04o}, so other users of this machine can {can} it; \
                 `chmod {right:o} {path}` unless they are meant to"
            ))
        });
        open.collect()
    }

    /// Checks whether this version knows the format of the database. Returns whether it is a backup
    /// from which no store was started.
    pub(super) fn check_format(&self, database: &impl ReadableDatabase) -> Result<bool, OpenError> {
        let txn = database.begin_read().map_err(|e| self.error(e))?;
        let meta = txn.open_table(META).map_err(|e| self.error(e))?;
        let format = meta.get(META_FORMAT).map_err(|e| self.error(e))?;
        let format = format.and_then(|f| Some(u32::from_le_bytes(f.value().try_into().ok()?)));
        let is_backup = format.is_some_and(|format| format & FROM_BACKUP != 0);
        match format.map(|format| format & !(WITH_LOG | FROM_BACKUP)) {
            None => Err(self.damaged("it has no format")),
            Some(found) if u32::from(FORMAT) < found => {
                Err(OpenError::TooNew { path: self.file.clone(), found, known: FORMAT.into() })
            }
            Some(_) => Ok(is_backup),
        }
    }

    /// Begins a history of its own in a backup: what was acknowledged after it is lost.
    fn begin_from_backup(&self, database: &Database) -> Result<(), OpenError> {
        if !self.files.log.list().map_err(|e| self.io(e))?.is_empty() {
            let reason = "it is a backup, and the log of another database is beside it; a backup \
                          needs a data directory of its own";
            return Err(self.damaged(reason));
        }
        let last = recover::last_applied(database).map_err(|e| self.error(e))?;
        let epoch = data_loss::record_restore(database, last).map_err(|e| self.error(e))?;
        tracing::warn!(
            file = %self.file.display(), %epoch,
            "this is the first start from a backup: what was acknowledged after it is lost, so \
             each unit is uncertain until it reports again"
        );
        Ok(())
    }

    pub(super) fn read(
        &self,
        database: &impl ReadableDatabase,
    ) -> Result<(Meta, Heads), OpenError> {
        let txn = database.begin_read().map_err(|e| self.error(e))?;
        let meta = read_meta(&txn).map_err(|e| self.error(e))?;
        let heads = read_heads(&txn).map_err(|e| self.error(e))?;
        let heads = heads
            .into_iter()
            .map(|(app, position, head)| (app, position, KeptHead::Whole(Arc::new(head))));
        Ok((meta, Heads::restore(Bucket::default(), heads, meta.marks)))
    }

    /// Checks the database and its log without changing anything.
    pub(super) fn examine(&self, database: &impl ReadableDatabase) -> Result<Examined, OpenError> {
        self.check_format(database)?;
        self.read(database)?;
        recover::examine(database, self.files.log.clone()).map_err(|e| self.error(e))
    }

    pub(super) fn damaged(&self, reason: &str) -> OpenError {
        OpenError::Damaged { path: self.file.clone(), reason: reason.to_string() }
    }

    fn io(&self, source: io::Error) -> OpenError {
        OpenError::Io { path: self.dir.clone(), source }
    }

    fn error(&self, error: impl Into<ReadFailure>) -> OpenError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        // Of these kinds is an error about the content of the file, not about reading it.
        let is_content =
            |error: &io::Error| matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof);
        match error.into() {
            ReadFailure::Database(redb::Error::Io(source)) if !is_content(&source) => {
                self.io(source)
            }
            ReadFailure::Database(error) => self.damaged(&error.to_string()),
            ReadFailure::Record { record, reason } => {
                self.damaged(&format!("{record} cannot be read: {reason}"))
            }
            ReadFailure::Segment { path, reason, epoch } => {
                OpenError::DamagedLog { path, reason, epoch }
            }
            ReadFailure::NoLog { epoch } => {
                OpenError::MissingLog { path: self.file.clone(), epoch }
            }
        }
    }

    pub(super) fn database_error(&self, error: DatabaseError) -> OpenError {
        match error {
            DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
                OpenError::InUse { path: self.dir.clone() }
            }
            other => self.error(other),
        }
    }
}
