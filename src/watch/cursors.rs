//! A position in each of a store's orders of changes.

use std::sync::Arc;

use super::entry::Entry;
use crate::store::{Bucket, Position};

/// A position for each bucket: it covers all changes up to there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursors {
    positions: Box<[Position]>,
    /// The epoch floor of the master that the changes of each bucket were read from. Empty for a
    /// store without masters, and for tokens of earlier versions.
    floors: Arc<[u64]>,
}

impl Cursors {
    /// Returns the start of this number of buckets.
    pub fn new(buckets: u16) -> Cursors {
        (0..buckets).map(|_| Position::default()).collect()
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> u16 {
        // Every constructor keeps to this limit.
        u16::try_from(self.positions.len()).unwrap_or(u16::MAX)
    }

    /// Returns the position in a bucket.
    pub fn of(&self, bucket: Bucket) -> Position {
        self.positions.get(usize::from(bucket.0)).copied().unwrap_or_default()
    }

    /// Sets the position in a bucket. Does nothing for a bucket that the store does not have.
    pub fn set(&mut self, bucket: Bucket, position: Position) {
        if let Some(known) = self.positions.get_mut(usize::from(bucket.0)) {
            *known = position;
        }
    }

    /// Returns the epoch floors of the masters, one for each bucket, or none.
    pub fn floors(&self) -> &[u64] {
        &self.floors
    }

    /// Sets the epoch floors of the masters; none, or one for each bucket.
    #[must_use]
    pub(super) fn with_floors(self, floors: Arc<[u64]>) -> Cursors {
        Cursors { floors, ..self }
    }

    /// Sets the epoch floor of the master of a bucket.
    pub(super) fn set_floor(&mut self, bucket: Bucket, epoch_floor: u64) {
        let mut floors: Vec<u64> = self.floors.to_vec();
        floors.resize(self.positions.len(), 0);
        if let Some(known) = floors.get_mut(usize::from(bucket.0)) {
            *known = epoch_floor;
            self.floors = floors.into();
        }
    }

    /// Returns the position in each bucket, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Bucket, Position)> {
        (0..).map(Bucket).zip(self.positions.iter().copied())
    }

    /// Advances to a position, never moves back.
    pub(super) fn advance(&mut self, bucket: Bucket, position: Position) {
        self.set(bucket, self.of(bucket).max(position));
    }

    /// Returns whether the change of an entry is among those up to here.
    pub(super) fn cover(&self, entry: &Entry) -> bool {
        entry.position <= self.of(entry.bucket)
    }

    /// Returns cursors that both reach, with the older masters.
    pub fn lowest(one: &Cursors, other: &Cursors) -> Cursors {
        Cursors::merged(one, other, |a, b| a.min(b), |a, b| a.min(b))
    }

    /// Returns cursors that reach both.
    pub fn highest(one: &Cursors, other: &Cursors) -> Cursors {
        Cursors::merged(one, other, |a, b| a.max(b), |a, b| a.max(b))
    }

    fn merged(
        one: &Cursors,
        other: &Cursors,
        position: impl Fn(Position, Position) -> Position,
        floor: impl Fn(u64, u64) -> u64,
    ) -> Cursors {
        let positions = one.iter().map(|(bucket, own)| position(own, other.of(bucket)));
        let floors = one.floors.iter().zip(other.floors.iter());
        let floors: Vec<u64> = floors.map(|(own, other)| floor(*own, *other)).collect();
        positions.collect::<Cursors>().with_floors(floors.into())
    }

    /// Returns whether this is at or after the other in every bucket from `first` on.
    pub(super) fn reach(&self, other: &Cursors, first: Bucket) -> bool {
        let mut rest = other.iter().skip(usize::from(first.0));
        rest.all(|(bucket, position)| position <= self.of(bucket))
    }
}

impl FromIterator<Position> for Cursors {
    fn from_iter<T: IntoIterator<Item = Position>>(positions: T) -> Cursors {
        let positions = positions.into_iter().take(u16::MAX.into()).collect();
        Cursors { positions, floors: Arc::default() }
    }
}
