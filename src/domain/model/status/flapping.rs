//! Detection of flapping: Icinga 2's published algorithm, in integers.
//!
//! Each of the last 20 results counts if its level differs from the result before: the oldest 0.80,
//! each newer one 0.02 more, the newest 1.18. The sum, as a share of 20, is compared with two
//! thresholds: flapping starts *above* the upper one and continues while the value is *above* the
//! lower one, so it ends *at* the lower one, as in `checkable-flapping.cpp`. The unit is a
//! twentieth of a percent, so nothing is rounded: at a threshold, a sum of floats may be on either
//! side.

use serde::{Deserialize, Serialize};

/// Number of results that count.
pub const RESULTS: u32 = 20;

/// The level changes among the last [`RESULTS`] results: one bit each, the newest is the highest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swings(u32);

impl Swings {
    /// Returns the swings with one more result.
    #[must_use]
    pub fn then(self, swings: bool) -> Swings {
        Swings(self.0 >> 1 | u32::from(swings) << (RESULTS - 1))
    }

    /// Returns the number of level changes.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns the weighted share of level changes, in twentieths of a percent.
    fn value(self) -> u32 {
        let weights = (0..RESULTS).filter(|i| self.0 >> i & 1 == 1).map(|i| 80 + 2 * i);
        weights.sum()
    }

    /// Returns whether the share is above a threshold, in percent.
    pub fn exceed(self, percent: u32) -> bool {
        percent * RESULTS < self.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same computation as in Icinga, with floats.
    fn in_percent(changed: &[bool]) -> f64 {
        let mut state_changes = 0.0;
        for (i, changed) in changed.iter().enumerate() {
            if *changed {
                state_changes += 0.8 + 0.02 * i as f64;
            }
        }
        100.0 * state_changes / 20.0
    }

    fn swings(bits: &str) -> Swings {
        bits.bytes().fold(Swings::default(), |swings, bit| swings.then(bit == b'1'))
    }

    #[test]
    fn weighs_by_age() {
        for (bits, value) in [
            ("", 0),
            ("1", 118),
            ("10", 116),
            ("10000000000000000000", 80),
            ("100000000000000000000", 0),
            ("11111111111111111111", 1980),
            ("111111", 678),
            ("11111", 570),
        ] {
            assert_eq!(swings(bits).value(), value, "{bits}");
        }
        // Six swings in a row are 33.9 %, five are 28.5 %.
        assert!(swings("111111").exceed(30) && !swings("11111").exceed(30));
    }

    #[test]
    fn a_threshold_itself_is_not_exceeded() {
        // 118 + 116 + 114 + 84 + 88 + 80 = 600, which is exactly 30 %.
        let exact = swings("10101000000000000111");
        assert_eq!(exact.value(), 600);
        assert!(!exact.exceed(30) && exact.exceed(29));
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_floats(changed in proptest::collection::vec(proptest::bool::ANY, 20..60)) {
            let mut swings = Swings::default();
            changed.iter().for_each(|changed| swings = swings.then(*changed));
            let value = in_percent(&changed[changed.len() - 20..]);
            for percent in 1..=99 {
                // Skips values where floats could be on either side.
                if 1e-6 < (value - f64::from(percent)).abs() {
                    proptest::prop_assert_eq!(swings.exceed(percent), f64::from(percent) < value);
                }
            }
        }
    }
}
