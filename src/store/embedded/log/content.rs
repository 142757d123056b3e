//! The groups in the bytes of one segment, and what follows the last one.

use std::ops::Range;

use super::group::{self, ALIGNMENT, FoundGroup, Kind};
use super::segment::{GROWTH_BYTES, HEADER_BYTES};

/// The content of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// The operations of the groups that the database does not have, in order.
    pub(super) ops: Vec<Range<usize>>,
    /// The sequence of the next group.
    pub(super) next: u64,
    /// Whether the segment has an intact group of its generation.
    pub(super) has_groups: bool,
    /// The end of the last intact group.
    pub(super) end: usize,
    pub(super) rest: Rest,
}

/// What follows the last intact group of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Another segment continues this one.
    Closed,
    /// Nothing of this generation.
    Free,
    /// What a loss of power leaves of a group that was not synced, and what damage can leave of a
    /// group that was.
    Incomplete,
    /// Damage, for this reason.
    Damaged(String),
    /// Groups are missing, for this reason, whatever follows in other segments.
    Missing(String),
}

impl Content {
    /// Returns the content of a segment whose groups cannot be read, for this reason.
    pub(super) fn unreadable(next: u64, reason: &str) -> Content {
        let rest = Rest::Damaged(reason.to_string());
        Content { ops: Vec::new(), next, has_groups: false, end: 0, rest }
    }
}

/// Reads a segment from its first group on. The database has all groups before `next`.
pub(super) fn read(bytes: &[u8], generation: u64, next: u64) -> Content {
    let content =
        Content { ops: Vec::new(), next, has_groups: false, end: HEADER_BYTES, rest: Rest::Free };
    let mut reader = Reader { bytes, generation, content, last: HEADER_BYTES, least: None };
    let rest = reader.read().err().unwrap_or_else(|| reader.rest());
    Content { rest, ..reader.content }
}

/// Returns whether a segment without a header of its generation has groups of it.
pub(super) fn has_groups(bytes: &[u8], generation: u64) -> bool {
    next_intact(bytes, 0, generation).is_some()
}

fn next_intact(bytes: &[u8], from: usize, generation: u64) -> Option<(usize, FoundGroup)> {
    let places = (from..bytes.len()).step_by(ALIGNMENT);
    places.filter_map(|at| Some((at, group::parse(&bytes[at..], generation)?))).next()
}

struct Reader<'a> {
    bytes: &'a [u8],
    generation: u64,
    content: Content,
    /// The begin of the last intact group.
    last: usize,
    /// The least size of the file; `None` in a segment of a version without openings.
    least: Option<u64>,
}

impl Reader<'_> {
    /// Reads all groups. The error ends the segment.
    fn read(&mut self) -> Result<(), Rest> {
        loop {
            let place = self.content.end;
            let Some((at, found)) = next_intact(self.bytes, place, self.generation) else {
                return Ok(());
            };
            // The database has the groups before `next`, damaged or not.
            let is_needed = self.content.next + u64::from(found.kind == Kind::Operations);
            if at != place && is_needed <= found.sequence {
                return Err(Rest::Missing(format!(
                    "the group at byte {place} is damaged, and the group at byte {at} is intact"
                )));
            }
            self.take(at, &found)?;
        }
    }

    fn take(&mut self, at: usize, found: &FoundGroup) -> Result<(), Rest> {
        let FoundGroup { kind, sequence, .. } = *found;
        let Content { ops, next, has_groups, end, .. } = &mut self.content;
        let is_step = kind == Kind::Operations;
        if *next + u64::from(is_step) <= sequence {
            let first = sequence + u64::from(!is_step);
            return Err(Rest::Missing(format!(
                "it goes on with group {first}, and group {next} is missing"
            )));
        }
        (*has_groups, *end, self.last) = (true, at + found.size, at);
        let body = at + found.ops.start..at + found.ops.end;
        match kind {
            Kind::Operations if sequence == *next => {
                ops.push(body);
                *next += 1;
            }
            Kind::Operations => {}
            Kind::Opening => {
                self.least = self.bytes[body].as_array().map(|size| u64::from_le_bytes(*size));
            }
            Kind::Closing => return Err(Rest::Closed),
        }
        Ok(())
    }

    /// Judges what follows the last intact group.
    fn rest(&self) -> Rest {
        let (size, end) = (self.bytes.len(), self.content.end);
        if self.least.is_some_and(|least| self.is_cut_off(least)) {
            return Rest::Damaged(format!("it is cut off at byte {size}"));
        }
        if group::is_damaged(self.bytes, end, self.generation) {
            return Rest::Damaged(format!("the group at byte {end} is damaged"));
        }
        let rest = self.bytes.get(end..).unwrap_or_default();
        match rest.len() < group::HEADER_BYTES || group::begins(rest, self.generation) {
            true => Rest::Incomplete,
            false => Rest::Free,
        }
    }

    /// Returns whether the file is smaller than it was when its last intact group was written. The
    /// file had its least size then, or a multiple of the growth behind the begin of the group.
    fn is_cut_off(&self, least: u64) -> bool {
        let (size, last) = (self.bytes.len() as u64, self.last as u64);
        size < least || (least <= last && size / GROWTH_BYTES * GROWTH_BYTES <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::log::LogGroup;

    /// Returns a segment with an opening and groups of these sequences.
    fn mk_segment(after: u64, sequences: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(LogGroup::opening(3, after, 1024).bytes());
        for sequence in sequences {
            let mut group = LogGroup::new(0, |bytes| bytes.extend_from_slice(b"operations"));
            group.seal(3, sequence);
            bytes.extend_from_slice(group.bytes());
        }
        bytes.resize(1024, 0);
        bytes
    }

    fn check(bytes: &[u8], next: u64, groups: usize, rest: Rest) {
        let content = read(bytes, 3, next);
        assert_eq!((content.ops.len(), content.rest), (groups, rest));
    }

    fn missing(reason: &str) -> Rest {
        Rest::Missing(reason.to_string())
    }

    #[test]
    fn groups_follow_their_opening() {
        let bytes = mk_segment(4, 5..8);
        check(&bytes, 5, 3, Rest::Free);
        check(&bytes, 7, 1, Rest::Free);
        check(&bytes, 9, 0, Rest::Free);
        check(&bytes, 4, 0, missing("it goes on with group 5, and group 4 is missing"));
        check(
            &mk_segment(4, 6..8),
            5,
            0,
            missing("it goes on with group 6, and group 5 is missing"),
        );
        check(&bytes, 5, 3, Rest::Free);
        check(&bytes[..1000], 5, 3, Rest::Damaged("it is cut off at byte 1000".to_string()));
    }

    #[test]
    fn damage_of_groups_that_the_database_has_is_harmless() {
        let mut bytes = mk_segment(4, 5..8);
        let second = read(&mk_segment(4, 5..6), 3, 5).end;
        bytes[second + 40] ^= 1;
        check(&bytes, 7, 1, Rest::Free);
        let third = read(&mk_segment(4, 5..7), 3, 5).end;
        let said = format!(
            "the group at byte {second} is damaged, and the group at byte {third} is intact"
        );
        check(&bytes, 6, 0, missing(&said));
    }

    #[test]
    fn a_closing_ends_a_segment() {
        let mut bytes = mk_segment(4, 5..6);
        let end = read(&bytes, 3, 5).end;
        let closing = LogGroup::closing(3, 5);
        bytes[end..end + closing.bytes().len()].copy_from_slice(closing.bytes());
        check(&bytes, 5, 1, Rest::Closed);
        // The file may be shorter than its opening says only if the closing is gone too.
        check(&bytes[..end + closing.bytes().len()], 5, 1, Rest::Closed);
        bytes[end] ^= 1;
        check(&bytes, 5, 1, Rest::Damaged(format!("the group at byte {end} is damaged")));
    }
}
