//! A disk in memory that can be full, fail, and lose unsynced writes.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use redb::{Builder, StorageBackend};

use crate::store::embedded::file::OpenFile;

/// The error number of a full disk.
pub(super) const ENOSPC: i32 = 28;
/// The error number of a failing disk.
const EIO: i32 = 5;

/// A disk in memory. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(Arc<(Mutex<Content>, Condvar)>);

#[derive(Debug, Default)]
struct Content {
    /// The content as a process reads it.
    seen: Vec<u8>,
    /// The content at the last sync.
    synced: Vec<u8>,
    /// The writes since the last sync.
    unsynced: Vec<HeadStep>,
    failing: Option<i32>,
    lying: bool,
    held: bool,
    waited_for: bool,
    syncs: usize,
    refused: usize,
}

#[derive(Debug, Clone)]
enum HeadStep {
    Resize(u64),
    Write(u64, Vec<u8>),
}

impl HeadStep {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            HeadStep::Resize(len) => bytes.resize(*len as usize, 0),
            HeadStep::Write(at, data) => {
                let (at, end) = (*at as usize, *at as usize + data.len());
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[at..end].copy_from_slice(data);
            }
        }
    }
}

impl Disk {
    /// Returns a function that opens this disk instead of the file. The first call copies the file.
    pub(super) fn open_file(&self) -> OpenFile {
        let disk = self.clone();
        Arc::new(move |builder: &Builder, path: &Path| {
            if disk.content().seen.is_empty() {
                let bytes = std::fs::read(path)?;
                let mut content = disk.content();
                content.seen.clone_from(&bytes);
                content.synced = bytes;
            }
            builder.create_with_backend(disk.clone())
        })
    }

    /// Makes every write fail with this error number; `None` ends that.
    pub(super) fn fail(&self, errno: Option<i32>) {
        self.content().failing = errno;
    }

    /// Blocks syncs while `held` is true.
    pub(super) fn hold(&self, held: bool) {
        self.content().held = held;
        self.0.1.notify_all();
    }

    /// Returns whether a sync is blocked.
    pub(super) fn is_waited_for(&self) -> bool {
        self.content().waited_for
    }

    /// Returns the number of complete syncs.
    pub(super) fn syncs(&self) -> usize {
        self.content().syncs
    }

    /// Makes the next sync succeed but report an error.
    pub(super) fn lie_once(&self) {
        self.content().lying = true;
    }

    /// Returns the number of refused operations.
    pub(super) fn refused(&self) -> usize {
        self.content().refused
    }

    /// Returns the content after a power loss: all synced writes, and each unsynced write for which
    /// `keeps` returns true.
    pub(super) fn after_power_loss(&self, mut keeps: impl FnMut() -> bool) -> Vec<u8> {
        let content = self.content();
        let mut bytes = content.synced.clone();
        for step in content.unsynced.iter().filter(|_| keeps()) {
            step.apply(&mut bytes);
        }
        bytes
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.0.lock().unwrap()
    }

    fn change(&self, step: HeadStep) -> io::Result<()> {
        let mut content = self.content();
        content.refuse()?;
        step.apply(&mut content.seen);
        content.unsynced.push(step);
        Ok(())
    }
}

impl Content {
    fn refuse(&mut self) -> io::Result<()> {
        match self.failing {
            None => Ok(()),
            Some(errno) => {
                self.refused += 1;
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.content();
        let end = offset as usize + out.len();
        let found = content.seen.get(offset as usize..end);
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(HeadStep::Resize(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let content = self.content();
        let mut content = self.0.1.wait_while(content, |c| {
            c.waited_for = c.held;
            c.held
        });
        let content = content.as_mut().unwrap();
        content.refuse()?;
        content.syncs += 1;
        content.synced = content.seen.clone();
        content.unsynced.clear();
        match std::mem::take(&mut content.lying) {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => Ok(()),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(HeadStep::Write(offset, data.to_vec()))
    }
}
