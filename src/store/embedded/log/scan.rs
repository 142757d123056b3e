//! Reads the log at a start: the groups that the database does not have.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::append::Log;
use super::group::{self, ALIGNMENT};
use super::segment::{self, HEADER_BYTES, LogFiles, Usage};
use super::set::Segments;

/// Why the log cannot be used.
#[derive(Debug)]
pub(in crate::store::embedded) enum ScanError {
    /// The operating system refused.
    Io(io::Error),
    /// A segment is damaged.
    Damaged { segment: PathBuf, reason: String },
}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> ScanError {
        ScanError::Io(error)
    }
}

/// The log of a database that was not closed.
pub(in crate::store::embedded) struct Scan {
    files: Arc<dyn LogFiles>,
    store_id: u64,
    /// The generations of all segments.
    generations: Vec<u64>,
    /// The number of segments that were read.
    read: usize,
    /// The sequence of the next group to apply.
    next: u64,
}

/// The groups of one segment that the database does not have.
pub(in crate::store::embedded) struct FoundGroups {
    /// The path of the segment, for messages.
    pub(in crate::store::embedded) segment: PathBuf,
    bytes: Vec<u8>,
    ops: Vec<Range<usize>>,
    /// The sequence of the last group.
    pub(in crate::store::embedded) last: u64,
}

impl FoundGroups {
    /// Returns the operations of each group, in order.
    pub(in crate::store::embedded) fn ops(&self) -> impl Iterator<Item = &[u8]> {
        self.ops.iter().map(|range| &self.bytes[range.clone()])
    }
}

impl Scan {
    /// Starts with the group after `applied`, the last one that the database has.
    pub(in crate::store::embedded) fn new(
        files: Arc<dyn LogFiles>,
        store_id: u64,
        applied: u64,
    ) -> io::Result<Scan> {
        let generations = files.list()?;
        Ok(Scan { files, store_id, generations, read: 0, next: applied + 1 })
    }

    /// Returns the groups of the next segment that has any.
    pub(in crate::store::embedded) fn next_groups(
        &mut self,
    ) -> Result<Option<FoundGroups>, ScanError> {
        while let Some(&generation) = self.generations.get(self.read) {
            self.read += 1;
            let bytes = self.files.read(generation)?;
            match segment::usage(&bytes, self.store_id, generation) {
                Usage::InUse => {}
                Usage::Unused => continue,
                Usage::Foreign => {
                    let reason = "it belongs to another database".to_string();
                    return Err(self.damaged(generation, reason));
                }
            }
            let found = self.read_segment(generation, bytes)?;
            if !found.ops.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn read_segment(&mut self, generation: u64, bytes: Vec<u8>) -> Result<FoundGroups, ScanError> {
        let mut ops = Vec::new();
        let mut place = HEADER_BYTES;
        while let Some(found) = group::parse(bytes.get(place..).unwrap_or_default(), generation) {
            if self.next < found.sequence {
                let (next, first) = (self.next, found.sequence);
                let reason = format!("it goes on with group {first}, and group {next} is missing");
                return Err(self.damaged(generation, reason));
            }
            if self.next == found.sequence {
                let end = place + found.size;
                let start = place + (found.size - found.ops.len().next_multiple_of(ALIGNMENT));
                ops.push(start..start + found.ops.len());
                debug_assert!(ops.last().is_some_and(|range| range.end <= end));
                self.next += 1;
            }
            place += found.size;
        }
        self.check_rest(generation, &bytes, place)?;
        let segment = self.files.path(generation);
        Ok(FoundGroups { segment, bytes, ops, last: self.next - 1 })
    }

    /// Checks what follows the last intact group. Each group was synced before the next one was
    /// written, so a loss of power damages the last one alone.
    fn check_rest(&self, generation: u64, bytes: &[u8], place: usize) -> Result<(), ScanError> {
        let is_later = |place: &usize| {
            let found = group::parse(&bytes[*place..], generation);
            found.is_some_and(|found| self.next <= found.sequence)
        };
        if let Some(later) = (place..bytes.len()).step_by(ALIGNMENT).find(is_later) {
            let reason = format!(
                "the group at byte {place} is damaged, and the group at byte {later} is intact"
            );
            return Err(self.damaged(generation, reason));
        }
        if group::begins(bytes.get(place..).unwrap_or_default(), generation) {
            let segment = self.files.path(generation);
            tracing::warn!(
                segment = %segment.display(), place,
                "the last group of the log is incomplete and is removed; after a crash it was not \
                 acknowledged yet"
            );
        }
        Ok(())
    }

    fn damaged(&self, generation: u64, reason: String) -> ScanError {
        ScanError::Damaged { segment: self.files.path(generation), reason }
    }

    /// Returns the log that continues after the last group, without its former segments: the
    /// database has all groups.
    pub(in crate::store::embedded) fn begin(self, segment_bytes: u64) -> io::Result<Log> {
        for &generation in &self.generations {
            self.files.remove(generation)?;
        }
        let newest = self.generations.last().copied().unwrap_or_default();
        let segments = Segments::new(self.files, self.store_id, newest, segment_bytes);
        Ok(Log::new(Arc::new(segments), self.next))
    }
}
