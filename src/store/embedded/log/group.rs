//! A group: the operations that one sync makes durable, with a checksum.
//!
//! ```text
//! magic 4 | CRC-32 4 | length 4 | kind 4 | generation 8 | sequence 8 | operations | zeros
//! ```
//!
//! Numbers are little endian. The checksum covers everything after itself, the final zeros aside.
//! They make the size a multiple of 8.
//!
//! Two kinds of groups have no operations. They are no step of the sequence, and have that of the
//! group before them: the *opening* is the first group of a segment, the *closing* the last one of
//! a segment that another one continues.

use std::ops::Range;

const MAGIC: [u8; 4] = *b"bwlg";
const CRC: Range<usize> = 4..8;
const LENGTH: Range<usize> = 8..12;
const KIND: Range<usize> = 12..16;
const GENERATION: Range<usize> = 16..24;
const SEQUENCE: Range<usize> = 24..32;
pub(super) const HEADER_BYTES: usize = SEQUENCE.end;
/// Groups begin at multiples of this.
pub(super) const ALIGNMENT: usize = 8;
/// The unit that a disk writes as a whole, at least.
const SECTOR_BYTES: usize = 512;

/// What a group is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Operations of commits.
    Operations,
    /// The begin of a segment. Its body is the least size of the file (8 bytes).
    Opening,
    /// The end of a segment that another one continues.
    Closing,
}

impl Kind {
    fn number(self) -> u32 {
        match self {
            Kind::Operations => 0,
            Kind::Opening => 1,
            Kind::Closing => 2,
        }
    }
}

/// A group that is being written, or waits to be applied.
pub(crate) struct LogGroup {
    bytes: Vec<u8>,
    /// The end of the operations.
    end: usize,
}

impl LogGroup {
    /// Makes a group whose operations `write` appends to the buffer.
    pub(crate) fn new(capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> LogGroup {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + capacity + ALIGNMENT);
        bytes.resize(HEADER_BYTES, 0);
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        write(&mut bytes);
        let end = bytes.len();
        bytes.resize(end.next_multiple_of(ALIGNMENT), 0);
        LogGroup { bytes, end }
    }

    /// Makes the first group of a segment, whose file always has at least `size` bytes from now on.
    /// The log has all groups up to `last` in earlier segments.
    pub(super) fn opening(generation: u64, last: u64, size: u64) -> LogGroup {
        let mut group = LogGroup::new(0, |bytes| bytes.extend_from_slice(&size.to_le_bytes()));
        group.seal_as(Kind::Opening, generation, last);
        group
    }

    /// Makes the last group of a segment. The log goes on after the group `last` in another one.
    pub(super) fn closing(generation: u64, last: u64) -> LogGroup {
        let mut group = LogGroup::new(0, |_| {});
        group.seal_as(Kind::Closing, generation, last);
        group
    }

    /// Sets the place of the group in the log.
    ///
    /// # Panics
    ///
    /// With 4 GiB of operations, which no limit allows.
    pub(super) fn seal(&mut self, generation: u64, sequence: u64) {
        self.seal_as(Kind::Operations, generation, sequence);
    }

    fn seal_as(&mut self, kind: Kind, generation: u64, sequence: u64) {
        let length = u32::try_from(self.ops().len()).expect("groups are smaller than 4 GiB");
        self.bytes[LENGTH].copy_from_slice(&length.to_le_bytes());
        self.bytes[KIND].copy_from_slice(&kind.number().to_le_bytes());
        self.bytes[GENERATION].copy_from_slice(&generation.to_le_bytes());
        self.bytes[SEQUENCE].copy_from_slice(&sequence.to_le_bytes());
        let crc = crc32fast::hash(&self.bytes[CRC.end..self.end]);
        self.bytes[CRC].copy_from_slice(&crc.to_le_bytes());
    }

    /// Returns the group as it is written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn ops(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..self.end]
    }
}

/// A group that was found in a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundGroup {
    pub(super) kind: Kind,
    pub(super) sequence: u64,
    /// The place of the operations in the group.
    pub(super) ops: Range<usize>,
    /// The size of the group in the segment.
    pub(super) size: usize,
}

/// Returns the intact group of this generation at the start of the bytes.
pub(super) fn parse(bytes: &[u8], generation: u64) -> Option<FoundGroup> {
    if !begins(bytes, generation) {
        return None;
    }
    let end = end_of(bytes)?;
    let summed = bytes.get(CRC.end..end)?;
    if crc32fast::hash(summed).to_le_bytes() != bytes[CRC] {
        return None;
    }
    let kind = u32::from_le_bytes(*bytes[KIND].as_array()?);
    let kinds = [Kind::Operations, Kind::Opening, Kind::Closing];
    let kind = kinds.into_iter().find(|known| known.number() == kind)?;
    let sequence = u64::from_le_bytes(*bytes[SEQUENCE].as_array()?);
    let size = end.next_multiple_of(ALIGNMENT);
    Some(FoundGroup { kind, sequence, ops: HEADER_BYTES..end, size })
}

/// Returns whether the bytes start with a group of this generation, intact or not.
pub(super) fn begins(bytes: &[u8], generation: u64) -> bool {
    bytes.len() >= HEADER_BYTES
        && bytes.starts_with(&MAGIC)
        && bytes[GENERATION] == generation.to_le_bytes()
}

/// Returns whether damage alone explains that there is no intact group at a place of a segment. A
/// loss of power leaves whole sectors of a group, so a group within one sector is there or not. Nor
/// does it leave all of a group but the bytes by which it is recognized.
pub(super) fn is_damaged(segment: &[u8], place: usize, generation: u64) -> bool {
    let bytes = segment.get(place..).unwrap_or_default();
    if begins(bytes, generation) {
        let sector = place / SECTOR_BYTES;
        return end_of(bytes).is_some_and(|end| (place + end - 1) / SECTOR_BYTES == sector);
    }
    let Some(end) = end_of(bytes).filter(|end| *end <= bytes.len()) else { return false };
    let mut mended = bytes[..end].to_vec();
    mended[..MAGIC.len()].copy_from_slice(&MAGIC);
    mended[GENERATION].copy_from_slice(&generation.to_le_bytes());
    parse(&mended, generation).is_some()
}

/// Returns the end of a group by its length, which may be damaged.
fn end_of(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*bytes.get(LENGTH)?.as_array()?);
    HEADER_BYTES.checked_add(usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_or_older_group_is_not_parsed() {
        let mut group = LogGroup::new(0, |bytes| bytes.extend_from_slice(b"operations"));
        group.seal(3, 17);
        let bytes = group.bytes().to_vec();
        let ops = HEADER_BYTES..HEADER_BYTES + b"operations".len();
        let found = FoundGroup { kind: Kind::Operations, sequence: 17, ops, size: bytes.len() };
        assert_eq!(parse(&bytes, 3), Some(found));
        assert_eq!(parse(&bytes, 4), None);
        let is_padding = |place| HEADER_BYTES + b"operations".len() <= place;
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x55;
            assert_eq!(parse(&damaged, 3).is_some(), is_padding(place), "byte {place}");
            assert_eq!(parse(&bytes[..place], 3).is_some(), is_padding(place), "{place} bytes");
        }
    }
    #[test]
    fn a_group_that_no_loss_of_power_leaves_is_damaged() {
        let seal = |length: usize| {
            let mut group = LogGroup::new(0, |bytes| bytes.resize(HEADER_BYTES + length, 7));
            group.seal(3, 17);
            group.bytes().to_vec()
        };
        let check = |group: &[u8], place: usize, flipped: usize, expected: bool| {
            let mut segment = vec![0; place];
            segment.extend_from_slice(group);
            segment[place + flipped] ^= 1;
            assert_eq!(is_damaged(&segment, place, 3), expected, "byte {flipped} at {place}");
        };
        let (short, long) = (seal(100), seal(600));
        // The checksum, and the operations.
        for flipped in [CRC.start, HEADER_BYTES + 1] {
            check(&short, 32, flipped, true);
            check(&short, 400, flipped, false);
            check(&long, 32, flipped, false);
        }
        for flipped in [0, GENERATION.start] {
            check(&short, 32, flipped, true);
            check(&long, 32, flipped, true);
        }
        // Another group was here before, or none.
        assert!(!is_damaged(&short, 0, 4) && !is_damaged(&[0; 64], 0, 3));
    }
}
