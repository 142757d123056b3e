//! Whether a reader can continue after its resume token, on this replica and now. A pure function.
//!
//! ```text
//!  token, what is known here --judge--> Continue     everything up to the token is here
//!                                       Wait         another replica is ahead: it may arrive
//!                                       Refuse(why)  the reader needs a snapshot
//! ```

use super::cursors::Cursors;
use super::error::ResumeError;
use super::masters::{Continuity, Masters};
use super::token::{StorePoint, Token};
use crate::store::{Bucket, Epoch};

/// What this replica knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here<'h> {
    /// The epoch of the positions.
    pub(super) epoch: Epoch,
    /// The changes that this replica has received.
    pub(super) cursors: &'h Cursors,
    /// The masters that this replica has met.
    pub(super) masters: &'h Masters,
    /// The positions up to which tombstones were pruned.
    pub(super) forgotten: &'h Cursors,
    /// Whether other replicas use the store, so that one may be ahead of this one.
    pub(super) is_shared: bool,
}

/// What becomes of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It continues.
    Continue,
    /// It waits until this replica has received more.
    Wait,
    /// It starts anew.
    Refuse(ResumeError),
}

/// Judges a token. Later it may be judged otherwise, because this replica has received more.
pub(super) fn judge(token: &Token, here: Here<'_>) -> Verdict {
    let Here { epoch, cursors, masters, forgotten, is_shared } = here;
    let is_of_this_store = |point: &&StorePoint| {
        point.epoch.store_id == epoch.store_id && point.cursors.buckets() == cursors.buckets()
    };
    let Some(token) = token.only().filter(is_of_this_store) else {
        return Verdict::Refuse(ResumeError::OtherStore);
    };
    if token.epoch.losses < epoch.losses {
        return Verdict::Refuse(ResumeError::DataLoss);
    }
    let continuity = masters.judge(&token.cursors);
    if continuity == Continuity::Lost {
        return Verdict::Refuse(ResumeError::MasterLost);
    }
    let first = Bucket::default();
    if !token.cursors.reach(forgotten, first) {
        return Verdict::Refuse(ResumeError::Pruned);
    }
    let is_reached = token.epoch.losses <= epoch.losses
        && continuity == Continuity::Continued
        && cursors.reach(&token.cursors, first);
    match (is_reached, is_shared) {
        (true, _) => Verdict::Continue,
        (false, true) => Verdict::Wait,
        (false, false) => Verdict::Refuse(ResumeError::Ahead),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::{Position, Takeover};

    const STORE: u64 = 7;

    fn mk_cursors(positions: &[u64]) -> Cursors {
        positions.iter().copied().map(Position).collect()
    }

    /// Returns a token after these positions, each read from the master with this floor.
    fn mk_token((store_id, losses): (u64, u32), positions: &[u64], floor: u64) -> Token {
        let floors = positions.iter().map(|_| floor).collect();
        let cursors = mk_cursors(positions).with_floors(floors);
        Token::of(Epoch { store_id, losses }, Arc::new(cursors), 1)
    }

    /// Two buckets at position 20, after one data loss, with the masters 0 and 50; the second one
    /// has taken over at position 15. Tombstones up to 10 are pruned.
    #[test]
    fn each_token_has_one_verdict_and_its_cause() {
        use ResumeError::{Ahead, DataLoss, MasterLost, OtherStore, Pruned};
        use Verdict::{Continue, Refuse, Wait};
        let takeover = |(epoch_floor, last)| Takeover { epoch_floor, last: Position(last) };
        let mut masters = Masters::default();
        (0..2).for_each(|b| masters.set(Bucket(b), &[(0, 0), (50, 15)].map(takeover)));
        let (cursors, forgotten) = (mk_cursors(&[20, 20]), mk_cursors(&[10, 0]));
        let epoch = Epoch { store_id: STORE, losses: 1 };
        let now = (STORE, 1);
        for (token, shared, alone) in [
            (mk_token(now, &[20, 20], 50), Continue, Continue),
            (mk_token(now, &[10, 0], 50), Continue, Continue),
            (mk_token(now, &[15, 15], 0), Continue, Continue),
            // Another replica is ahead in one bucket, in the epoch, or in the master.
            (mk_token(now, &[20, 21], 50), Wait, Refuse(Ahead)),
            (mk_token((STORE, 2), &[20, 20], 50), Wait, Refuse(Ahead)),
            (mk_token(now, &[20, 20], 51), Wait, Refuse(Ahead)),
            (mk_token((8, 1), &[20, 20], 50), Refuse(OtherStore), Refuse(OtherStore)),
            (mk_token(now, &[20], 50), Refuse(OtherStore), Refuse(OtherStore)),
            (mk_token((STORE, 0), &[20, 20], 50), Refuse(DataLoss), Refuse(DataLoss)),
            (mk_token(now, &[16, 15], 0), Refuse(MasterLost), Refuse(MasterLost)),
            (mk_token(now, &[20, 20], 40), Refuse(MasterLost), Refuse(MasterLost)),
            (mk_token(now, &[9, 20], 50), Refuse(Pruned), Refuse(Pruned)),
            // What is lost for ever comes before what may arrive.
            (mk_token(now, &[9, 21], 50), Refuse(Pruned), Refuse(Pruned)),
            (mk_token((STORE, 0), &[9, 21], 50), Refuse(DataLoss), Refuse(DataLoss)),
        ] {
            for (is_shared, expected) in [(true, shared), (false, alone)] {
                let (cursors, masters, forgotten) = (&cursors, &masters, &forgotten);
                let here = Here { epoch, cursors, masters, forgotten, is_shared };
                assert_eq!(judge(&token, here), expected, "{token:?}, shared: {is_shared}");
            }
        }
    }

    /// A store without masters, as of earlier versions and in one file.
    #[test]
    fn a_store_of_one_bucket_may_be_shared() {
        let (cursors, forgotten) = (mk_cursors(&[5]), mk_cursors(&[0]));
        let (epoch, masters) = (Epoch { store_id: STORE, losses: 0 }, Masters::default());
        let token = mk_token((STORE, 0), &[6], 0);
        let here = |is_shared| Here {
            epoch,
            cursors: &cursors,
            masters: &masters,
            forgotten: &forgotten,
            is_shared,
        };
        assert_eq!(judge(&token, here(true)), Verdict::Wait);
        assert_eq!(judge(&token, here(false)), Verdict::Refuse(ResumeError::Ahead));
    }
}
