//! A file of which only a copy in memory is changed, so that an examination reads a database that
//! redb must repair first.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use redb::StorageBackend;

use crate::sync::lock;

const PAGE_BYTES: usize = 4096;
type Page = Box<[u8; PAGE_BYTES]>;

/// A file with changes in memory. Only the changed pages take memory.
#[derive(Debug)]
pub(super) struct Overlay {
    file: File,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// The bytes of the file that were never cut off.
    kept: u64,
    pages: BTreeMap<u64, Page>,
}

impl Overlay {
    /// Opens a file for reading.
    pub(super) fn open(path: &Path) -> io::Result<Overlay> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let changes = Changes { length, kept: length, pages: BTreeMap::new() };
        Ok(Overlay { file, changes: Mutex::new(changes) })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        lock(&self.changes)
    }

    /// Returns a page as the file has it.
    fn original(&self, number: u64, kept: u64) -> io::Result<Page> {
        let start = number * PAGE_BYTES as u64;
        let mut page = Box::new([0; PAGE_BYTES]);
        let length = kept.saturating_sub(start).min(PAGE_BYTES as u64) as usize;
        self.file.read_exact_at(&mut page[..length], start)?;
        Ok(page)
    }
}

/// Returns the parts of pages that a range of the file consists of: the number of the page, the
/// part of it, and the part of the range.
fn parts(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (u64, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = (at % PAGE_BYTES as u64) as usize;
        let size = (PAGE_BYTES - start).min(length - done);
        let part = (at / PAGE_BYTES as u64, start..start + size, done..done + size);
        done += size;
        (size != 0).then_some(part)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        if changes.length < offset + out.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (number, of_page, of_range) in parts(offset, out.len()) {
            let to = &mut out[of_range];
            match changes.pages.get(&number) {
                Some(page) => to.copy_from_slice(&page[of_page]),
                None => to.copy_from_slice(&self.original(number, changes.kept)?[of_page]),
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changes = self.changes();
        let first_gone = length.div_ceil(PAGE_BYTES as u64);
        changes.pages.split_off(&first_gone);
        let cut = (length % PAGE_BYTES as u64) as usize;
        if let Some(page) = changes.pages.get_mut(&(length / PAGE_BYTES as u64)) {
            page[cut..].fill(0);
        }
        changes.kept = changes.kept.min(length);
        changes.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        for (number, of_page, of_range) in parts(offset, data.len()) {
            if !changes.pages.contains_key(&number) {
                let page = self.original(number, changes.kept)?;
                changes.pages.insert(number, page);
            }
            if let Some(page) = changes.pages.get_mut(&number) {
                page[of_page].copy_from_slice(&data[of_range]);
            }
        }
        changes.length = changes.length.max(offset + data.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_stay_in_memory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let original = vec![7; 3 * PAGE_BYTES + 100];
        std::fs::write(file.path(), &original).unwrap();
        let overlay = Overlay::open(file.path()).unwrap();
        let mut expected = original.clone();
        let mut check = |change: &dyn Fn(&Overlay, &mut Vec<u8>)| {
            change(&overlay, &mut expected);
            let mut found = vec![0; overlay.len().unwrap() as usize];
            overlay.read(0, &mut found).unwrap();
            assert!(found == expected);
        };
        check(&|_, _| {});
        check(&|overlay, expected| {
            let (at, data) = (PAGE_BYTES - 3, [1; PAGE_BYTES + 9]);
            overlay.write(at as u64, &data).unwrap();
            expected[at..at + data.len()].copy_from_slice(&data);
        });
        for length in [PAGE_BYTES + 50, 2 * PAGE_BYTES, 3 * PAGE_BYTES + 100, 5 * PAGE_BYTES] {
            check(&|overlay, expected| {
                overlay.set_len(length as u64).unwrap();
                expected.resize(length, 0);
            });
        }
        let end = overlay.len().unwrap();
        assert!(overlay.read(end - 1, &mut [0; 2]).is_err());
        assert_eq!(std::fs::read(file.path()).unwrap(), original);
    }
}
