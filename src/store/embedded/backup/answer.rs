//! Writes the backups that `bellwether backup` requests from the process that has the store.

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use redb::ReadableDatabase;

use crate::store::embedded::Shared;
use crate::store::embedded::disk::space_of;
use crate::store::embedded::file::FILE_NAME;
use crate::sync::panic_text;

use super::copy::copy;
use super::{FAILED, PART, PREFIX};

/// Bytes that a backup leaves free: a full disk stops the reports.
const LEFT_FREE: u64 = 64 << 20;

/// The requests for backups in a data directory, one at a time.
pub(in crate::store::embedded) struct Backups {
    dir: PathBuf,
    thread: Option<JoinHandle<()>>,
    is_ended: Arc<AtomicBool>,
}

impl Backups {
    /// Removes what earlier requests left: a command that was killed does not, and another one
    /// that waited for a process that ended gives up.
    pub(in crate::store::embedded) fn of(dir: &Path) -> Backups {
        for left in requests(dir) {
            if let Err(error) = fs::remove_dir_all(&left) {
                let folder = left.display();
                tracing::warn!(%error, %folder, "what a backup left is not removed");
            }
        }
        Backups { dir: dir.to_path_buf(), thread: None, is_ended: Arc::default() }
    }

    /// Begins the next backup, if one is requested and none is being written.
    pub(in crate::store::embedded) fn look(&mut self, shared: &Arc<Shared>) {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let Some(folder) = requested(&self.dir) else { return };
        let (shared, is_ended) = (shared.clone(), self.is_ended.clone());
        let work = move || answer(&shared, &folder, &is_ended);
        let thread = std::thread::Builder::new().name("store-backup".to_string()).spawn(work);
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => tracing::warn!(%error, "the backup has no thread"),
        }
    }

    /// Stops a backup that is being written.
    pub(in crate::store::embedded) fn end(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It catches its own panics.
            let _ = thread.join();
        }
    }
}

/// Returns the folders that request a backup.
fn requests(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let is_request = |entry: &fs::DirEntry| {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // A link to a folder is not followed.
        is_named && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().filter(is_request);
    entries.map(|entry| entry.path())
}

/// Returns a folder that requests a backup and has no answer yet.
fn requested(dir: &Path) -> Option<PathBuf> {
    let has_answer =
        |folder: &PathBuf| [FILE_NAME, FAILED].iter().any(|name| folder.join(name).exists());
    requests(dir).find(|folder| !has_answer(folder))
}

fn answer(shared: &Shared, folder: &Path, is_ended: &AtomicBool) {
    let written = catch_unwind(AssertUnwindSafe(|| write(shared, folder, is_ended)));
    let written = written.unwrap_or_else(|panic| Err(panic_text(&*panic).to_string()));
    let part = folder.join(PART);
    match written {
        Ok(()) => tracing::info!(folder = %folder.display(), "a backup is written"),
        // The command gave up.
        Err(_) if !folder.exists() => {}
        Err(reason) => {
            let _ = fs::remove_file(&part);
            let answered = fs::write(&part, &reason);
            let answered = answered.and_then(|()| fs::rename(&part, folder.join(FAILED)));
            // The folder may belong to another user until the command has given it to this one.
            tracing::debug!(reason, is_answered = answered.is_ok(), "a backup failed");
        }
    }
}

fn write(shared: &Shared, folder: &Path, is_ended: &AtomicBool) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let part = folder.join(PART);
    if part.exists() {
        fs::remove_file(&part).map_err(|error| text(&error))?;
    }
    shared.backlog.await_all();
    let txn = match &*shared.database() {
        Ok(database) => database.begin_read().map_err(|error| text(&error))?,
        Err(reason) => return Err(reason.clone()),
    };
    let bytes = folder.parent().and_then(|dir| fs::metadata(dir.join(FILE_NAME)).ok());
    let bytes = bytes.map_or(0, |file| file.len());
    let free = space_of(folder).map_or(u64::MAX, |space| space.free);
    if free < bytes + LEFT_FREE {
        let (needed, free) = ((bytes + LEFT_FREE) >> 20, free >> 20);
        return Err(format!("the disk of the data directory has {free} MiB free of {needed} MiB"));
    }
    let is_complete = copy(&txn, &part, || is_ended.load(Ordering::Relaxed) || !folder.exists());
    if !is_complete.map_err(|error| text(&error))? {
        return Err("the server stopped".to_string());
    }
    fs::rename(&part, folder.join(FILE_NAME)).map_err(|error| text(&error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| text(&error))
}
