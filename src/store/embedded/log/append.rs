//! Appends groups to the newest segment, each with a sync.

use std::io;
use std::sync::Arc;

use super::group::{self, LogGroup};
use super::segment::{self, GROWTH_BYTES, SegmentFile};
use super::set::{Segment, Segments};

/// The end of the log. After an error it must be discarded: the last group may be on disk or not.
pub(crate) struct Log {
    pub(crate) segments: Arc<Segments>,
    end: Option<End>,
    /// The sequence of the next group.
    next: u64,
}

/// The end of the newest segment.
struct End {
    generation: u64,
    file: Box<dyn SegmentFile>,
    place: u64,
    allocated: u64,
    /// The place at which the log asks for the next segment.
    ask_at: u64,
}

impl Log {
    pub(super) fn new(segments: Arc<Segments>, next: u64) -> Log {
        Log { segments, end: None, next }
    }

    /// Creates the first segment, so that the log exists before it has a group.
    pub(crate) fn create(&mut self) -> io::Result<()> {
        if self.end.is_none() {
            let first = self.segments.first()?;
            self.end = Some(self.begin(first)?);
        }
        Ok(())
    }

    /// Appends a group and syncs it. Returns its sequence, and whether the next segment must be
    /// prepared now.
    pub(crate) fn append(&mut self, group: &mut LogGroup) -> io::Result<(u64, bool)> {
        let (sequence, step) = (self.next, self.segments.segment_bytes / 2);
        self.create()?;
        self.make_room(group)?;
        let end = self.end.as_mut().ok_or(io::ErrorKind::NotFound)?;
        group.seal(end.generation, sequence);
        end.append(group.bytes())?;
        let asks = end.ask_at < end.place;
        if asks {
            end.ask_at += step;
            self.segments.want_spare();
        }
        self.next += 1;
        Ok((sequence, asks))
    }

    /// Goes on in the next segment if a group does not fit into the newest one.
    fn make_room(&mut self, group: &LogGroup) -> io::Result<()> {
        let Some(end) = &self.end else { return Ok(()) };
        if end.has_room(group, self.segments.segment_bytes) {
            return Ok(());
        }
        let last = self.next - 1;
        if let Some(next) = self.segments.exchange(end.generation, last) {
            // The next segment is open before this one names it, and has no group before that: a
            // start can tell whether a segment is missing.
            let next = self.begin(next)?;
            end.close(last)?;
            self.end = Some(next);
        }
        Ok(())
    }

    /// Writes the header and the opening of a segment, and syncs them.
    fn begin(&self, Segment { generation, file }: Segment) -> io::Result<End> {
        let found = file.size()?;
        let allocated = found.max(GROWTH_BYTES.min(self.segments.segment_bytes)).max(START_BYTES);
        if found < allocated {
            // The file has its least size before the opening says so: the disk may be full.
            file.write_at(found, &vec![0; (allocated - found) as usize])?;
            file.sync()?;
        }
        let mut start = segment::header(self.segments.store_id, generation).to_vec();
        let opening = LogGroup::opening(generation, self.next - 1, allocated);
        start.extend_from_slice(opening.bytes());
        let place = start.len() as u64;
        file.write_at(0, &start)?;
        file.sync()?;
        let ask_at = self.segments.segment_bytes / 2;
        Ok(End { generation, file, place, allocated, ask_at })
    }
}

/// The size of a header and of an opening, with some room.
const START_BYTES: u64 = 512;

impl End {
    /// Returns whether the segment has room for a group and for its closing.
    fn has_room(&self, group: &LogGroup, segment_bytes: u64) -> bool {
        self.place + (group.bytes().len() + group::HEADER_BYTES) as u64 <= segment_bytes
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let place = self.place + bytes.len() as u64;
        self.file.write_at(self.place, bytes)?;
        if self.allocated <= place {
            // Zeros follow each group, so that a start can tell whether the file was cut off. They
            // also make the next sync faster.
            let grown = (place + 1).next_multiple_of(GROWTH_BYTES);
            self.file.write_at(place, &vec![0; (grown - place) as usize])?;
            self.allocated = grown;
        }
        self.file.sync()?;
        self.place = place;
        Ok(())
    }

    /// Writes that another segment continues this one.
    fn close(&self, last: u64) -> io::Result<()> {
        self.file.write_at(self.place, LogGroup::closing(self.generation, last).bytes())?;
        self.file.sync()
    }
}
