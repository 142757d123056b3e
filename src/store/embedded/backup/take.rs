//! Takes a backup: from the process that has the store, or of a store that no process has.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redb::{Builder, DatabaseError, ReadableDatabase};

use crate::store::embedded::error::OpenError;
use crate::store::embedded::file::{CACHE_BYTES, FILE_NAME, Files, Location};
use crate::store::embedded::overlay::Overlay;
use crate::store::embedded::recover;
use crate::store::{Epoch, random_store_id};

use super::copy::copy;
use super::{FAILED, PART, PREFIX};

/// The time between two looks for the answer.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The time in which a server begins. It looks four times a second.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// The time without progress after which a server is looked for.
const SILENCE: Duration = Duration::from_secs(1);

/// A backup that is written and checked.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The applications that it has.
    pub applications: usize,
    /// The epoch of the store that was copied.
    pub epoch: Epoch,
    /// The position that the store had: the number of its last change.
    pub position: u64,
    /// The size of the copy.
    pub bytes: u64,
    /// Whether a process had the store.
    pub is_online: bool,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Something is in the place of the backup.
    #[error("{} exists already; name a new folder", .0.display())]
    Exists(PathBuf),
    /// There is no store.
    #[error("there is no database in {}; name the data directory of the server", .0.display())]
    Missing(PathBuf),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A file cannot be read or written.
    #[error("{} cannot be used; run the command as the user of the server, or as root",
        path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The copy fails.
    #[error("the backup failed: {0}; nothing is left of it")]
    Failed(String),
    /// A process has the store and does not answer.
    #[error(
        "the process that has {} does not answer: if it is starting, run the command again; if it \
         is a version without backups, stop it, and the command copies the store itself",
        .0.display()
    )]
    Unanswered(PathBuf),
    /// The server ended.
    #[error("the server ended before the backup was complete; run the command again")]
    Ended,
    /// The time is over.
    #[error("the backup took longer than {0:?}; give it more time with --timeout")]
    Late(Duration),
}

/// Writes a backup of the data directory `dir` into the new folder `target`, and checks it.
///
/// # Errors
///
/// If there is no complete and sound backup. Nothing is left of it then.
pub fn take(dir: &Path, target: &Path, patience: Duration) -> Result<Taken, TakeError> {
    if target.symlink_metadata().is_ok() {
        return Err(TakeError::Exists(target.to_path_buf()));
    }
    let location = Location::new(dir, Files::of(dir));
    if !location.is_there() {
        return Err(TakeError::Missing(dir.to_path_buf()));
    }
    let is_online = is_used(&location)?;
    let folder = match is_online {
        true => Folder::new(&dir.join(format!("{PREFIX}{:016x}", random_store_id())))?,
        // Beside the target, so that it is moved within one file system.
        false => Folder::new(&beside(target))?,
    };
    match is_online {
        true => {
            folder.give_to_owner_of(dir)?;
            await_answer(&folder.0, &location, patience)?;
        }
        false => copy_unused(&location, &folder.0)?,
    }
    let taken = check(&folder.0, is_online)?;
    folder.move_to(target)?;
    Ok(taken)
}

/// Returns whether a process has the store.
fn is_used(location: &Location) -> Result<bool, TakeError> {
    match Builder::new().open_read_only(&location.file) {
        Ok(_) | Err(DatabaseError::RepairAborted) => Ok(false),
        Err(error) => match location.database_error(error) {
            OpenError::InUse { .. } => Ok(true),
            error => Err(error.into()),
        },
    }
}

/// Waits until the process that has the store has written the copy.
fn await_answer(folder: &Path, location: &Location, patience: Duration) -> Result<(), TakeError> {
    let begun = Instant::now();
    let (mut bytes, mut moved_at) = (None, begun);
    loop {
        if folder.join(FILE_NAME).exists() {
            return Ok(());
        }
        if let Ok(reason) = fs::read_to_string(folder.join(FAILED)) {
            return Err(TakeError::Failed(reason));
        }
        let written = fs::metadata(folder.join(PART)).ok().map(|part| part.len());
        if written != bytes {
            (bytes, moved_at) = (written, Instant::now());
        }
        if SILENCE <= moved_at.elapsed() {
            if !is_used(location)? {
                return Err(TakeError::Ended);
            }
            if bytes.is_none() && BEGIN_WITHIN <= begun.elapsed() {
                return Err(TakeError::Unanswered(location.file.clone()));
            }
            moved_at = Instant::now();
        }
        if patience <= begun.elapsed() {
            return Err(TakeError::Late(patience));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Copies a store that no process has, with what its log has in addition. The store stays as it is.
fn copy_unused(location: &Location, folder: &Path) -> Result<(), TakeError> {
    let overlay = Overlay::open(&location.file).map_err(DatabaseError::from);
    let database = overlay.and_then(|file| builder().create_with_backend(file));
    let database = database.map_err(|error| location.database_error(error))?;
    location.examine(&database)?;
    let failed = |error: &dyn std::fmt::Display| TakeError::Failed(error.to_string());
    recover::apply_missing(&database, location.files.log.clone()).map_err(|e| failed(&e))?;
    let txn = database.begin_read().map_err(|e| failed(&e))?;
    copy(&txn, &folder.join(FILE_NAME), || false).map_err(|e| failed(&e))?;
    Ok(())
}

/// Reads every page of a copy.
fn check(folder: &Path, is_online: bool) -> Result<Taken, TakeError> {
    let copied = Location::new(folder, Files::of(folder));
    let overlay = Overlay::open(&copied.file).map_err(DatabaseError::from);
    let database = overlay
        .and_then(|file| builder().set_check_integrity_on_open(true).create_with_backend(file));
    let database = database.map_err(|error| copied.database_error(error))?;
    copied.examine(&database)?;
    let (meta, heads) = copied.read(&database)?;
    let io = |source| TakeError::Io { path: copied.file.clone(), source };
    let bytes = fs::metadata(&copied.file).map_err(io)?.len();
    Ok(Taken {
        applications: heads.existing(),
        epoch: meta.epoch,
        position: heads.marks().last.0,
        bytes,
        is_online,
    })
}

/// Opens databases with the cache of the server.
fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Returns the name of a folder beside another one.
fn beside(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{:016x}.part", random_store_id()));
    target.with_file_name(name)
}

/// A folder that is removed unless it is moved.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(path: &Path) -> Result<Folder, TakeError> {
        let made = DirBuilder::new().mode(0o700).create(path);
        let path = path.to_path_buf();
        match made {
            Ok(()) => Ok(Folder(path)),
            Err(source) => Err(TakeError::Io { path, source }),
        }
    }

    fn failed(&self) -> impl Fn(io::Error) -> TakeError {
        let path = self.0.clone();
        move |source| TakeError::Io { path: path.clone(), source }
    }

    /// Lets the user of the server write into the folder that root has made.
    fn give_to_owner_of(&self, dir: &Path) -> Result<(), TakeError> {
        let [of, own] = [dir, &self.0].map(|path| fs::metadata(path).map(|m| (m.uid(), m.gid())));
        let (of, own) = (of.map_err(self.failed())?, own.map_err(self.failed())?);
        match of.0 == own.0 {
            true => Ok(()),
            false => chown(&self.0, Some(of.0), Some(of.1)).map_err(self.failed()),
        }
    }

    /// Gives the folder its final name when all of it is on the disk.
    fn move_to(self, target: &Path) -> Result<(), TakeError> {
        let at_target = |source| TakeError::Io { path: target.to_path_buf(), source };
        match fs::rename(&self.0, target) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let near = Folder::new(&beside(target))?;
                let (from, to) = (self.0.join(FILE_NAME), near.0.join(FILE_NAME));
                fs::copy(from, &to).map_err(at_target)?;
                File::open(to).and_then(|file| file.sync_all()).map_err(at_target)?;
                check(&near.0, true)?;
                fs::rename(&near.0, target).map_err(at_target)?;
            }
            renamed => renamed.map_err(at_target)?,
        }
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = File::open(parent.unwrap_or(Path::new(".")));
        parent.and_then(|parent| parent.sync_all()).map_err(at_target)
    }
}
