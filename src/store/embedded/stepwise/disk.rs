//! A disk in memory that can be full, fail, and lose unsynced writes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use redb::{Builder, StorageBackend};

use crate::store::embedded::file::Files;
use crate::store::embedded::limits::Limits;
#[cfg(test)]
use crate::store::embedded::log::LogDir;
use crate::store::embedded::log::{LogFiles, SegmentFile};

/// The error number of a full disk.
#[cfg(test)]
pub(crate) const ENOSPC: i32 = 28;
/// The error number of a failing disk.
const EIO: i32 = 5;
/// The unit that a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// A disk in memory. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<(Mutex<Content>, Condvar)>);

#[derive(Debug, Default)]
struct Content {
    database: FileContent,
    segments: BTreeMap<u64, FileContent>,
    failing: Option<i32>,
    failing_database: Option<i32>,
    steps: usize,
    freeze_at: Option<usize>,
    frozen: Option<(FileContent, BTreeMap<u64, FileContent>)>,
    lying: bool,
    refuses_syncs: bool,
    held: bool,
    waited_for: bool,
    syncs: usize,
    refused: usize,
}

#[derive(Debug, Clone, Default)]
struct FileContent {
    /// The content as a process reads it.
    seen: Vec<u8>,
    /// The content at the last sync.
    synced: Vec<u8>,
    /// The writes since the last sync.
    unsynced: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    Resize(u64),
    Write(u64, Vec<u8>),
}

impl Step {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Step::Resize(len) => bytes.resize(*len as usize, 0),
            Step::Write(at, data) => {
                let (at, end) = (*at as usize, *at as usize + data.len());
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[at..end].copy_from_slice(data);
            }
        }
    }

    /// Returns the parts that a disk writes one by one.
    fn sectors(&self) -> Vec<Step> {
        let Step::Write(at, data) = self else { return vec![self.clone()] };
        let mut sectors = Vec::new();
        let mut place = *at as usize;
        let end = place + data.len();
        while place < end {
            let next = end.min((place + 1).next_multiple_of(SECTOR_BYTES));
            let from = place - *at as usize;
            sectors.push(Step::Write(place as u64, data[from..from + next - place].to_vec()));
            place = next;
        }
        sectors
    }
}

impl FileContent {
    fn change(&mut self, step: Step) {
        step.apply(&mut self.seen);
        self.unsynced.push(step);
    }

    fn sync(&mut self) {
        for step in self.unsynced.drain(..) {
            step.apply(&mut self.synced);
        }
    }

    fn after_power_loss(&self, keeps: &mut impl FnMut() -> bool) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for sector in self.unsynced.iter().flat_map(Step::sectors).filter(|_| keeps()) {
            sector.apply(&mut bytes);
        }
        bytes
    }
}

/// The files after a power loss.
pub struct Image {
    pub(crate) database: Vec<u8>,
    pub(crate) segments: BTreeMap<u64, Vec<u8>>,
}

impl Image {
    /// Returns the segments of the log by their generations.
    pub fn segments(&self) -> &BTreeMap<u64, Vec<u8>> {
        &self.segments
    }
}

#[cfg(test)]
impl Image {
    /// Returns the files in a directory, as a crash of the process leaves them.
    pub(in crate::store::embedded) fn of(dir: &Path) -> Image {
        let log = LogDir::new(dir);
        let read = |generation| (generation, log.read(generation).unwrap());
        Image {
            database: std::fs::read(dir.join("bellwether.redb")).unwrap(),
            segments: log.list().unwrap().into_iter().map(read).collect(),
        }
    }

    /// Writes the files into a directory.
    pub(in crate::store::embedded) fn write(&self, dir: &Path) {
        std::fs::write(dir.join("bellwether.redb"), &self.database).unwrap();
        for (generation, bytes) in &self.segments {
            std::fs::write(LogDir::new(dir).path(*generation), bytes).unwrap();
        }
    }
}

impl Disk {
    /// Returns a disk with the files of an image.
    pub fn of(image: &Image) -> Disk {
        let file = |bytes: &Vec<u8>| FileContent {
            seen: bytes.clone(),
            synced: bytes.clone(),
            unsynced: Vec::new(),
        };
        let content = Content {
            database: file(&image.database),
            segments: image.segments.iter().map(|(n, bytes)| (*n, file(bytes))).collect(),
            ..Content::default()
        };
        Disk(Arc::new((Mutex::new(content), Condvar::new())))
    }

    /// Returns the files as the process sees them: what the end of the process leaves.
    pub fn after_kill(&self) -> Image {
        let content = self.content();
        let seen = content.segments.iter().map(|(n, file)| (*n, file.seen.clone())).collect();
        Image { database: content.database.seen.clone(), segments: seen }
    }

    /// Changes a byte of a segment; a second call changes it back. Returns whether it is there.
    pub fn damage(&self, segment: u64, place: usize) -> bool {
        let mut content = self.content();
        let Some(file) = content.segments.get_mut(&segment) else { return false };
        let bytes = [&mut file.seen, &mut file.synced];
        let found = bytes.into_iter().filter_map(|bytes| bytes.get_mut(place));
        0 < found.map(|byte| *byte ^= 0x55).count()
    }

    /// Makes syncs fail, but no writes.
    pub fn refuse_syncs(&self, refuses: bool) {
        self.content().refuses_syncs = refuses;
    }

    /// Returns functions that open this disk instead of the files. The first call copies the
    /// database.
    #[cfg(test)]
    pub(in crate::store::embedded) fn files(&self) -> Files {
        self.files_with(Limits::default())
    }

    /// Returns the functions with other limits.
    pub(in crate::store::embedded) fn files_with(&self, limits: Limits) -> Files {
        let disk = self.clone();
        let open_file = move |builder: &Builder, path: &Path| {
            if disk.content().database.seen.is_empty() {
                let bytes = std::fs::read(path)?;
                let mut content = disk.content();
                content.database.seen.clone_from(&bytes);
                content.database.synced = bytes;
            }
            builder.create_with_backend(disk.clone())
        };
        Files { open_file: Arc::new(open_file), log: Arc::new(self.clone()), limits }
    }

    /// Makes every write to the database fail with this error number; `None` ends that.
    pub fn fail_database(&self, errno: Option<i32>) {
        self.content().failing_database = errno;
    }

    /// Keeps the files as they are after a number of steps from now. A step is a write, a sync, or
    /// a change of the directory.
    pub fn freeze_after(&self, steps: usize) {
        let mut content = self.content();
        content.freeze_at = Some(content.steps + steps);
        content.frozen = None;
    }

    /// Returns the frozen files: as the process sees them, and as a disk without power keeps them.
    /// Returns `None` if fewer steps were made.
    pub fn frozen(&self, keeps: impl FnMut() -> bool) -> Option<(Image, Image)> {
        let content = self.content();
        let (database, segments) = content.frozen.as_ref()?;
        let seen = segments.iter().map(|(n, file)| (*n, file.seen.clone())).collect();
        let killed = Image { database: database.seen.clone(), segments: seen };
        Some((killed, mk_image(database, segments, keeps)))
    }

    /// Returns whether the files are frozen.
    pub fn is_frozen(&self) -> bool {
        self.content().frozen.is_some()
    }

    /// Makes every write fail with this error number; `None` ends that.
    pub fn fail(&self, errno: Option<i32>) {
        self.content().failing = errno;
    }

    /// Blocks syncs while `held` is true.
    #[cfg(test)]
    pub(in crate::store::embedded) fn hold(&self, held: bool) {
        self.content().held = held;
        self.0.1.notify_all();
    }

    /// Returns whether a sync is blocked.
    #[cfg(test)]
    pub(in crate::store::embedded) fn is_waited_for(&self) -> bool {
        self.content().waited_for
    }

    /// Returns the number of complete syncs.
    #[cfg(test)]
    pub(in crate::store::embedded) fn syncs(&self) -> usize {
        self.content().syncs
    }

    /// Makes the next sync succeed but report an error.
    pub fn lie_once(&self) {
        self.content().lying = true;
    }

    /// Returns the number of refused operations.
    #[cfg(test)]
    pub(in crate::store::embedded) fn refused(&self) -> usize {
        self.content().refused
    }

    /// Returns the files after a power loss: all synced writes, and each sector of unsynced writes
    /// for which `keeps` returns true.
    pub fn after_power_loss(&self, keeps: impl FnMut() -> bool) -> Image {
        let content = self.content();
        mk_image(&content.database, &content.segments, keeps)
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.0.lock().unwrap()
    }

    fn change(&self, file: FileId, step: Step) -> io::Result<()> {
        let mut content = self.content();
        content.begin_step()?;
        content.refuse_database(file)?;
        content.file(file)?.change(step);
        Ok(())
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        let content = self.content();
        let mut content = self.0.1.wait_while(content, |c| {
            c.waited_for = c.held;
            c.held
        });
        let content = content.as_mut().unwrap();
        content.begin_step()?;
        if content.refuses_syncs {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        content.syncs += 1;
        content.file(file)?.sync();
        match std::mem::take(&mut content.lying) {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => Ok(()),
        }
    }
}

fn mk_image(
    database: &FileContent,
    segments: &BTreeMap<u64, FileContent>,
    mut keeps: impl FnMut() -> bool,
) -> Image {
    Image {
        database: database.after_power_loss(&mut keeps),
        segments: segments.iter().map(|(n, f)| (*n, f.after_power_loss(&mut keeps))).collect(),
    }
}

#[derive(Debug, Clone, Copy)]
enum FileId {
    Database,
    Segment(u64),
}

impl Content {
    /// Counts a step, and refuses it if the disk fails.
    fn begin_step(&mut self) -> io::Result<()> {
        if self.freeze_at == Some(self.steps) && self.frozen.is_none() {
            self.frozen = Some((self.database.clone(), self.segments.clone()));
        }
        self.steps += 1;
        match self.failing {
            None => Ok(()),
            Some(errno) => {
                self.refused += 1;
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    fn refuse_database(&mut self, file: FileId) -> io::Result<()> {
        match (file, self.failing_database) {
            (FileId::Database, Some(errno)) => {
                self.refused += 1;
                Err(io::Error::from_raw_os_error(errno))
            }
            _ => Ok(()),
        }
    }

    fn file(&mut self, file: FileId) -> io::Result<&mut FileContent> {
        match file {
            FileId::Database => Ok(&mut self.database),
            FileId::Segment(n) => self.segments.get_mut(&n).ok_or(io::ErrorKind::NotFound.into()),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content().database.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.content();
        let end = offset as usize + out.len();
        let found = content.database.seen.get(offset as usize..end);
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(FileId::Database, Step::Resize(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(FileId::Database)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(FileId::Database, Step::Write(offset, data.to_vec()))
    }
}

/// A change of the directory is durable when it returns.
impl LogFiles for Disk {
    fn list(&self) -> io::Result<Vec<u64>> {
        Ok(self.content().segments.keys().copied().collect())
    }

    fn read(&self, generation: u64) -> io::Result<Vec<u8>> {
        Ok(self.content().file(FileId::Segment(generation))?.seen.clone())
    }

    fn create(&self, generation: u64) -> io::Result<Box<dyn SegmentFile>> {
        let mut content = self.content();
        content.begin_step()?;
        let old = content.segments.insert(generation, FileContent::default());
        assert!(old.is_none(), "segment {generation} exists");
        Ok(Box::new(Open(self.clone(), generation)))
    }

    fn rename(&self, generation: u64, new: u64) -> io::Result<Box<dyn SegmentFile>> {
        let mut content = self.content();
        content.begin_step()?;
        let file = content.segments.remove(&generation).ok_or(io::ErrorKind::NotFound)?;
        let old = content.segments.insert(new, file);
        assert!(old.is_none(), "segment {new} exists");
        Ok(Box::new(Open(self.clone(), new)))
    }

    fn remove(&self, generation: u64) -> io::Result<()> {
        let mut content = self.content();
        content.begin_step()?;
        let removed = content.segments.remove(&generation);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn set_aside(&self, generation: u64, _: &str) -> io::Result<()> {
        self.remove(generation)
    }

    fn path(&self, generation: u64) -> PathBuf {
        PathBuf::from(format!("segment-{generation}"))
    }
}

struct Open(Disk, u64);

impl SegmentFile for Open {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.content().file(FileId::Segment(self.1))?.seen.len() as u64)
    }

    fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.change(FileId::Segment(self.1), Step::Write(place, bytes.to_vec()))
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync(FileId::Segment(self.1))
    }
}
