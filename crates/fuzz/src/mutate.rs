//! Random changes of inputs, for a run without coverage.

/// A source of pseudo-random numbers (Splitmix64): the same seed gives the same inputs.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap_or(0)
    }
}

/// Returns an input made from those of a corpus: one of them with a few changes.
pub fn mutate(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let pick = |dice: &mut Dice| corpus.get(dice.below(corpus.len())).cloned().unwrap_or_default();
    let mut input = pick(dice);
    for _ in 0..=dice.below(6) {
        let at = dice.below(input.len() + 1);
        let end = at + dice.below(input.len() - at + 1).min(32);
        match dice.below(6) {
            0 => {
                let part = input[at..end].to_vec();
                input.splice(at..at, part);
            }
            1 => drop(input.drain(at..end)),
            2 => input.insert(at, u8::try_from(dice.below(256)).unwrap_or(0)),
            3 => {
                let other = pick(dice);
                let from = dice.below(other.len() + 1);
                input.splice(at..end, other[from..].iter().copied());
            }
            _ if at < input.len() => input[at] ^= 1 << dice.below(8),
            _ => {
                let random: Vec<u8> = (0..dice.below(64))
                    .map(|_| u8::try_from(dice.below(256)).unwrap_or(0))
                    .collect();
                input.extend(random);
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// The longest input. An input that needs more has a shorter relative.
pub const INPUT_BYTES_MAX: usize = 4096;
