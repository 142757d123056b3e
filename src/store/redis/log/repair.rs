//! Finds what a restart or failover has lost: compares what this process has seen with what Redis
//! has.
//!
//! Ordinary commits of heads correct the differences. Each gets a revision above the one that was
//! seen, so none is used twice, and a position after all that were seen, so observers receive
//! changes in order. An application that returned in an older state is shown as waiting until the
//! aggregator has made its units uncertain. An application that is gone becomes a tombstone. A
//! revision that this process has answered and not read counts as lost if its entry is gone: a
//! later commit of another history may have the same revision.

use crate::domain::app::Head;
use crate::domain::data_loss::uncertain_head;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::store::redis::record::batch::Batch;
use crate::store::redis::record::state::MasterNote;
use crate::store::{Bucket, Position};

use super::view::BucketView;

/// The commits to make before observers are notified.
#[derive(Default)]
pub(super) struct Repairs {
    /// Whether writes were lost.
    pub(super) lost: bool,
    /// The commits.
    pub(super) batches: Vec<Batch>,
    /// The revision floor that the bucket needs: the one that was seen, or the revision of a newer
    /// tombstone that is gone.
    pub(super) floor: Revision,
}

/// Compares what was seen of a bucket with what it has now.
pub(super) fn compare(
    bucket: Bucket,
    seen: &BucketView,
    found: &BucketView,
    note: &MasterNote,
    time: Timestamp,
) -> Repairs {
    let (was, is) = (seen.heads.marks(), found.heads.marks());
    let mut repairs = Repairs {
        lost: is.last < was.last || found.losses < seen.losses,
        floor: was.revision_floor,
        ..Repairs::default()
    };
    // Returns the commit that raises a head above the revision that was seen.
    let raise = |app: &AppName, now: &Head, seen: Revision| {
        let put = Head { revision: now.revision.max(seen).next(), ..now.clone() };
        let put = uncertain_head(put, found.losses, note.epoch_floor, time);
        Batch::of_head(app, bucket, (now.revision, note), put)
    };
    for known in seen.heads.changes_after(Position(0)) {
        let (app, head) = (&known.app, &*known.head);
        match found.heads.get(app) {
            Some((position, now)) => {
                let now = &*now.head();
                let same = is_same(head, now) && *position == known.position;
                if !same && (*position <= was.last || now.revision <= head.revision) {
                    repairs.batches.push(raise(app, now, head.revision));
                    repairs.lost = true;
                }
            }
            None => {
                // The application was deleted and pruned while this process did not follow the log.
                let was_forgotten =
                    known.position <= is.forgotten && head.revision <= is.revision_floor;
                repairs.lost |= !was_forgotten;
                if head.deleted {
                    repairs.floor = repairs.floor.max(head.revision);
                } else {
                    let tombstone = Head::unknown(is.revision_floor.max(head.revision).next());
                    let base = (is.revision_floor, note);
                    repairs.batches.push(Batch::of_head(app, bucket, base, tombstone));
                }
            }
        }
    }
    // Applications of another history, at positions that were given out before.
    for other in found.heads.changes_after(Position(0)) {
        if other.position <= was.last && seen.heads.get(&other.app).is_none() {
            repairs.batches.push(raise(&other.app, &other.head, other.head.revision));
            repairs.lost = true;
        }
    }
    for (app, answered) in seen.unread.before(note.epoch_floor) {
        repairs.lost = true;
        match found.heads.get(app) {
            Some((_, now)) if now.revision() <= answered => {
                repairs.batches.push(raise(app, &now.head(), answered));
            }
            Some(_) => {}
            None => repairs.floor = repairs.floor.max(answered),
        }
    }
    repairs
}

/// Returns whether two heads of one revision are the same. A quiet commit changes `next_due`, the
/// usage and its own count, and writes the end of a lease that an outage has extended. No observer
/// receives it, so these may differ.
fn is_same(seen: &Head, found: &Head) -> bool {
    let Head { next_due, quiet_commits, counts, .. } = *seen;
    let mut found = Head { next_due, quiet_commits, counts, ..found.clone() };
    if let (Some(was), Some(is)) = (&seen.lease, &mut found.lease) {
        is.ends = was.ends;
    }
    *seen == found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::domain::leadership::Lease;
    use crate::domain::name::UnitName;
    use crate::domain::usage::StoredCounts;

    use super::*;

    /// A heartbeat of an operation is a quiet commit, and its checkpoint counts as usage.
    #[test]
    fn a_quiet_commit_is_no_data_loss() {
        let seen = Head { counts: Some(StoredCounts::default()), ..Head::empty(Revision(7)) };
        let counts = Some(StoredCounts { record_bytes: 6, ..StoredCounts::default() });
        let next_due = Some(Timestamp::new(1));
        let found = Head { counts, next_due, quiet_commits: 1, ..seen.clone() };
        assert!(is_same(&seen, &found));
        assert!(!is_same(&seen, &Head { lease_epoch: 1, ..found }));
    }

    /// After an outage the leader gets the length of its lease again. The next commit writes that,
    /// even a quiet one.
    #[test]
    fn a_lease_that_an_outage_extends_is_no_data_loss() {
        let lease = |holder: &str, ends| Lease {
            holder: UnitName::new(holder).unwrap(),
            incarnation: 1,
            duration: Duration::from_secs(15),
            acquire_time: Timestamp::new(0),
            ends: Some(Timestamp::new(ends)),
        };
        let head = |lease| Head { lease: Some(lease), ..Head::empty(Revision(17)) };
        let seen = head(lease("web/0", 34_400));
        assert!(is_same(&seen, &head(lease("web/0", 37_400))));
        assert!(!is_same(&seen, &head(lease("web/1", 34_400))));
        assert!(!is_same(&seen, &Head::empty(Revision(17))));
    }
}
