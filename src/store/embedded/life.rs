//! The file that says until when a process was able to act, so that a start knows for how long none
//! was.
//!
//! ```text
//!  slot 0: bellwether life 1 <store id> <milliseconds> <crc32> <outages>\n   2,048 bytes
//!  slot 1: the same, older or newer
//! ```
//!
//! The file is written in place. It survives the end of the process. It is synced before the first
//! group of the log after an outage: after a power loss, the next outage counts from the last write
//! that the system made, or from the last group. A slot that was cut off is ignored, and the other
//! one counts.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::domain::outage::Outages;
use crate::domain::time::Timestamp;
use crate::store::moment::{Life, from_text, to_text};

/// The name of the file in the data directory.
pub(super) const FILE_NAME: &str = "bellwether.life";
/// The size of a slot: the longest list of outages fits.
const SLOT_BYTES: usize = 2048;

/// The file.
pub(super) struct LifeFile {
    file: File,
    store_id: u64,
    /// The slot that the next write replaces.
    next: u64,
    /// The outages that this process has synced.
    synced: Arc<Outages>,
}

impl LifeFile {
    /// Opens or creates the file. Returns also what it says about this store.
    pub(super) fn open(dir: &Path, store_id: u64) -> io::Result<(LifeFile, Life)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(dir.join(FILE_NAME))?;
        let [first, second] = [0, 1].map(|slot| read(&file, slot, store_id));
        let (next, life) = match (first, second) {
            (Some(first), Some(second)) if second.alive < first.alive => (1, first),
            (Some(first), None) => (1, first),
            (_, second) => (0, second.unwrap_or_default()),
        };
        Ok((LifeFile { file, store_id, next, synced: Arc::default() }, life))
    }

    /// Writes and syncs the outages unless a power loss leaves them already.
    pub(super) fn keep(&mut self, life: &Life) -> io::Result<()> {
        if *self.synced == *life.outages {
            return Ok(());
        }
        self.write(life)?;
        self.file.sync_data()?;
        self.synced = life.outages.clone();
        Ok(())
    }

    /// Writes the last sign of life and the outages.
    pub(super) fn write(&mut self, life: &Life) -> io::Result<()> {
        let (at, outages) = (life.alive.millis(), to_text(&life.outages));
        let outages = outages.trim_end();
        let sum = checksum(self.store_id, at, outages);
        let line = format!("bellwether life 1 {:016x} {at} {sum:08x} {outages}", self.store_id);
        let mut slot = line.into_bytes();
        slot.resize(SLOT_BYTES - 1, b' ');
        slot.push(b'\n');
        self.file.write_all_at(&slot, self.next * SLOT_BYTES as u64)?;
        self.next = 1 - self.next;
        Ok(())
    }
}

fn read(file: &File, slot: u64, store_id: u64) -> Option<Life> {
    let mut bytes = vec![0; SLOT_BYTES];
    file.read_exact_at(&mut bytes, slot * SLOT_BYTES as u64).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let text = text.strip_prefix(&format!("bellwether life 1 {store_id:016x} "))?;
    let mut words = text.splitn(3, ' ');
    let (at, sum, outages) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let outages = outages.trim_end();
    let is_whole = sum == format!("{:08x}", checksum(store_id, at, outages));
    is_whole.then(|| Life { alive: Timestamp::new(at), outages: Arc::new(from_text(outages)) })
}

fn checksum(store_id: u64, at: u64, outages: &str) -> u32 {
    crc32fast::hash(format!("{store_id:016x} {at} {outages}").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::domain::outage::OUTAGES_MAX;

    fn life(at: u64, outages: usize) -> Life {
        let mut life = Life::default();
        let from = 1_800_000_000_000 + at - 10 * outages as u64;
        (0..=outages as u64).for_each(|n| life.start(Timestamp::new(from + 10 * n)));
        life
    }

    fn found(dir: &Path, store_id: u64) -> (u64, usize) {
        let (_, life) = LifeFile::open(dir, store_id).unwrap();
        (life.alive.millis(), life.outages.iter().count())
    }

    #[test]
    fn the_newest_whole_slot_counts() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(found(dir.path(), 7), (0, 0));
        let (mut file, _) = LifeFile::open(dir.path(), 7).unwrap();
        for n in 1..=3 {
            file.write(&life(n, OUTAGES_MAX)).unwrap();
            assert_eq!(found(dir.path(), 7), (1_800_000_000_000 + n, OUTAGES_MAX));
        }
        // Of another store.
        assert_eq!(found(dir.path(), 8), (0, 0));
        let path = dir.path().join(FILE_NAME);
        let whole = fs::read(&path).unwrap();
        for place in [0, 20, 40, 60, 90, 1000] {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(found(dir.path(), 7).0, 1_800_000_000_002, "byte {place}");
        }
        fs::write(&path, &whole[..SLOT_BYTES]).unwrap();
        let (mut file, _) = LifeFile::open(dir.path(), 7).unwrap();
        assert_eq!(found(dir.path(), 7), (1_800_000_000_003, OUTAGES_MAX));
        file.write(&life(4, 0)).unwrap();
        assert_eq!(found(dir.path(), 7), (1_800_000_000_004, 0));
    }
}
