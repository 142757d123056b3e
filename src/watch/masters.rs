//! The masters that each bucket of a store had. A reader that resumes has read each bucket from one
//! of them; what the next one lacks is lost.
//!
//! A server counts a data loss if it has seen what is lost. If all these servers have ended, only
//! the tokens of their readers are left to show it.

use super::cursors::Cursors;
use crate::store::{Bucket, Position, Takeover};

/// The masters of each bucket, oldest first. Empty for a store without masters.
#[derive(Debug, Default)]
pub(super) struct Masters(Vec<Box<[Takeover]>>);

/// Whether the changes that a reader has received are in the history of this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Continuity {
    /// They are, or will be.
    Continued,
    /// The reader has read from a master that this replica has not met.
    NotMet,
    /// A master that took over since lacks some of them.
    Lost,
}

impl Masters {
    /// Replaces the masters of a bucket.
    pub(super) fn set(&mut self, bucket: Bucket, takeovers: &[Takeover]) {
        let place = usize::from(bucket.0);
        if self.0.len() <= place {
            self.0.resize(place + 1, Box::default());
        }
        if let Some(known) = self.0.get_mut(place) {
            *known = takeovers.into();
        }
    }

    /// Judges everything up to these cursors.
    pub(super) fn judge(&self, cursors: &Cursors) -> Continuity {
        let buckets = cursors.iter().map(|(bucket, _)| self.judge_bucket(bucket, cursors));
        buckets.max().unwrap_or(Continuity::Continued)
    }

    /// Judges the changes of one bucket up to these cursors.
    pub(super) fn judge_bucket(&self, bucket: Bucket, cursors: &Cursors) -> Continuity {
        let place = usize::from(bucket.0);
        let (Some(masters), Some(floor)) = (self.0.get(place), cursors.floors().get(place)) else {
            return Continuity::Continued;
        };
        judge(masters, *floor, cursors.of(bucket))
    }
}

fn judge(masters: &[Takeover], floor: u64, position: Position) -> Continuity {
    let Some(newest) = masters.last() else { return Continuity::Continued };
    match Takeover::after(masters, floor) {
        Some(later) if later.iter().all(|later| position <= later.last) => Continuity::Continued,
        None if newest.epoch_floor < floor => Continuity::NotMet,
        // Of a master that is not noted: the note is lost, or too many masters have followed.
        Some(_) | None => Continuity::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_the_next_master_lacks_are_lost() {
        let mk = |&(epoch_floor, last)| Takeover { epoch_floor, last: Position(last) };
        let masters: Vec<Takeover> = [(0, 0), (50, 104), (90, 110)].iter().map(mk).collect();
        let cases = [
            ((0, 104), Continuity::Continued),
            ((0, 105), Continuity::Lost),
            ((50, 110), Continuity::Continued),
            ((50, 111), Continuity::Lost),
            ((90, u64::MAX), Continuity::Continued),
            ((70, 1), Continuity::Lost),
            ((91, 1), Continuity::NotMet),
        ];
        for ((floor, position), expected) in cases {
            let found = judge(&masters, floor, Position(position));
            assert_eq!(found, expected, "{position} of the master with floor {floor}");
        }
    }

    #[test]
    fn one_bucket_decides() {
        let mut masters = Masters::default();
        let takeover = |epoch_floor, last| Takeover { epoch_floor, last: Position(last) };
        masters.set(Bucket(2), &[takeover(0, 0), takeover(50, 1)]);
        let cursors =
            |positions: [u64; 3]| positions.into_iter().map(Position).collect::<Cursors>();
        let read = |positions, floors: [u64; 3]| cursors(positions).with_floors(floors.into());
        assert_eq!(masters.judge(&read([9, 9, 1], [0; 3])), Continuity::Continued);
        assert_eq!(masters.judge(&read([9, 9, 2], [0; 3])), Continuity::Lost);
        assert_eq!(masters.judge(&read([9, 9, 2], [0, 0, 50])), Continuity::Continued);
        assert_eq!(masters.judge(&read([9, 9, 2], [0, 0, 51])), Continuity::NotMet);
        // A token of an earlier version does not name its masters.
        assert_eq!(masters.judge(&cursors([9, 9, 2])), Continuity::Continued);
    }
}
