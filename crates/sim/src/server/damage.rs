//! Damage of a disk: a byte of the last group of the log changes, and is changed back later, as by
//! a repair from a copy. No process may serve meanwhile what lacks the group.
//!
//! A group, as docs/FORMAT.md describes it, begins with `magic 4 | CRC-32 4 | length 4 | kind 4 |
//! generation 8 | sequence 8`.

use bellwether::store::embedded::stepwise;

const MAGIC: &[u8] = b"bwlg";
const HEADER_BYTES: usize = 32;
/// Groups begin at multiples of this.
const ALIGNMENT: usize = 8;
/// The kind of a group with operations.
const OPERATIONS: u64 = 0;
/// The unit that a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// Which groups may be damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those within one sector. No end of a process leaves a part of one, so the next process can
    /// distinguish the damage from the end of the log.
    Sector,
    /// Any, while a process runs: it knows what it has acknowledged.
    Any,
}

/// A damaged group.
pub struct Damage {
    segment: u64,
    begin: usize,
    /// The group before.
    group: Vec<u8>,
    place: usize,
}

impl Damage {
    /// Damages the last group that is synced. Returns nothing if there is none, or another one may
    /// follow.
    pub fn make(files: &stepwise::Disk, reach: Reach) -> Option<Damage> {
        let (synced, seen) = (files.after_power_loss(|| false), files.after_kill());
        let found = last_group(&synced)?;
        let (_, segment, begin, group) = found;
        let sectors = [begin, begin + group.len() - 1].map(|at| at / SECTOR_BYTES);
        let is_in_reach = reach == Reach::Any || sectors[0] == sectors[1];
        if !is_in_reach || last_group(&seen) != Some(found) {
            return None;
        }
        let (place, group) = (begin + HEADER_BYTES, group.to_vec());
        files.damage(segment, place).then_some(Damage { segment, begin, group, place })
    }

    /// Undoes the damage, if the group is still there.
    pub fn mend(self, files: &stepwise::Disk) {
        let Damage { segment, begin, group, place } = self;
        let seen = files.after_kill();
        let end = begin + group.len();
        let found = seen.segments().get(&segment).and_then(|bytes| bytes.get(begin..end));
        let differs = |found: &[u8]| {
            let pairs = found.iter().zip(&group).enumerate();
            let other = pairs.filter(|(_, (is, was))| is != was).map(|(at, _)| begin + at);
            other.collect::<Vec<_>>()
        };
        if found.map(differs) == Some(vec![place]) {
            files.damage(segment, place);
        }
    }
}

/// Returns the last group of the log: its sequence, segment, begin, and bytes.
fn last_group(image: &stepwise::Image) -> Option<(u64, u64, usize, &[u8])> {
    let segments = image.segments().iter();
    let groups = segments.flat_map(|(&generation, bytes)| {
        let begins = (0..bytes.len()).step_by(ALIGNMENT);
        begins.filter_map(move |begin| {
            let bytes = &bytes[begin..];
            let is_one = bytes.starts_with(MAGIC)
                && number(bytes, 16, 8)? == generation
                && number(bytes, 12, 4)? == OPERATIONS;
            let length = usize::try_from(number(bytes, 8, 4)?).ok()?;
            let group = bytes.get(..HEADER_BYTES + length).filter(|_| is_one && 0 < length)?;
            Some((number(bytes, 24, 8)?, generation, begin, group))
        })
    });
    groups.max_by_key(|(sequence, ..)| *sequence)
}

/// Returns a little-endian number.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
