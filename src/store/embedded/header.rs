//! The header of redb's file, as far as it says that a start after a crash takes the commit before
//! the newest one.
//!
//! The first 64 bytes are the header proper, with the flags in byte 9; two commit slots of 128
//! bytes follow, each with the XXH3-128 of its first 112 bytes behind them. The newest commit is in
//! the slot that the flags name. redb says nothing when it takes the other one. The layout is that
//! of format 3, which each slot begins with; of any other nothing is said here.

use xxhash_rust::xxh3::xxh3_128;

const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";
const FLAGS: usize = MAGIC.len();
/// The newest commit is in the second slot.
const SECOND_IS_NEWEST: u8 = 1;
/// The file was not closed.
const NOT_CLOSED: u8 = 2;
const SLOTS: [std::ops::Range<usize>; 2] = [64..192, 192..320];
const SUMMED: usize = 112;
const FORMAT: u8 = 3;

/// Bytes of header and slots.
pub(super) const HEADER_BYTES: usize = 320;

/// Whether the file was not closed and its newest commit slot is damaged, while the one before is
/// whole: then a start goes back to that.
pub(super) fn goes_back(header: &[u8; HEADER_BYTES]) -> bool {
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
