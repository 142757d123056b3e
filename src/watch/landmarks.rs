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
use super::token::{StorePoint, Token};
use crate::store::{Bucket, Epoch, Position};

/// Landmarks that are kept: 17 minutes if one is kept each [`SPACING`], 600 bytes each with 64
/// buckets. An older token needs a snapshot.
const KEPT_MAX: usize = 4096;

/// Least time between two landmarks that are kept. A token between two is taken for the older one:
/// its reader receives at most the changes of this time again.
const SPACING: Duration = Duration::from_millis(250);

const FIRST: Bucket = Bucket(0);

/// The positions of the upstream that a proved state has: those of its store, or of each store if
/// it is a relay with several upstreams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proved(Vec<ProvedStore>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ProvedStore {
    epoch: Epoch,
    /// Everything up to here is in the state.
    all_of: Arc<Cursors>,
    /// Nothing after this is in the state. Another one than `all_of` if parts of the state were
    /// received by different watches.
    none_after: Arc<Cursors>,
}

impl Proved {
    /// Returns what a bookmark with this token proves.
    pub fn by(token: &Token) -> Proved {
        let stores = token.stores.iter().map(|StorePoint { epoch, cursors }| ProvedStore {
            epoch: *epoch,
            all_of: cursors.clone(),
            none_after: cursors.clone(),
        });
        Proved(stores.collect())
    }

    /// Returns the epochs of the stores.
    pub fn epochs(&self) -> impl Iterator<Item = Epoch> {
        self.0.iter().map(|store| store.epoch)
    }

    /// Returns what two parts prove together; `None` if they are of different histories.
    pub fn joined(self, other: &Proved) -> Option<Proved> {
        if !self.epochs().eq(other.epochs()) {
            return None;
        }
        let stores = self.0.into_iter().zip(&other.0).map(|(own, other)| ProvedStore {
            epoch: own.epoch,
            all_of: Arc::new(Cursors::lowest(&own.all_of, &other.all_of)),
            none_after: Arc::new(Cursors::highest(&own.none_after, &other.none_after)),
        });
        Some(Proved(stores.collect()))
    }

    /// Returns whether it is a later state of the same histories.
    fn continues(&self, before: &Proved) -> bool {
        let continues = |(from, to): (&ProvedStore, &ProvedStore)| {
            from.epoch == to.epoch
                && from.all_of.buckets() == to.all_of.buckets()
                && to.all_of.reach(&from.all_of, FIRST)
                && to.none_after.reach(&from.none_after, FIRST)
        };
        self.0.len() == before.0.len() && before.0.iter().zip(&self.0).all(continues)
    }

    fn has_masters_of(&self, other: &Proved) -> bool {
        let floors = other.0.iter().map(|store| store.all_of.floors());
        self.0.iter().map(|store| store.all_of.floors()).eq(floors)
    }

    /// Returns whether each pair of a store and its point passes; the stores are the same.
    fn all(&self, points: &[&StorePoint], passes: impl Fn(&ProvedStore, &Cursors) -> bool) -> bool {
        self.0.iter().zip(points).all(|(store, point)| passes(store, &point.cursors))
    }
}

#[derive(Debug)]
struct Landmark {
    /// The last change of this hub that it covers.
    at: Position,
    since: Instant,
    proved: Proved,
}

/// The landmarks of one upstream, the oldest first. Each has all that the ones before it have.
#[derive(Debug, Default)]
pub(super) struct Landmarks(VecDeque<Landmark>);

impl Landmarks {
    /// Adds the newest proved state, whose last change in this hub is `at`.
    pub(super) fn add(&mut self, at: Position, proved: Proved, now: Instant) {
        if !self.newest().is_none_or(|last| proved.continues(last)) {
            // Another store, or an upstream that is behind the last one: no token of before.
            self.0.clear();
        }
        let is_close = |(before, last): (&Landmark, &Landmark)| {
            last.since < before.since + SPACING && last.proved.has_masters_of(&proved)
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

    /// Returns the newest state; `None` before the first one.
    pub(super) fn newest(&self) -> Option<&Proved> {
        self.0.back().map(|newest| &newest.proved)
    }

    /// Returns the points of a token in the stores of this upstream.
    pub(super) fn points<'t>(&self, token: &'t Token) -> Vec<&'t StorePoint> {
        let is_own = |point: &&StorePoint| {
            let mut epochs = self.newest().into_iter().flat_map(Proved::epochs);
            epochs.any(|own| own.store_id == point.epoch.store_id)
        };
        token.stores.iter().filter(is_own).collect()
    }

    /// Returns the points of a token of a reader that has received everything up to a change of
    /// this hub; `None` if no landmark is so old.
    pub(super) fn issue(&self, at: Position) -> Option<impl Iterator<Item = StorePoint>> {
        let covered = self.0.partition_point(|known| known.at <= at);
        let known = &self.0.get(covered.checked_sub(1)?)?.proved;
        let point = |store: &ProvedStore| {
            let (epoch, cursors) = (store.epoch, store.all_of.clone());
            StorePoint { epoch, cursors }
        };
        Some(known.0.iter().map(point))
    }

    /// Returns the change of this hub after which a reader at these points continues.
    pub(super) fn start_of(&self, points: &[&StorePoint]) -> Option<Position> {
        let covers = |known: &Landmark| {
            known.proved.all(points, |store, cursors| cursors.reach(&store.none_after, FIRST))
        };
        let covered = self.0.partition_point(covers);
        Some(self.0.get(covered.checked_sub(1)?)?.at)
    }

    /// Judges the points of a token of any server or relay of the same stores.
    pub(super) fn judge(&self, points: &[&StorePoint]) -> Verdict {
        let Some(newest) = self.newest() else { return Verdict::Wait };
        let is_of = |(store, point): (&ProvedStore, &&StorePoint)| {
            point.epoch.store_id == store.epoch.store_id
                && point.cursors.buckets() == store.all_of.buckets()
        };
        if newest.0.len() != points.len() || !newest.0.iter().zip(points).all(is_of) {
            return Verdict::Refuse(ResumeError::OtherStore);
        }
        let losses = || newest.0.iter().zip(points).map(|(own, given)| (own.epoch, given.epoch));
        if losses().any(|(own, given)| given.losses < own.losses) {
            return Verdict::Refuse(ResumeError::DataLoss);
        }
        if losses().any(|(own, given)| own.losses < given.losses) {
            return Verdict::Wait;
        }
        let lacks = |known: &Landmark| {
            !known.proved.all(points, |store, cursors| store.all_of.reach(cursors, FIRST))
        };
        match self.0.get(self.0.partition_point(lacks)).map(|reached| &reached.proved) {
            // The relay was once where the token is, with the same masters, and followed the stores
            // from there.
            Some(reached) if reached.all(points, |s, c| s.all_of.floors() == c.floors()) => {
                match self.start_of(points) {
                    Some(_) => Verdict::Continue,
                    None => Verdict::Refuse(ResumeError::Pruned),
                }
            }
            Some(_) => Verdict::Refuse(ResumeError::MasterLost),
            None => {
                let has_no_older_master = |store: &ProvedStore, cursors: &Cursors| {
                    let mut masters = cursors.floors().iter().zip(store.all_of.floors());
                    masters.all(|(given, known)| known <= given)
                };
                match newest.all(points, has_no_older_master) {
                    true => Verdict::Wait,
                    false => Verdict::Refuse(ResumeError::MasterLost),
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
        Proved::by(&Token::of(EPOCH, mk_cursors(positions, floor), 1))
    }

    fn mk_token(losses: u32, positions: [u64; 2], floor: u64) -> Token {
        let epoch = Epoch { losses, ..EPOCH };
        Token::of(epoch, mk_cursors(positions, floor), 1)
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
            let points = landmarks.points(&token);
            assert_eq!(landmarks.judge(&points), verdict, "{token:?}");
            assert_eq!(landmarks.start_of(&points), start.map(Position), "{token:?}");
        }
        let epoch = Epoch { store_id: 8, losses: 1 };
        let other = Token::of(epoch, mk_cursors([10, 20], 1), 1);
        assert_eq!(landmarks.judge(&[&other.stores[0]]), Refuse(OtherStore));
        assert_eq!(landmarks.judge(&landmarks.points(&other)), Refuse(OtherStore));
        assert_eq!(Landmarks::default().judge(&[]), Wait);
    }

    #[test]
    fn a_token_that_is_issued_covers_no_change_that_was_not_sent() {
        let landmarks = mk_landmarks();
        let issued = |at| landmarks.issue(Position(at)).map(|mut at| at.next().unwrap().cursors);
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
            let proved = mk_proved(low, 0).joined(&mk_proved(high, 0)).unwrap();
            landmarks.add(Position(at), proved, now);
        }
        let started = |positions| landmarks.start_of(&[&mk_token(1, positions, 0).stores[0]]);
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
        let newest = landmarks.issue(Position(99)).unwrap().next().unwrap();
        assert_eq!(newest.cursors, mk_cursors([99, 99], 0));
        for n in 100..100 + 2 * KEPT_MAX as u64 {
            landmarks.add(Position(n), mk_proved([n, n], 0), now + SPACING * (n as u32));
        }
        assert_eq!(landmarks.0.len(), KEPT_MAX);
        landmarks.add(Position(u64::MAX), mk_proved([1, 1], 0), now + SPACING * 1_000_000);
        assert_eq!(landmarks.0.len(), 1, "an upstream that is behind begins anew");
    }
}
