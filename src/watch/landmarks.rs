//! The moments at which the hub of a relay was proved to equal its upstream: they translate the
//! resume tokens of the store to positions of this hub, and back.
//!
//! The order in which a relay receives changes is its own, so its tokens name the upstream's
//! positions: every server of the store takes them, and every relay below.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::cursors::Cursors;
use super::error::ResumeError;
use super::resume::Verdict;
use super::token::Token;
use crate::store::{Bucket, Epoch, Position};

/// Landmarks that are kept: 17 minutes if one is kept each [`SPACING`], 600 bytes each with 64
/// buckets. An older token needs a snapshot.
const KEPT_MAX: usize = 4096;

/// Least time between two landmarks that are kept. A token between two is taken for the older one:
/// its reader receives at most the changes of this time again.
const SPACING: Duration = Duration::from_millis(250);

/// The positions of the upstream that a proved state has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proved {
    /// The epoch of the positions.
    pub epoch: Epoch,
    /// Everything up to here is in the state.
    pub all_of: Arc<Cursors>,
    /// Nothing after this is in the state. Another one than `all_of` if parts of the state were
    /// received by different watches.
    pub none_after: Arc<Cursors>,
}

#[derive(Debug)]
struct Landmark {
    /// The last change of this hub that it covers.
    at: Position,
    since: Instant,
    proved: Proved,
}

/// The landmarks, the oldest first. Each has all that the ones before it have.
#[derive(Debug, Default)]
pub(super) struct Landmarks(VecDeque<Landmark>);

impl Landmarks {
    /// Adds the newest proved state, whose last change in this hub is `at`.
    pub(super) fn add(&mut self, at: Position, proved: Proved, now: Instant) {
        let continues = |last: &Landmark| {
            let (from, to) = (&last.proved, &proved);
            let first = Bucket::default();
            from.epoch == to.epoch
                && from.all_of.buckets() == to.all_of.buckets()
                && to.all_of.reach(&from.all_of, first)
                && to.none_after.reach(&from.none_after, first)
        };
        if !self.0.back().is_none_or(continues) {
            // Another store, or an upstream that is behind the last one: no token of before.
            self.0.clear();
        }
        let is_close = |(before, last): (&Landmark, &Landmark)| {
            last.since < before.since + SPACING
                && last.proved.all_of.floors() == proved.all_of.floors()
        };
        let before = self.0.len().checked_sub(2).and_then(|at| self.0.get(at));
        if before.zip(self.0.back()).is_some_and(is_close) {
            self.0.pop_back();
        }
        if KEPT_MAX <= self.0.len() {
            self.0.pop_front();
        }
        self.0.push_back(Landmark { at, since: now, proved });
    }

    /// Returns the epoch and the cursors for a token of a reader that has received everything up to
    /// a change of this hub.
    pub(super) fn issue(&self, at: Position) -> Option<(Epoch, Arc<Cursors>)> {
        let covered = self.0.partition_point(|known| known.at <= at);
        let known = &self.0.get(covered.checked_sub(1)?)?.proved;
        Some((known.epoch, known.all_of.clone()))
    }

    /// Returns the change of this hub after which a reader with this token continues.
    pub(super) fn start_of(&self, token: &Token) -> Option<Position> {
        let first = Bucket::default();
        let covers = |known: &Landmark| token.cursors.reach(&known.proved.none_after, first);
        let covered = self.0.partition_point(covers);
        Some(self.0.get(covered.checked_sub(1)?)?.at)
    }

    /// Judges a token of any server or relay of the same store.
    pub(super) fn judge(&self, token: &Token) -> Verdict {
        let Some(newest) = self.0.back().map(|newest| &newest.proved) else {
            return Verdict::Wait;
        };
        let first = Bucket::default();
        let is_of_this_store = token.epoch.store_id == newest.epoch.store_id
            && token.cursors.buckets() == newest.all_of.buckets();
        if !is_of_this_store {
            return Verdict::Refuse(ResumeError::OtherStore);
        }
        if token.epoch.losses < newest.epoch.losses {
            return Verdict::Refuse(ResumeError::DataLoss);
        }
        if newest.epoch.losses < token.epoch.losses {
            return Verdict::Wait;
        }
        let lacks = |known: &Landmark| !known.proved.all_of.reach(&token.cursors, first);
        let floors = token.cursors.floors();
        match self.0.get(self.0.partition_point(lacks)).map(|reached| &reached.proved) {
            // The relay was once where the token is, with the same masters, and followed the store
            // from there.
            Some(reached) if reached.all_of.floors() == floors => match self.start_of(token) {
                Some(_) => Verdict::Continue,
                None => Verdict::Refuse(ResumeError::Pruned),
            },
            Some(_) => Verdict::Refuse(ResumeError::MasterLost),
            None => {
                let mut masters = floors.iter().zip(newest.all_of.floors());
                match masters.any(|(given, known)| given < known) {
                    true => Verdict::Refuse(ResumeError::MasterLost),
                    false => Verdict::Wait,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch { store_id: 7, losses: 1 };

    fn mk_cursors(positions: [u64; 2], floor: u64) -> Arc<Cursors> {
        let cursors: Cursors = positions.into_iter().map(Position).collect();
        Arc::new(cursors.with_floors([floor; 2].into()))
    }

    fn mk_proved(positions: [u64; 2], floor: u64) -> Proved {
        let cursors = mk_cursors(positions, floor);
        Proved { epoch: EPOCH, all_of: cursors.clone(), none_after: cursors }
    }

    fn mk_token(losses: u32, positions: [u64; 2], floor: u64) -> Token {
        let epoch = Epoch { losses, ..EPOCH };
        Token { epoch, cursors: mk_cursors(positions, floor), filter: 1 }
    }

    /// States at the changes 3, 5 and 9 of the hub; a master took over between the last two.
    fn mk_landmarks() -> Landmarks {
        let (mut landmarks, now) = (Landmarks::default(), Instant::now());
        landmarks.add(Position(3), mk_proved([10, 20], 1), now);
        landmarks.add(Position(5), mk_proved([12, 20], 1), now + SPACING);
        landmarks.add(Position(9), mk_proved([15, 26], 2), now + SPACING * 2);
        landmarks
    }

    #[test]
    fn each_token_has_one_verdict_and_its_start() {
        use ResumeError::{DataLoss, MasterLost, OtherStore, Pruned};
        use Verdict::{Continue, Refuse, Wait};
        let landmarks = mk_landmarks();
        for (token, verdict, start) in [
            (mk_token(1, [10, 20], 1), Continue, Some(3)),
            (mk_token(1, [11, 20], 1), Continue, Some(3)),
            (mk_token(1, [12, 20], 1), Continue, Some(5)),
            (mk_token(1, [14, 25], 2), Continue, Some(5)),
            (mk_token(1, [15, 26], 2), Continue, Some(9)),
            (mk_token(1, [9, 20], 1), Refuse(Pruned), None),
            // Between two masters: the change may be one that the failover lost.
            (mk_token(1, [14, 25], 1), Refuse(MasterLost), Some(5)),
            (mk_token(1, [16, 26], 1), Refuse(MasterLost), Some(9)),
            (mk_token(1, [16, 26], 2), Wait, Some(9)),
            (mk_token(1, [16, 26], 3), Wait, Some(9)),
            (mk_token(2, [15, 26], 2), Wait, Some(9)),
            (mk_token(0, [15, 26], 2), Refuse(DataLoss), Some(9)),
        ] {
            assert_eq!(landmarks.judge(&token), verdict, "{token:?}");
            assert_eq!(landmarks.start_of(&token), start.map(Position), "{token:?}");
        }
        let other = Token { epoch: Epoch { store_id: 8, losses: 1 }, ..mk_token(1, [10, 20], 1) };
        assert_eq!(landmarks.judge(&other), Refuse(OtherStore));
        assert_eq!(Landmarks::default().judge(&other), Wait);
    }

    #[test]
    fn a_token_that_is_issued_covers_no_change_that_was_not_sent() {
        let landmarks = mk_landmarks();
        let issued = |at| landmarks.issue(Position(at)).map(|(_, cursors)| cursors);
        assert_eq!(issued(2), None);
        assert_eq!(issued(4), Some(mk_cursors([10, 20], 1)));
        assert_eq!(issued(8), Some(mk_cursors([12, 20], 1)));
        assert_eq!(issued(99), Some(mk_cursors([15, 26], 2)));
    }

    /// Two watches of one store: one is ahead of the other.
    #[test]
    fn a_token_starts_where_no_part_is_ahead_of_it() {
        let (mut landmarks, now) = (Landmarks::default(), Instant::now());
        for (at, low, high) in [(1, [1, 1], [4, 1]), (2, [4, 1], [5, 5])] {
            let (all_of, none_after) = (mk_cursors(low, 0), mk_cursors(high, 0));
            landmarks.add(Position(at), Proved { epoch: EPOCH, all_of, none_after }, now);
        }
        let started = |positions| landmarks.start_of(&mk_token(1, positions, 0));
        assert_eq!(started([4, 1]), Some(Position(1)));
        assert_eq!(started([3, 1]), None);
    }

    #[test]
    fn landmarks_are_bounded_and_close_ones_merge() {
        let (mut landmarks, now) = (Landmarks::default(), Instant::now());
        for n in 0..100 {
            let step = Duration::from_millis(n);
            landmarks.add(Position(n), mk_proved([n, n], 0), now + step);
        }
        assert_eq!(landmarks.0.len(), 2);
        assert_eq!(landmarks.issue(Position(99)).unwrap().1, mk_cursors([99, 99], 0));
        for n in 100..100 + 2 * KEPT_MAX as u64 {
            landmarks.add(Position(n), mk_proved([n, n], 0), now + SPACING * (n as u32));
        }
        assert_eq!(landmarks.0.len(), KEPT_MAX);
        landmarks.add(Position(u64::MAX), mk_proved([1, 1], 0), now + SPACING * 1_000_000);
        assert_eq!(landmarks.0.len(), 1, "an upstream that is behind begins anew");
    }
}
