//! The place of a status in the set that it was reported in.

use serde::{Deserialize, Serialize};

/// The place of a status in a pull set: earlier ones win among equals. A set is of a whole unit, or
/// of one component. A status that was reported alone has no place.
///
/// The highest 15 bits are the number in the set, from 1; the lowest bit says that the set is of a
/// component. It is small because each status has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlaceInSet(u16);

const NUMBER_MAX: u16 = u16::MAX >> 1;

impl PlaceInSet {
    /// The place of a status that was reported alone.
    pub const NONE: PlaceInSet = PlaceInSet(0);

    fn new(number: u16, is_of_component: bool) -> PlaceInSet {
        PlaceInSet(number << 1 | u16::from(is_of_component))
    }

    fn number(self) -> u16 {
        self.0 >> 1
    }

    fn is_of_component(self) -> bool {
        self.0 & 1 == 1
    }

    /// Returns the order among the statuses of a unit: those of the unit's set come first.
    pub fn in_unit(self) -> u16 {
        match self {
            PlaceInSet::NONE => u16::MAX,
            place if place.is_of_component() => u16::MAX,
            place => place.number(),
        }
    }

    /// Returns the order among the statuses of a component: those of the component's set come
    /// first.
    pub fn in_component(self) -> u16 {
        match self.is_of_component() {
            true => self.number(),
            false => u16::MAX,
        }
    }
}

/// Returns the places of the statuses of a new set, in its order, given their places so far.
///
/// A status keeps its place if the order allows that. So a set that loses a status, or gets one at
/// its end, changes no other status.
pub(in crate::domain) fn assign(known: &[PlaceInSet], is_of_component: bool) -> Vec<PlaceInSet> {
    let mut last = 0;
    let places = known.iter().map(|known| {
        let stays = known.is_of_component() == is_of_component && last < known.number();
        last = if stays { known.number() } else { last + 1 };
        (last <= NUMBER_MAX).then(|| PlaceInSet::new(last, is_of_component))
    });
    let places: Option<Vec<PlaceInSet>> = places.collect();
    places.unwrap_or_else(|| {
        // Statuses beyond the last number share it, and are ordered by component and key.
        let numbers = (1..=NUMBER_MAX).chain(std::iter::repeat(NUMBER_MAX));
        numbers.take(known.len()).map(|n| PlaceInSet::new(n, is_of_component)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(known: &[u16]) -> Vec<u16> {
        let known: Vec<PlaceInSet> = known.iter().map(|n| PlaceInSet::new(*n, false)).collect();
        assign(&known, false).into_iter().map(PlaceInSet::in_unit).collect()
    }

    #[test]
    fn statuses_keep_their_places_if_the_order_allows_it() {
        let cases: [(&[u16], &[u16]); 8] = [
            (&[], &[]),
            (&[0, 0, 0], &[1, 2, 3]),
            (&[1, 2, 3], &[1, 2, 3]),
            // The first is gone.
            (&[2, 3], &[2, 3]),
            // One at the end, one in the middle.
            (&[2, 3, 0], &[2, 3, 4]),
            (&[2, 0, 3], &[2, 3, 4]),
            // Turned round.
            (&[3, 2, 1], &[3, 4, 5]),
            (&[NUMBER_MAX], &[NUMBER_MAX]),
        ];
        for (known, expected) in cases {
            assert_eq!(numbers(known), expected, "{known:?}");
        }
        let end = numbers(&[NUMBER_MAX - 1, 0, 0]);
        assert_eq!(end, [1, 2, 3]);
        let many = assign(&vec![PlaceInSet::NONE; 40_000], true);
        assert!(many.is_sorted_by_key(|place| place.in_component()));
        assert_eq!(many[39_999].in_component(), NUMBER_MAX);
    }
}
