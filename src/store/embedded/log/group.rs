//! A group: the operations that one sync makes durable, with a checksum.
//!
//! ```text
//! magic 4 | CRC-32 4 | length 4 | zero 4 | generation 8 | sequence 8 | operations | zeros
//! ```
//!
//! Numbers are little endian. The checksum covers everything after itself, the final zeros aside.
//! They make the size a multiple of 8.

use std::ops::Range;

const MAGIC: [u8; 4] = *b"bwlg";
const CRC: Range<usize> = 4..8;
const LENGTH: Range<usize> = 8..12;
const GENERATION: Range<usize> = 16..24;
const SEQUENCE: Range<usize> = 24..32;
const HEADER_BYTES: usize = SEQUENCE.end;
/// Groups begin at multiples of this.
pub(super) const ALIGNMENT: usize = 8;

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

    /// Sets the place of the group in the log.
    ///
    /// # Panics
    ///
    /// With 4 GiB of operations, which no limit allows.
    pub(super) fn seal(&mut self, generation: u64, sequence: u64) {
        let length = u32::try_from(self.ops().len()).expect("groups are smaller than 4 GiB");
        self.bytes[LENGTH].copy_from_slice(&length.to_le_bytes());
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
    let length = u32::from_le_bytes(*bytes[LENGTH].as_array()?);
    let end = HEADER_BYTES.checked_add(usize::try_from(length).ok()?)?;
    let summed = bytes.get(CRC.end..end)?;
    if crc32fast::hash(summed).to_le_bytes() != bytes[CRC] {
        return None;
    }
    let sequence = u64::from_le_bytes(*bytes[SEQUENCE].as_array()?);
    Some(FoundGroup { sequence, ops: HEADER_BYTES..end, size: end.next_multiple_of(ALIGNMENT) })
}

/// Returns whether the bytes start with a group of this generation, intact or not.
pub(super) fn begins(bytes: &[u8], generation: u64) -> bool {
    bytes.len() >= HEADER_BYTES
        && bytes.starts_with(&MAGIC)
        && bytes[GENERATION] == generation.to_le_bytes()
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
        let found = FoundGroup { sequence: 17, ops, size: bytes.len() };
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
}
