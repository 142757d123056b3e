//! The files of the log, and the header that each begins with.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The name of a segment without its generation.
const PREFIX: &str = "bellwether.log.";
const GENERATION_DIGITS: usize = 16;

const MAGIC: [u8; 8] = *b"bwlog\0\0\x01";
const STORE: std::ops::Range<usize> = 8..16;
const GENERATION: std::ops::Range<usize> = 16..24;
const CRC: std::ops::Range<usize> = 24..28;
/// The size of the header of a segment. Groups follow.
pub(super) const HEADER_BYTES: usize = 32;
/// The steps in which a segment grows that was not filled before. A sync of a write that does not
/// grow the file is faster. After each synced group, the file goes on to a multiple of this.
pub(super) const GROWTH_BYTES: u64 = 256 << 10;

/// The directory of the log. The log reaches the disk only through this trait, so that tests can
/// replace the disk.
pub(crate) trait LogFiles: Send + Sync {
    /// Returns the generations of all segments, ascending.
    fn list(&self) -> io::Result<Vec<u64>>;

    /// Returns the content of a segment.
    fn read(&self, generation: u64) -> io::Result<Vec<u8>>;

    /// Creates an empty segment. It exists after a power loss.
    fn create(&self, generation: u64) -> io::Result<Box<dyn SegmentFile>>;

    /// Gives a segment another generation. It has that after a power loss.
    fn rename(&self, generation: u64, new: u64) -> io::Result<Box<dyn SegmentFile>>;

    /// Removes a segment. It may exist again after a power loss.
    fn remove(&self, generation: u64) -> io::Result<()>;

    /// Gives a segment a name that ends in `suffix`, so that it is none of the log any more.
    fn set_aside(&self, generation: u64, suffix: &str) -> io::Result<()>;

    /// Returns the path of a segment, for messages.
    fn path(&self, generation: u64) -> PathBuf;
}

/// An open segment.
pub(crate) trait SegmentFile: Send {
    /// Returns the size in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Writes at a place, which may be beyond the end.
    fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all writes durable.
    fn sync(&self) -> io::Result<()>;
}

/// The log in a directory of the file system.
pub(crate) struct LogDir(PathBuf);

impl LogDir {
    pub(crate) fn new(dir: &Path) -> LogDir {
        LogDir(dir.to_path_buf())
    }

    fn open(&self, generation: u64, options: &mut OpenOptions) -> io::Result<File> {
        let file = options.write(true).mode(0o600).open(self.path(generation))?;
        File::open(&self.0)?.sync_all()?;
        Ok(file)
    }
}

impl LogFiles for LogDir {
    fn list(&self) -> io::Result<Vec<u64>> {
        let mut generations = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            // Another file that begins with the same name is not ours.
            let digits = digits.filter(|digits| digits.len() == GENERATION_DIGITS);
            generations.extend(digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
        }
        generations.sort_unstable();
        Ok(generations)
    }

    fn read(&self, generation: u64) -> io::Result<Vec<u8>> {
        fs::read(self.path(generation))
    }

    fn create(&self, generation: u64) -> io::Result<Box<dyn SegmentFile>> {
        Ok(Box::new(self.open(generation, OpenOptions::new().create_new(true))?))
    }

    fn rename(&self, generation: u64, new: u64) -> io::Result<Box<dyn SegmentFile>> {
        fs::rename(self.path(generation), self.path(new))?;
        Ok(Box::new(self.open(new, &mut OpenOptions::new())?))
    }

    fn remove(&self, generation: u64) -> io::Result<()> {
        fs::remove_file(self.path(generation))
    }

    fn set_aside(&self, generation: u64, suffix: &str) -> io::Result<()> {
        let path = self.path(generation);
        let mut aside = path.clone().into_os_string();
        aside.push(suffix);
        fs::rename(path, aside)?;
        File::open(&self.0)?.sync_all()
    }

    fn path(&self, generation: u64) -> PathBuf {
        self.0.join(format!("{PREFIX}{generation:0GENERATION_DIGITS$x}"))
    }
}

impl SegmentFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, place)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Returns the header of a segment.
pub(super) fn header(store_id: u64, generation: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..MAGIC.len()].copy_from_slice(&MAGIC);
    header[STORE].copy_from_slice(&store_id.to_le_bytes());
    header[GENERATION].copy_from_slice(&generation.to_le_bytes());
    let crc = crc32fast::hash(&header[..CRC.start]);
    header[CRC].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The use of a segment, by its header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Usage {
    /// The segment has groups of its generation.
    InUse,
    /// The segment was prepared and not used yet: it has zeros, or what it had under an earlier
    /// generation.
    Unused,
    /// The segment belongs to the log of another database.
    Foreign,
    /// The header is wrong, for this reason.
    Damaged(&'static str),
}

/// Returns the use of the segment of this generation in the log of a store.
pub(super) fn usage(bytes: &[u8], store_id: u64, generation: u64) -> Usage {
    let start = &bytes[..bytes.len().min(HEADER_BYTES)];
    if start.iter().all(|byte| *byte == 0) {
        return Usage::Unused;
    }
    let Some(found) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Usage::Damaged("it is cut off in its header");
    };
    let crc = crc32fast::hash(&found[..CRC.start]);
    if !found.starts_with(&MAGIC) || found[CRC] != crc.to_le_bytes() {
        return Usage::Damaged("its header is damaged");
    }
    if found[STORE] != store_id.to_le_bytes() {
        return Usage::Foreign;
    }
    match found[GENERATION].as_array().map(|bytes| u64::from_le_bytes(*bytes)) {
        Some(found) if found == generation => Usage::InUse,
        Some(found) if found < generation => Usage::Unused,
        _ => Usage::Damaged("its name is that of an earlier segment"),
    }
}
