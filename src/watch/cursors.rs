//! How far something is in each of a store's orders of changes.

use super::entry::Entry;
use crate::store::{Bucket, Position};

/// A position for each bucket: all changes up to there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursors(Box<[Position]>);

impl Cursors {
    /// Before everything, in each of so many buckets.
    pub fn new(buckets: u16) -> Cursors {
        Cursors(vec![Position::default(); buckets.into()].into())
    }

    /// How many buckets there are.
    pub fn buckets(&self) -> u16 {
        // There is no other way to make one.
        u16::try_from(self.0.len()).unwrap_or(u16::MAX)
    }

    /// The position in a bucket.
    pub fn of(&self, bucket: Bucket) -> Position {
        self.0.get(usize::from(bucket.0)).copied().unwrap_or_default()
    }

    /// Moves to a position in a bucket. One that the store does not have stays where it is.
    pub fn set(&mut self, bucket: Bucket, position: Position) {
        if let Some(known) = self.0.get_mut(usize::from(bucket.0)) {
            *known = position;
        }
    }

    /// The position in each bucket, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Bucket, Position)> {
        (0..).map(Bucket).zip(self.0.iter().copied())
    }

    /// Moves on to a position, never back.
    pub(super) fn advance(&mut self, bucket: Bucket, position: Position) {
        self.set(bucket, self.of(bucket).max(position));
    }

    /// Whether the change that an entry comes from is among those up to here.
    pub(super) fn cover(&self, entry: &Entry) -> bool {
        entry.position <= self.of(entry.bucket)
    }

    /// Whether this is as far as the other in every bucket from `first` on.
    pub(super) fn reach(&self, other: &Cursors, first: Bucket) -> bool {
        let rest = other.iter().skip(usize::from(first.0));
        rest.into_iter().all(|(bucket, position)| position <= self.of(bucket))
    }
}

impl FromIterator<Position> for Cursors {
    fn from_iter<T: IntoIterator<Item = Position>>(positions: T) -> Cursors {
        Cursors(positions.into_iter().take(u16::MAX.into()).collect())
    }
}
