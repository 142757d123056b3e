//! Parses the header of redb's file, to see whether the slot of the newest commit is damaged. A
//! start after a crash then uses the commit before it.
//!
//! The first 64 bytes are the header proper, with the flags in byte 9. Two commit slots of 128
//! bytes follow; each contains 112 bytes and their XXH3-128. The flags name the slot of the newest
//! commit. redb logs nothing when it uses the other slot. This is the layout of format 3, which is
//! the first byte of each slot; this module ignores other formats.

use xxhash_rust::xxh3::xxh3_128;

const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";
const FLAGS: usize = MAGIC.len();
/// Flag: the newest commit is in the second slot.
const SECOND_IS_NEWEST: u8 = 1;
/// Flag: the file was not closed.
const NOT_CLOSED: u8 = 2;
const SLOTS: [std::ops::Range<usize>; 2] = [64..192, 192..320];
const SUMMED: usize = 112;
const FORMAT: u8 = 3;

/// The size of the header with its slots, in bytes.
pub(super) const HEADER_BYTES: usize = 320;

/// Returns whether the file was not closed, the slot of the newest commit is damaged, and the other
/// slot is intact. redb also uses the older commit if a page of the newest one is damaged; the
/// header does not show that.
pub(super) fn is_newest_slot_damaged(header: &[u8; HEADER_BYTES]) -> bool {
    let flags = header[FLAGS];
    if !header.starts_with(&MAGIC) || flags & NOT_CLOSED == 0 {
        return false;
    }
    let newest = usize::from(flags & SECOND_IS_NEWEST != 0);
    let [first, second] = SLOTS.map(|slot| &header[slot]);
    let is_known = first[0] == FORMAT && second[0] == FORMAT;
    let whole = [is_whole(first), is_whole(second)];
    is_known && !whole[newest] && whole[1 - newest]
}

fn is_whole(slot: &[u8]) -> bool {
    let (summed, sum) = slot.split_at(SUMMED);
    xxh3_128(summed).to_le_bytes() == *sum
}
