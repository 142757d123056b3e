//! A filter for texts: which groups of three bytes a text has. Most parts of messages that the
//! tables look for have a group that the text lacks, so the text itself is seldom searched.

/// Bits of the set; a group is a number below it.
const BITS: usize = 4096;
/// Bytes of a group.
const GROUP: usize = 3;

/// The groups of a text.
pub(in crate::domain) struct Grams([u64; BITS / 64]);

/// Some groups of a part: a text without one of them has not the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needle([u16; 3]);

impl Grams {
    /// Collects the groups of a text.
    pub(in crate::domain) fn of(text: &str) -> Grams {
        let mut set = [0; BITS / 64];
        for group in text.as_bytes().windows(GROUP) {
            let number = number(group);
            set[usize::from(number / 64)] |= 1 << (number % 64);
        }
        Grams(set)
    }

    /// Returns whether the text has all groups, as a text with the part has.
    pub(in crate::domain) fn may_have(&self, needle: &Needle) -> bool {
        let has = |number: &u16| self.0[usize::from(number / 64)] >> (number % 64) & 1 == 1;
        needle.0.iter().all(has)
    }
}

impl Needle {
    /// Returns groups of a part, of its longest piece between the given marks: the first, the
    /// middle and the last one. `None`: the part is too short.
    pub(in crate::domain) fn of(part: &str, mark: char) -> Option<Needle> {
        let longest = part.split(mark).max_by_key(|piece| piece.len())?.as_bytes();
        let last = longest.len().checked_sub(GROUP)?;
        Some(Needle([0, last / 2, last].map(|at| number(&longest[at..at + GROUP]))))
    }
}

fn number(group: &[u8]) -> u16 {
    let mixed = group.iter().fold(0_u32, |sum, byte| sum.wrapping_mul(37) + u32::from(*byte));
    (mixed % BITS as u32) as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_may_have_each_of_its_parts(
            text in "[a-f]{3,40}",
            from in 0..20usize,
            of in 3..20usize,
        ) {
            let from = from.min(text.len() - 3);
            let part = &text[from..(from + of).min(text.len())];
            let needle = Needle::of(part, '…').unwrap();
            prop_assert!(Grams::of(&text).may_have(&needle));
            // The longest piece alone decides, and a gap belongs to no piece.
            let needle = Needle::of(&format!("zz…{part}"), '…').unwrap();
            prop_assert!(part.len() < 3 || Grams::of(&text).may_have(&needle));
        }
    }

    #[test]
    fn a_text_without_the_groups_of_a_part_is_not_searched() {
        let grams = Grams::of("connection refused");
        let has = |part: &str| Needle::of(part, '…').is_none_or(|needle| grams.may_have(&needle));
        assert!(has("refused") && has("connection") && has("re"));
        assert!(!has("not leader") && !has("deadline exceeded"));
    }
}
