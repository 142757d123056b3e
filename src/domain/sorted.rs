//! Sorted elements in vectors of limited length. A tree takes the memory of eleven elements for its
//! first one, and most applications and units have one or a few. A single vector moves all elements
//! behind an insertion.

use std::cmp::Ordering;
use std::iter::Flatten;
use std::slice;

/// The most elements of a chunk.
const CHUNK_MAX: usize = 128;
/// The elements that stay in a chunk when it is split.
const HALF: usize = CHUNK_MAX / 2;

/// Elements in an order that the caller maintains: [`Sorted::insert`] takes a place from
/// [`Sorted::search`].
#[derive(Debug, Clone)]
pub struct Sorted<T>(Chunks<T>);

/// No chunk is empty, except a single one.
#[derive(Debug, Clone)]
enum Chunks<T> {
    One(Vec<T>),
    Many(Vec<Vec<T>>),
}

/// The iterator of [`Sorted::iter`].
pub type Iter<'a, T> = Flatten<slice::Iter<'a, Vec<T>>>;

/// The place of an element, valid until the next insertion or removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    chunk: usize,
    at: usize,
}

impl<T> Default for Sorted<T> {
    fn default() -> Sorted<T> {
        Sorted(Chunks::One(Vec::new()))
    }
}

/// Whether the elements are equal; the chunks depend on the order of insertions and removals.
impl<T: PartialEq> PartialEq for Sorted<T> {
    fn eq(&self, other: &Sorted<T>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for Sorted<T> {}

impl<T> Sorted<T> {
    /// Returns the place of the element that compares as equal, or else the place to insert it.
    pub fn search(&self, compare: impl Fn(&T) -> Ordering) -> Result<Place, Place> {
        let chunks = self.chunks();
        let is_before = |chunk: &Vec<T>| chunk.last().is_some_and(|last| compare(last).is_lt());
        let behind_all = chunks.len() - 1;
        let chunk = chunks[..behind_all].partition_point(is_before);
        let place = |at| Place { chunk, at };
        chunks[chunk].binary_search_by(&compare).map(place).map_err(place)
    }

    /// Returns an element.
    pub fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        self.chunks_mut().get_mut(place.chunk)?.get_mut(place.at)
    }

    /// Inserts an element, and returns its place.
    pub fn insert(&mut self, Place { chunk: number, at }: Place, element: T) -> Place {
        let chunk = &mut self.chunks_mut()[number];
        if chunk.len() == chunk.capacity() {
            // A vector grows to twice its size by itself, which is half empty for most of its life.
            chunk.reserve_exact(1 + chunk.len() / 8);
        }
        chunk.insert(at, element);
        if chunk.len() <= CHUNK_MAX {
            return Place { chunk: number, at };
        }
        let second = chunk.split_off(HALF);
        chunk.shrink_to_fit();
        self.add_chunk(number + 1, second);
        match at < HALF {
            true => Place { chunk: number, at },
            false => Place { chunk: number + 1, at: at - HALF },
        }
    }

    fn add_chunk(&mut self, number: usize, chunk: Vec<T>) {
        match &mut self.0 {
            Chunks::One(first) => {
                let first = std::mem::take(first);
                self.0 = Chunks::Many(vec![first, chunk]);
            }
            Chunks::Many(chunks) => chunks.insert(number, chunk),
        }
    }

    /// Removes an element.
    pub fn remove(&mut self, Place { chunk: number, at }: Place) -> T {
        let chunk = &mut self.chunks_mut()[number];
        let element = chunk.remove(at);
        let is_empty = chunk.is_empty();
        if let Chunks::Many(chunks) = &mut self.0 {
            if is_empty {
                chunks.remove(number);
            }
            if chunks.len() == 1 {
                self.0 = Chunks::One(chunks.swap_remove(0));
            }
        }
        element
    }

    /// Returns whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// Returns the first element.
    pub fn first(&self) -> Option<&T> {
        self.chunks()[0].first()
    }

    /// Returns all elements, in order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.chunks().iter().flatten()
    }

    /// Returns the elements from a place on, in order.
    pub fn from(&self, place: Place) -> impl Iterator<Item = &T> {
        let (chunk, later) = match self.chunks().get(place.chunk..) {
            Some([first, later @ ..]) => (first.get(place.at..).unwrap_or_default(), later),
            _ => Default::default(),
        };
        chunk.iter().chain(later.iter().flatten())
    }

    fn chunks(&self) -> &[Vec<T>] {
        match &self.0 {
            Chunks::One(chunk) => slice::from_ref(chunk),
            Chunks::Many(chunks) => chunks,
        }
    }

    fn chunks_mut(&mut self) -> &mut [Vec<T>] {
        match &mut self.0 {
            Chunks::One(chunk) => slice::from_mut(chunk),
            Chunks::Many(chunks) => chunks,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn insert(sorted: &mut Sorted<u16>, element: u16) -> bool {
        let Err(place) = sorted.search(|known| known.cmp(&element)) else { return false };
        let place = sorted.insert(place, element);
        assert_eq!(sorted.get_mut(place), Some(&mut { element }));
        true
    }

    fn remove(sorted: &mut Sorted<u16>, element: u16) -> bool {
        let place = sorted.search(|known| known.cmp(&element));
        place.is_ok_and(|place| sorted.remove(place) == element)
    }

    /// Returns the elements from the place of a number on.
    fn elements_from(sorted: &Sorted<u16>, number: u16) -> Vec<u16> {
        let place = sorted.search(|known| known.cmp(&number));
        let (Ok(place) | Err(place)) = place;
        sorted.from(place).copied().collect()
    }

    /// Checks what the chunks promise: their lengths, and little more memory than they need.
    fn check(sorted: &Sorted<u16>) {
        if let Chunks::Many(chunks) = &sorted.0 {
            assert!(1 < chunks.len());
            assert!(chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));
        }
    }

    proptest! {
        /// Sorted elements behave like a tree, for as many as are in one chunk and in several.
        #[test]
        fn sorted_elements_are_those_of_a_tree(
            many in any::<bool>(),
            steps in prop::collection::vec((any::<bool>(), any::<u16>()), 0..600),
        ) {
            let (mut sorted, mut tree) = (Sorted::default(), BTreeSet::new());
            for (adds, number) in steps {
                let number = if many { number } else { number % 20 };
                match adds || many && number % 4 != 0 {
                    true => assert_eq!(insert(&mut sorted, number), tree.insert(number)),
                    false => assert_eq!(remove(&mut sorted, number), tree.remove(&number)),
                }
                check(&sorted);
                assert_eq!((sorted.first(), sorted.is_empty()), (tree.first(), tree.is_empty()));
                let later: Vec<u16> = tree.range(number..).copied().collect();
                assert_eq!(elements_from(&sorted, number), later);
            }
            assert!(sorted.iter().eq(&tree));
            for number in tree {
                assert!(remove(&mut sorted, number));
                check(&sorted);
            }
            assert!(sorted.is_empty() && sorted == Sorted::default());
        }
    }

    #[test]
    fn the_order_of_insertions_does_not_count() {
        let (mut up, mut down) = (Sorted::default(), Sorted::default());
        for number in 0..1000 {
            insert(&mut up, number);
            insert(&mut down, 999 - number);
        }
        assert_eq!(up, down);
        remove(&mut down, 500);
        assert_ne!(up, down);
    }

    #[test]
    fn the_chunks_have_little_room_to_grow() {
        let mut sorted = Sorted::default();
        for number in 0..CHUNK_MAX {
            insert(&mut sorted, number as u16 * 100);
            let [chunk] = sorted.chunks() else { panic!("{sorted:?}") };
            assert!(chunk.capacity() <= 1 + number + number / 8, "{}", chunk.capacity());
        }
        sorted = Sorted::default();
        assert!((0..10_000).all(|number| insert(&mut sorted, number % 100 * 100 + number / 100)));
        let room: usize = sorted.chunks().iter().map(Vec::capacity).sum();
        assert!(room <= 10_000 * 9 / 8, "{room}");
        assert!(sorted.chunks().len() <= 10_000 / HALF);
    }

    #[test]
    fn an_element_is_changed_in_its_place() {
        let mut sorted = Sorted::default();
        assert!((0..300).all(|number| insert(&mut sorted, 2 * number)));
        // The place of an element that is the first of its chunk after a split.
        let mut full = Sorted::default();
        let halves = (0..HALF as u16).chain(1000..1000 + HALF as u16);
        assert!(halves.into_iter().chain([500]).all(|number| insert(&mut full, number)));
        assert_eq!(full.chunks()[1][0], 500);
        let place = sorted.search(|known| known.cmp(&500)).unwrap();
        *sorted.get_mut(place).unwrap() = 501;
        assert_eq!(elements_from(&sorted, 499)[..2], [501, 502]);
        let behind = Place { chunk: 99, at: 0 };
        assert_eq!(sorted.get_mut(behind), None);
        assert_eq!(sorted.from(behind).next(), None);
    }
}
