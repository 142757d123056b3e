//! Appends groups to the newest segment, each with a sync.

use std::io;
use std::sync::Arc;

use super::group::LogGroup;
use super::segment::{self, HEADER_BYTES, SegmentFile};
use super::set::{Segment, Segments};

/// The steps in which a segment grows that was not filled before. A sync of a write that does not
/// grow the file is faster.
const GROWTH_BYTES: u64 = 256 << 10;

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

    /// Appends a group and syncs it. Returns its sequence, and whether the next segment must be
    /// prepared now.
    pub(crate) fn append(&mut self, group: &mut LogGroup) -> io::Result<(u64, bool)> {
        let (sequence, step) = (self.next, self.segments.segment_bytes / 2);
        let end = self.end_for(group)?;
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

    /// Returns the place for a group: in the newest segment, or in the next one if that is full.
    fn end_for(&mut self, group: &LogGroup) -> io::Result<&mut End> {
        let last = self.next - 1;
        let next = match &self.end {
            None => Some(self.segments.first()?),
            Some(end) if end.has_room(group, self.segments.segment_bytes) => None,
            Some(end) => self.segments.exchange(end.generation, last),
        };
        if let Some(next) = next {
            let header = segment::header(self.segments.store_id, next.generation);
            self.end = Some(End::begin(next, &header, self.segments.segment_bytes)?);
        }
        self.end.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl End {
    fn begin(segment: Segment, header: &[u8], segment_bytes: u64) -> io::Result<End> {
        let Segment { generation, file } = segment;
        let allocated = file.size()?;
        file.write_at(0, header)?;
        let (place, ask_at) = (HEADER_BYTES as u64, segment_bytes / 2);
        Ok(End { generation, file, place, allocated, ask_at })
    }

    fn has_room(&self, group: &LogGroup, segment_bytes: u64) -> bool {
        self.place + group.bytes().len() as u64 <= segment_bytes
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let place = self.place + bytes.len() as u64;
        self.file.write_at(self.place, bytes)?;
        if self.allocated < place {
            let grown = place.next_multiple_of(GROWTH_BYTES);
            let zeros = vec![0; (grown - place) as usize];
            // Without the zeros the next sync is slower. That they do not fit is no error of this
            // group.
            self.allocated = self.file.write_at(place, &zeros).map_or(place, |()| grown);
        }
        self.file.sync()?;
        self.place = place;
        Ok(())
    }
}
