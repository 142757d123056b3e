//! The upstreams of a relay: each is a bucket of its hub, with landmarks of its own. A token of a
//! reader names the positions of all stores behind them.

use std::sync::Arc;

use tokio::time::Instant;

use super::cursors::Cursors;
use super::error::ResumeError;
use super::landmarks::{Landmarks, Proved};
use super::resume::Verdict;
use super::token::{StorePoint, Token};
use crate::store::{Bucket, Epoch, Position};

/// The landmarks of each upstream, by its bucket.
#[derive(Debug)]
pub(super) struct UpstreamLandmarks(Vec<Landmarks>);

impl UpstreamLandmarks {
    /// Creates the landmarks of this number of upstreams.
    pub(super) fn new(upstreams: u16) -> UpstreamLandmarks {
        UpstreamLandmarks((0..upstreams).map(|_| Landmarks::default()).collect())
    }

    /// Adds the newest proved state of an upstream.
    pub(super) fn add(&mut self, upstream: Bucket, at: Position, proved: Proved, now: Instant) {
        if let Some(landmarks) = self.0.get_mut(usize::from(upstream.0)) {
            landmarks.add(at, proved, now);
        }
    }

    /// Returns the epoch of all stores once an upstream has proved this.
    pub(super) fn epoch_with(&self, upstream: Bucket, proved: &Proved) -> Epoch {
        let others = (0..).map(Bucket).zip(&self.0).filter(|(bucket, _)| *bucket != upstream);
        let others = others.filter_map(|(_, landmarks)| landmarks.newest());
        StorePoint::epoch_of(others.chain([proved]).flat_map(Proved::epochs))
    }

    /// Returns whether an upstream was in the histories that a token names.
    pub(super) fn is_of(&self, upstream: Bucket, token: &Token) -> bool {
        let newest = self.0.get(usize::from(upstream.0)).and_then(Landmarks::newest);
        newest.is_some_and(|newest| newest.epochs().eq(token.stores.iter().map(|s| s.epoch)))
    }

    /// Judges a token. A reader of fewer stores would not learn of what the others removed, nor one
    /// of more.
    pub(super) fn judge(&self, token: &Token) -> Verdict {
        let known = || self.0.iter().filter(|landmarks| landmarks.newest().is_some());
        let (mut verdict, mut count) = (Verdict::Continue, 0);
        for landmarks in known() {
            let points = landmarks.points(token);
            count += points.len();
            match landmarks.judge(&points) {
                Verdict::Continue => {}
                Verdict::Wait => verdict = Verdict::Wait,
                Verdict::Refuse(why) => return Verdict::Refuse(why),
            }
        }
        match count == token.stores.len() {
            true if count != 0 => verdict,
            // An upstream that was not reached yet may have the store.
            _ if known().count() < self.0.len() => Verdict::Wait,
            _ => Verdict::Refuse(ResumeError::OtherStore),
        }
    }

    /// Returns the cursors of this hub from which a reader with this token continues.
    pub(super) fn start_of(&self, token: &Token) -> Option<Arc<Cursors>> {
        let start = |landmarks: &Landmarks| match landmarks.newest() {
            Some(_) => landmarks.start_of(&landmarks.points(token)),
            None => Some(Position::default()),
        };
        self.0.iter().map(start).collect::<Option<Cursors>>().map(Arc::new)
    }

    /// Returns the token of a reader that has received everything up to these cursors of this hub;
    /// `None` if the landmarks of that time are gone.
    pub(super) fn issue(&self, cursors: &Cursors, filter: u64) -> Option<Token> {
        let mut stores: Vec<StorePoint> = Vec::new();
        for ((_, at), landmarks) in cursors.iter().zip(&self.0) {
            match landmarks.issue(at) {
                Some(points) => stores.extend(points),
                // From before the first state of the upstream: the reader has nothing of it.
                None if at == Position::default() => {}
                None => return None,
            }
        }
        stores.sort_by_key(|store| store.epoch.store_id);
        (!stores.is_empty()).then_some(Token { stores, filter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_point(store_id: u64, position: u64) -> StorePoint {
        let cursors = Arc::new(Cursors::from_iter([Position(position)]));
        StorePoint { epoch: Epoch { store_id, losses: 0 }, cursors }
    }

    fn mk_token(points: &[(u64, u64)]) -> Token {
        let stores = points.iter().map(|(store_id, position)| mk_point(*store_id, *position));
        Token { stores: stores.collect(), filter: 1 }
    }

    /// The first upstream has the store 9, at 10 and 20; the second one the stores 3 and 12.
    fn mk_origins() -> UpstreamLandmarks {
        let (mut origins, now) = (UpstreamLandmarks::new(2), Instant::now());
        let mut add = |upstream, at, points: &[(u64, u64)]| {
            let proved = Proved::by(&mk_token(points));
            origins.add(Bucket(upstream), Position(at), proved, now);
        };
        add(0, 4, &[(9, 10)]);
        add(0, 6, &[(9, 20)]);
        add(1, 2, &[(3, 5), (12, 7)]);
        origins
    }

    fn mk_cursors(positions: [u64; 2]) -> Cursors {
        positions.into_iter().map(Position).collect()
    }

    #[test]
    fn a_token_names_every_store_and_continues_at_each_upstream() {
        let origins = mk_origins();
        let token = origins.issue(&mk_cursors([5, 2]), 1).unwrap();
        assert_eq!(token, mk_token(&[(3, 5), (9, 10), (12, 7)]));
        assert_eq!(origins.judge(&token), Verdict::Continue);
        assert_eq!(*origins.start_of(&token).unwrap(), mk_cursors([4, 2]));
        let ahead = mk_token(&[(3, 5), (9, 21), (12, 7)]);
        assert_eq!(origins.judge(&ahead), Verdict::Wait);
        assert_eq!(Token::decode(&token.encode()), Ok(token));
    }

    #[test]
    fn a_token_of_fewer_or_more_stores_is_refused() {
        let origins = mk_origins();
        let refused = Verdict::Refuse(ResumeError::OtherStore);
        for points in [
            &[(9, 10)][..],
            &[(3, 5), (12, 7)],
            &[(3, 5), (9, 10)],
            &[(3, 5), (9, 10), (12, 7), (40, 1)],
            &[(40, 1)],
        ] {
            assert_eq!(origins.judge(&mk_token(points)), refused, "{points:?}");
        }
    }

    #[test]
    fn a_reader_has_nothing_of_an_upstream_before_its_first_state() {
        let mut origins = UpstreamLandmarks::new(2);
        assert_eq!(origins.judge(&mk_token(&[(9, 10)])), Verdict::Wait);
        assert_eq!(origins.issue(&mk_cursors([0, 0]), 1), None);
        let now = Instant::now();
        let first = Proved::by(&mk_token(&[(9, 10)]));
        origins.add(Bucket(0), Position(4), first.clone(), now);
        let alone = origins.issue(&mk_cursors([4, 0]), 1).unwrap();
        assert_eq!(alone, mk_token(&[(9, 10)]));
        assert_eq!(origins.judge(&alone), Verdict::Continue);
        assert_eq!(*origins.start_of(&alone).unwrap(), mk_cursors([4, 0]));
        // Of both, before this relay has reached the second one.
        assert_eq!(origins.judge(&mk_token(&[(3, 5), (9, 10)])), Verdict::Wait);
        let other = Proved::by(&mk_token(&[(3, 5)]));
        assert_eq!(origins.epoch_with(Bucket(0), &first), alone.epoch());
        assert_ne!(origins.epoch_with(Bucket(1), &other), alone.epoch());
        origins.add(Bucket(1), Position(3), other, now);
        // What that one removed before is not known here, but to the reader it may be.
        assert_eq!(origins.judge(&alone), Verdict::Refuse(ResumeError::OtherStore));
        assert_eq!(origins.issue(&mk_cursors([4, 0]), 1), Some(alone));
        assert_eq!(origins.issue(&mk_cursors([3, 3]), 1), None, "the landmark is gone");
    }

    #[test]
    fn an_upstream_with_another_history_is_noticed() {
        let origins = mk_origins();
        assert!(origins.is_of(Bucket(0), &mk_token(&[(9, 99)])));
        assert!(origins.is_of(Bucket(1), &mk_token(&[(3, 1), (12, 1)])));
        assert!(!origins.is_of(Bucket(1), &mk_token(&[(3, 1)])));
        assert!(!origins.is_of(Bucket(2), &mk_token(&[(9, 99)])));
    }
}
