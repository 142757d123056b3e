//! Reads the log at a start: the groups that the database does not have.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::store::embedded::read::ReadFailure;

use super::append::Log;
use super::group::{self, ALIGNMENT};
use super::segment::{self, HEADER_BYTES, LogFiles, Usage};
use super::set::Segments;

/// The log of a database that was not closed.
pub(crate) struct Scan {
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
pub(crate) struct FoundGroups {
    /// The path of the segment, for messages.
    pub(crate) segment: PathBuf,
    bytes: Vec<u8>,
    ops: Vec<Range<usize>>,
    /// The sequence of the last group.
    pub(crate) last: u64,
}

impl FoundGroups {
    /// Returns the operations of each group, in order.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &[u8]> {
        self.ops.iter().map(|range| &self.bytes[range.clone()])
    }
}

impl Scan {
    /// Starts with the group after `applied`, the last one that the database has.
    pub(crate) fn new(files: Arc<dyn LogFiles>, store_id: u64, applied: u64) -> io::Result<Scan> {
        Ok(Scan { generations: files.list()?, files, store_id, read: 0, next: applied + 1 })
    }

    /// Returns the groups of the next segment that has any.
    pub(crate) fn next_groups(&mut self) -> Result<Option<FoundGroups>, ReadFailure> {
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

    fn read_segment(
        &mut self,
        generation: u64,
        bytes: Vec<u8>,
    ) -> Result<FoundGroups, ReadFailure> {
        let mut ops = Vec::new();
        let mut place = HEADER_BYTES;
        while let Some(found) = group::parse(bytes.get(place..).unwrap_or_default(), generation) {
            if self.next < found.sequence {
                let (next, first) = (self.next, found.sequence);
                let reason = format!("it goes on with group {first}, and group {next} is missing");
                return Err(self.damaged(generation, reason));
            }
            if self.next == found.sequence {
                ops.push(place + found.ops.start..place + found.ops.end);
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
    fn check_rest(&self, generation: u64, bytes: &[u8], place: usize) -> Result<(), ReadFailure> {
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

    fn damaged(&self, generation: u64, reason: String) -> ReadFailure {
        ReadFailure::Segment { path: self.files.path(generation), reason }
    }

    /// Returns the log that continues after the last group, without its former segments: the
    /// database has all groups.
    pub(crate) fn begin(self, segment_bytes: u64) -> io::Result<Log> {
        for &generation in &self.generations {
            self.files.remove(generation)?;
        }
        let newest = self.generations.last().copied().unwrap_or_default();
        let segments = Segments::new(self.files, self.store_id, newest, segment_bytes);
        Ok(Log::new(Arc::new(segments), self.next))
    }
}
