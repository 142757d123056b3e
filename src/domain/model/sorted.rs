//! Sorted elements in vectors of limited length. A tree takes the memory of eleven elements for its
//! first one, and most applications and units have one or a few. A single vector moves all elements
//! behind an insertion.

use std::borrow::Borrow;
use std::iter::Flatten;
use std::slice;

/// The most elements of a chunk.
const CHUNK_MAX: usize = 128;
/// The elements that stay in a chunk when it is split.
const HALF: usize = CHUNK_MAX / 2;

/// A set of elements in their order.
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

/// The chunk of an element, and its place there.
#[derive(Clone, Copy)]
struct Slot {
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

    fn add_chunk(&mut self, number: usize, chunk: Vec<T>) {
        match &mut self.0 {
            Chunks::One(first) => {
                let first = std::mem::take(first);
                self.0 = Chunks::Many(vec![first, chunk]);
            }
            Chunks::Many(chunks) => chunks.insert(number, chunk),
        }
    }
}

impl<T: Ord> Sorted<T> {
    /// Inserts an element, and returns whether it was missing.
    pub fn insert(&mut self, element: T) -> bool {
        let Err(Slot { chunk: number, at }) = self.search(&element) else { return false };
        let chunk = &mut self.chunks_mut()[number];
        if chunk.len() == chunk.capacity() {
            // A vector grows to twice its size by itself, which is half empty for most of its life.
            chunk.reserve_exact(1 + chunk.len() / 8);
        }
        chunk.insert(at, element);
        if CHUNK_MAX < chunk.len() {
            let second = chunk.split_off(HALF);
            chunk.shrink_to_fit();
            self.add_chunk(number + 1, second);
        }
        true
    }

    /// Removes an element, and returns whether it was there.
    pub fn remove<Q: Ord>(&mut self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        let Ok(Slot { chunk: number, at }) = self.search(element) else { return false };
        let chunk = &mut self.chunks_mut()[number];
        chunk.remove(at);
        let is_empty = chunk.is_empty();
        if let Chunks::Many(chunks) = &mut self.0 {
            if is_empty {
                chunks.remove(number);
            }
            if chunks.len() == 1 {
                self.0 = Chunks::One(chunks.swap_remove(0));
            }
        }
        true
    }

    /// Returns the elements that are not less than `first`, in order.
    pub fn from<Q: Ord>(&self, first: &Q) -> impl Iterator<Item = &T> + use<'_, T, Q>
    where
        T: Borrow<Q>,
    {
        let (Ok(Slot { chunk, at }) | Err(Slot { chunk, at })) = self.search(first);
        let chunks = self.chunks();
        chunks[chunk][at..].iter().chain(chunks[chunk + 1..].iter().flatten())
    }

    /// Returns the elements after those that are before a place, in order. `is_before` is true for
    /// none or for the first elements, and false for all others.
    pub fn skip_before(&self, is_before: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
        let chunks = self.chunks();
        let last = chunks.len() - 1;
        let chunk = chunks[..last].partition_point(|chunk| chunk.last().is_some_and(&is_before));
        let at = chunks[chunk].partition_point(is_before);
        chunks[chunk][at..].iter().chain(chunks[chunk + 1..].iter().flatten())
    }

    /// Returns the place of an element, or else the place to insert it.
    fn search<Q: Ord>(&self, element: &Q) -> Result<Slot, Slot>
    where
        T: Borrow<Q>,
    {
        let chunks = self.chunks();
        let is_before = |chunk: &Vec<T>| chunk.last().is_some_and(|last| last.borrow() < element);
        let last = chunks.len() - 1;
        let chunk = chunks[..last].partition_point(is_before);
        let place = |at| Slot { chunk, at };
        let found = chunks[chunk].binary_search_by(|known| known.borrow().cmp(element));
        found.map(place).map_err(place)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

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
                    true => assert_eq!(sorted.insert(number), tree.insert(number)),
                    false => assert_eq!(sorted.remove(&number), tree.remove(&number)),
                }
                check(&sorted);
                assert_eq!((sorted.first(), sorted.is_empty()), (tree.first(), tree.is_empty()));
                assert!(sorted.from(&number).eq(tree.range(number..)));
                assert!(sorted.skip_before(|one| *one < number).eq(tree.range(number..)));
            }
            assert!(sorted.iter().eq(&tree));
            for number in tree {
                assert!(sorted.remove(&number));
                check(&sorted);
            }
            assert!(sorted.is_empty() && sorted == Sorted::default());
        }
    }

    #[test]
    fn the_order_of_insertions_does_not_count() {
        let (mut up, mut down) = (Sorted::default(), Sorted::default());
        for number in 0..1000 {
            up.insert(number);
            down.insert(999 - number);
        }
        assert_eq!(up, down);
        down.remove(&500);
        assert_ne!(up, down);
    }

    #[test]
    fn the_chunks_have_little_room_to_grow() {
        let mut sorted = Sorted::default();
        for number in 0..CHUNK_MAX {
            sorted.insert(number * 100);
            let [chunk] = sorted.chunks() else { panic!("{sorted:?}") };
            assert!(chunk.capacity() <= 1 + number + number / 8, "{}", chunk.capacity());
        }
        sorted = Sorted::default();
        assert!((0..10_000).all(|number| sorted.insert(number % 100 * 100 + number / 100)));
        let room: usize = sorted.chunks().iter().map(Vec::capacity).sum();
        assert!(room <= 10_000 * 9 / 8, "{room}");
        assert!(sorted.chunks().len() <= 10_000 / HALF);
    }
}
