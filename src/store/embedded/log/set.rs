//! The segments of the log: which are in use, and which can be used again.
//!
//! The writer appends to the newest segment. The applier frees the segments whose groups are
//! durable in the database, and prepares the next one, because to create a file takes long while
//! the disk is busy.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::sync::lock;

use super::segment::{LogFiles, SegmentFile};

/// The size of the writes that fill a new segment with zeros.
const BLOCK_BYTES: u64 = 4096;

/// A segment to append to.
pub(super) struct Segment {
    pub(super) generation: u64,
    pub(super) file: Box<dyn SegmentFile>,
}

/// The segments of a log. The writer and the applier share them.
pub(crate) struct Segments {
    files: Arc<dyn LogFiles>,
    pub(super) store_id: u64,
    /// The size after which the writer takes the next segment.
    pub(super) segment_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The generation of the next segment.
    next: u64,
    /// The generation that the writer appends to.
    current: Option<u64>,
    /// The full segments, oldest first, each with the sequence of its last group.
    full: VecDeque<(u64, u64)>,
    spare: Option<Segment>,
    is_spare_wanted: bool,
}

impl Segments {
    /// Makes the set of a log whose newest segment so far has the generation `newest`.
    pub(super) fn new(
        files: Arc<dyn LogFiles>,
        store_id: u64,
        newest: u64,
        segment_bytes: u64,
    ) -> Segments {
        let state = State { next: newest + 1, ..State::default() };
        Segments { files, store_id, segment_bytes, state: Mutex::new(state) }
    }

    /// Returns the first segment.
    pub(super) fn first(&self) -> io::Result<Segment> {
        let generation = self.next_generation();
        let file = self.files.create(generation)?;
        self.state().current = Some(generation);
        Ok(Segment { generation, file })
    }

    /// Returns the prepared segment in exchange for a full one, whose last group has this sequence.
    /// Without a prepared segment, the writer goes on with the full one.
    pub(super) fn exchange(&self, generation: u64, last: u64) -> Option<Segment> {
        let mut state = self.state();
        let spare = state.spare.take()?;
        state.full.push_back((generation, last));
        state.current = Some(spare.generation);
        Some(spare)
    }

    /// Asks the applier for a segment.
    pub(super) fn want_spare(&self) {
        let mut state = self.state();
        state.is_spare_wanted = state.spare.is_none();
    }

    /// Returns whether the writer waits for [`prepare`](Segments::prepare).
    pub(crate) fn is_spare_wanted(&self) -> bool {
        self.state().is_spare_wanted
    }

    /// Prepares a segment that the writer has asked for.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        if !self.is_spare_wanted() {
            return Ok(());
        }
        let generation = self.next_generation();
        let prepared = self.create_full(generation);
        if prepared.is_err() {
            // The writer goes on with the full segment, and asks again later.
            self.state().is_spare_wanted = false;
            // It may not exist. What is left of it has no header, so a start ignores it.
            let _ = self.files.remove(generation);
        }
        self.put_spare(Segment { generation, file: prepared? });
        Ok(())
    }

    /// Creates a segment whose blocks are allocated.
    fn create_full(&self, generation: u64) -> io::Result<Box<dyn SegmentFile>> {
        let file = self.files.create(generation)?;
        // A sync of allocated blocks is faster than one that allocates them. Small writes, because
        // the kernel counts a sync of a large folio as a write of all of it.
        let zeros = [0; BLOCK_BYTES as usize];
        for place in (0..self.segment_bytes).step_by(zeros.len()) {
            file.write_at(place, &zeros)?;
        }
        file.sync()?;
        Ok(file)
    }

    /// Frees the full segments up to a group that will not be read again. One of them becomes the
    /// prepared segment.
    pub(crate) fn free_up_to(&self, sequence: u64) -> io::Result<()> {
        loop {
            let mut state = self.state();
            let oldest = state.full.front().filter(|(_, last)| *last <= sequence);
            let Some(&(generation, _)) = oldest else { return Ok(()) };
            let is_needed = state.spare.is_none();
            state.full.pop_front();
            drop(state);
            if is_needed {
                let new = self.next_generation();
                self.put_spare(Segment {
                    generation: new,
                    file: self.files.rename(generation, new)?,
                });
            } else {
                self.files.remove(generation)?;
            }
        }
    }

    /// Removes all segments. The database has all their groups.
    pub(crate) fn remove_all(&self) -> io::Result<()> {
        let State { current, full, spare, .. } = &mut *self.state();
        let full = full.drain(..).map(|(generation, _)| generation);
        let rest = current.take().into_iter().chain(spare.take().map(|spare| spare.generation));
        full.chain(rest).try_for_each(|generation| self.files.remove(generation))
    }

    fn put_spare(&self, spare: Segment) {
        let mut state = self.state();
        state.spare = Some(spare);
        state.is_spare_wanted = false;
    }

    fn next_generation(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next - 1
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
