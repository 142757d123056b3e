//! Reads the log at a start: the groups that the database does not have.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::store::Epoch;
use crate::store::embedded::read::ReadFailure;

use super::append::Log;
use super::content::{self, Content, Rest};
use super::segment::{self, LogFiles, Usage};
use super::set::Segments;

/// The log of a database that was not closed.
pub(crate) struct Scan {
    files: Arc<dyn LogFiles>,
    epoch: Epoch,
    /// The generations of all segments.
    generations: Vec<u64>,
    /// The number of segments that were read.
    read: usize,
    /// The sequence of the next group to apply.
    next: u64,
    /// The newest segment in use so far, and what follows its last group.
    newest: Option<(LogEnd, Rest)>,
    /// The error that follows the groups that were returned.
    failure: Option<ReadFailure>,
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

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogEnd {
    generation: u64,
    /// The path of the newest segment in use.
    pub(crate) segment: PathBuf,
    /// The place after its last group, in bytes.
    pub(crate) place: usize,
    /// Whether something follows the last group that may be a group: one that a loss of power
    /// interrupted, or a damaged one.
    pub(crate) is_incomplete: bool,
}

impl Scan {
    /// Starts with the group after `applied`, the last one that the database has.
    pub(crate) fn new(files: Arc<dyn LogFiles>, epoch: Epoch, applied: u64) -> io::Result<Scan> {
        let generations = files.list()?;
        let (newest, failure) = (None, None);
        Ok(Scan { files, epoch, generations, read: 0, next: applied + 1, newest, failure })
    }

    /// Returns whether there is any segment.
    pub(crate) fn has_segments(&self) -> bool {
        !self.generations.is_empty()
    }

    /// Returns the end of the log, once all groups were returned. `None` if no segment is in use.
    pub(crate) fn end(&self) -> Option<&LogEnd> {
        self.newest.as_ref().map(|(end, _)| end)
    }

    /// Returns the groups of the next segment that has any. After an error no more groups can be
    /// read.
    pub(crate) fn next_groups(&mut self) -> Result<Option<FoundGroups>, ReadFailure> {
        while self.failure.is_none()
            && let Some(&generation) = self.generations.get(self.read)
        {
            self.read += 1;
            let bytes = self.files.read(generation)?;
            let content = match segment::usage(&bytes, self.epoch.store_id, generation) {
                Usage::InUse => content::read(&bytes, generation, self.next),
                Usage::Unused if content::has_groups(&bytes, generation) => {
                    Content::unreadable(self.next, "its header is damaged, and it has groups")
                }
                Usage::Unused => continue,
                // If the segments after it have all that the database lacks, it is not needed.
                Usage::Damaged(reason) => Content::unreadable(self.next, reason),
                Usage::Foreign => {
                    return Err(self.damaged(generation, "it belongs to another database"));
                }
            };
            let (ops, last) = self.take(generation, content);
            if !ops.is_empty() {
                let segment = self.files.path(generation);
                return Ok(Some(FoundGroups { segment, bytes, ops, last }));
            }
        }
        self.failure.take().map_or_else(|| self.check_end(), Err).map(|()| None)
    }

    /// Takes the content of a segment over. Returns its groups, and the sequence of the last one.
    fn take(&mut self, generation: u64, content: Content) -> (Vec<Range<usize>>, u64) {
        let Content { ops, next, has_groups, end, rest } = content;
        self.next = next;
        if let Rest::Missing(reason) = &rest {
            self.failure = Some(match &self.newest {
                // What is missing was there.
                Some((end, Rest::Damaged(cause))) => self.damaged(end.generation, cause),
                _ => self.damaged(generation, reason),
            });
        }
        // A segment without a group says nothing about the end of the one before it.
        if has_groups || self.newest.is_none() || rest != Rest::Free {
            let segment = self.files.path(generation);
            let is_incomplete = rest == Rest::Incomplete;
            let end = LogEnd { generation, segment, place: end, is_incomplete };
            self.newest = Some((end, rest));
        }
        (ops, self.next - 1)
    }

    /// Checks what follows the last group of the log. The begin of a segment shows that nothing
    /// acknowledged follows in the segments before it.
    fn check_end(&self) -> Result<(), ReadFailure> {
        match &self.newest {
            Some((end, Rest::Damaged(reason))) => Err(self.damaged(end.generation, reason)),
            Some((end, Rest::Closed)) => {
                Err(self.damaged(end.generation, "the segment that continues it is missing"))
            }
            _ => Ok(()),
        }
    }

    fn damaged(&self, generation: u64, reason: &str) -> ReadFailure {
        let (path, reason) = (self.files.path(generation), reason.to_string());
        ReadFailure::Segment { path, reason, epoch: self.epoch }
    }

    /// Returns the log that continues after the last group, without its former segments: the
    /// database has all groups.
    pub(crate) fn begin(self, segment_bytes: u64) -> io::Result<Log> {
        self.generations.iter().try_for_each(|generation| self.files.remove(*generation))?;
        Ok(self.into_log(segment_bytes))
    }

    /// Returns the log that continues after the last group that can be read. The former segments
    /// stay, under names that end in `suffix`.
    pub(crate) fn begin_anew(self, segment_bytes: u64, suffix: &str) -> io::Result<Log> {
        let set_aside = |generation: &u64| self.files.set_aside(*generation, suffix);
        self.generations.iter().try_for_each(set_aside)?;
        Ok(self.into_log(segment_bytes))
    }

    fn into_log(self, segment_bytes: u64) -> Log {
        let newest = self.generations.last().copied().unwrap_or_default();
        let segments = Segments::new(self.files, self.epoch.store_id, newest, segment_bytes);
        Log::new(Arc::new(segments), self.next)
    }
}
