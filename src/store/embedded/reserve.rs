//! Room on the disk that is kept for deletions: a file of allocated blocks beside the database.
//!
//! ```text
//!  reports --> disk is full --> half of the reserve is given back --> deletions alone are written
//!     ^                                                                        |
//!     '------ the disk, or the database within its file, has room again <------'
//! ```
//!
//! Without it a full disk would refuse what makes room. The file has no content; it may be removed
//! while the server is stopped.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::store::Space;

use super::disk::space_of;

const FILE_NAME: &str = "bellwether.reserve";
/// The size of a whole reserve. To open the database again, what the log has in addition is
/// applied, 16 MiB or twice as much; then come the deletions.
const BYTES_MAX: u64 = 64 << 20;
/// A small disk has a reserve of its size, divided by this number.
const SHARE: u64 = 4;
/// The least room with which a database can be opened and written: a whole reserve, divided by this
/// number.
const ROOM_SHARE: u64 = 4;
/// The unit in which the reserve shrinks and grows.
const BLOCK_BYTES: u64 = 4096;

/// The reserve of a data directory.
#[derive(Debug, Clone)]
pub(super) struct Reserve {
    dir: PathBuf,
    file: PathBuf,
}

impl Reserve {
    pub(super) fn new(dir: &Path) -> Reserve {
        Reserve { dir: dir.to_path_buf(), file: dir.join(FILE_NAME) }
    }

    /// Returns the least room with which a database can be written.
    pub(super) fn room(&self) -> u64 {
        space_of(&self.dir).map_or(0, |space| whole(&space) / ROOM_SHARE)
    }

    /// Returns whether the disk has less room than a whole reserve: a write that failed had none.
    pub(super) fn is_low(&self) -> bool {
        space_of(&self.dir).is_some_and(|space| space.free < whole(&space))
    }

    /// Returns whether the disk has no room to open and write a database.
    pub(super) fn is_out(&self) -> bool {
        space_of(&self.dir).is_some_and(|space| space.free < whole(&space) / ROOM_SHARE)
    }

    /// Makes the reserve whole, if the disk has as much room beside it. Returns whether it is.
    pub(super) fn fill(&self) -> bool {
        let Some(space) = space_of(&self.dir) else { return false };
        let (whole, held) = (whole(&space), self.held());
        if whole <= held {
            return whole <= space.free;
        }
        if space.free < 2 * whole - held {
            return false;
        }
        let filled = self.allocate(whole);
        if let Err(error) = &filled {
            tracing::debug!(%error, "the reserve of the disk is not whole");
            let _ = self.cut(held);
        }
        filled.is_ok()
    }

    /// Gives half of what is left back to the disk, if it has no room.
    pub(super) fn release(&self) {
        let held = self.held();
        if held == 0 || !self.is_out() {
            return;
        }
        let left = held / 2 / BLOCK_BYTES * BLOCK_BYTES;
        match self.cut(left) {
            Ok(()) => tracing::warn!(
                bytes = held - left,
                left_bytes = left,
                "the disk is full: a part of the reserve is given back"
            ),
            Err(error) => tracing::warn!(%error, "the reserve of the disk cannot be given back"),
        }
    }

    fn held(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |file| file.len())
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.file)
    }

    fn cut(&self, bytes: u64) -> io::Result<()> {
        self.open()?.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let file = self.open()?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            // Some file systems allocate what is written alone.
            Err(Errno::OPNOTSUPP) => {
                let zeros = [0; BLOCK_BYTES as usize];
                (0..bytes).step_by(zeros.len()).try_for_each(|at| file.write_all_at(&zeros, at))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn whole(space: &Space) -> u64 {
    (space.capacity / SHARE).min(BYTES_MAX) / BLOCK_BYTES * BLOCK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_filled_and_kept_while_there_is_room() {
        let dir = tempfile::TempDir::new().unwrap();
        let reserve = Reserve::new(dir.path());
        assert!(!reserve.is_low() && !reserve.is_out(), "this test needs a disk with some room");
        assert!(reserve.fill() && reserve.fill());
        let whole = ROOM_SHARE * reserve.room();
        assert_eq!(reserve.held(), whole);
        reserve.release();
        assert_eq!(reserve.held(), whole, "the disk has room");
        reserve.cut(BLOCK_BYTES).unwrap();
        assert!(reserve.fill());
        assert_eq!(reserve.held(), whole);
    }

    #[test]
    fn a_small_disk_has_a_small_reserve() {
        let of = |capacity| whole(&Space { free: 0, capacity, is_low: true });
        assert_eq!(of(6 << 20), 1536 << 10);
        assert_eq!(of(1 << 40), BYTES_MAX);
        assert_eq!(of(1000), 0);
    }
}
