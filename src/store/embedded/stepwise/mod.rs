//! The store without threads, over a disk in memory: its caller decides when the store writes and
//! applies. The simulation runs the store like this.
//!
//! ```text
//!  EmbeddedStore::commit --> queue --> Steps::write --> log --> answer
//!                                        '--> backlog --> Steps::apply --> redb
//! ```

mod disk;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::time::Timestamp;

use super::limits::Limits;
use super::writer::Writer;
use super::{EmbeddedStore, OpenError, Options};

#[cfg(test)]
pub(in crate::store::embedded) use disk::ENOSPC;
pub use disk::{Disk, Image};

/// Limits with which a short run fills segments, and makes the database durable often.
pub(super) const SMALL: Limits = Limits {
    segment_bytes: 8 << 10,
    durable_bytes: 4 << 10,
    durable_after: Duration::from_secs(10),
    apply_bytes: 1 << 10,
    bytes_max: 16 << 10,
};

/// The work of a store, in steps.
pub struct Steps {
    writer: Writer,
    stepped: Arc<Notify>,
}

impl Steps {
    /// Opens the store of a directory without threads, with its database and its log on a disk in
    /// memory. `wall` is the time of the wall clock.
    ///
    /// # Errors
    ///
    /// As [`EmbeddedStore::open`].
    pub fn open(
        dir: &Path,
        options: Options,
        disk: &Disk,
        wall: Timestamp,
    ) -> Result<(EmbeddedStore, Steps), OpenError> {
        let stepped = Arc::new(Notify::new());
        let (files, notified) = (disk.files_with(SMALL), Some(stepped.clone()));
        let (store, writer) = EmbeddedStore::prepare(dir, options, files, || wall, notified)?;
        Ok((store, Steps { writer, stepped }))
    }

    /// Stands still, as a writer whose disk does not answer.
    pub fn stall(&mut self) {
        self.writer.begin();
    }

    /// Writes what is queued, opens the database again after an error, and writes signs of life, as
    /// far as each is due.
    pub fn write(&mut self) {
        self.writer.step();
        self.stepped.notify_waiters();
    }

    /// Brings groups of the log into the database, if it is due. Returns whether it was.
    pub fn apply(&mut self) -> bool {
        let applied = self.writer.step_applier();
        self.stepped.notify_waiters();
        applied
    }

    /// Closes the store: everything is applied, and the log is removed.
    pub fn finish(mut self) {
        self.writer.finish();
        self.stepped.notify_waiters();
    }
}
