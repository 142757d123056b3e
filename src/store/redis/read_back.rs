//! An acknowledgement waits until this process has read from the log what it acknowledges: a loss
//! is noticed only if a process has read what was lost.

use std::future::Future;
use std::time::Duration;

use crate::store::{Applied, Bucket, CommitError};

use super::Shared;

/// The time that a committed transition waits for the reader to notify the observers of this
/// process.
const TOLD_MAX: Duration = Duration::from_secs(5);

impl Shared {
    /// Waits until the observers have received a commit on the master with this floor. Fails if the
    /// reader has met another master since: that one may lack the commit, and its log goes on with
    /// later entries.
    pub(super) async fn read_back(
        &self,
        (bucket, epoch_floor): (Bucket, u64),
        received: impl Future<Output = ()>,
    ) -> Result<(), CommitError> {
        if tokio::time::timeout(TOLD_MAX, received).await.is_err() {
            let reason = "the commit is applied, but not read back yet".to_string();
            return Err(self.unavailable(reason, Applied::Yes));
        }
        if self.view.is_read_under(bucket, epoch_floor) {
            return Ok(());
        }
        let reason = "another master has taken over, and may lack the commit".to_string();
        Err(self.unavailable(reason, Applied::Maybe))
    }
}

#[cfg(test)]
mod tests {
    use crate::store::redis::view::{BucketView, EntryId, View};
    use crate::store::{Bucket, Epoch};

    /// The ids of entries are times, so those of the next master follow the id of a lost entry.
    #[tokio::test]
    async fn an_entry_of_the_next_master_is_no_proof_of_a_lost_one() {
        let bucket = Bucket(0);
        let view = View::new(1, Epoch { store_id: 7, losses: 0 });
        let reads = |id| BucketView { cursor: EntryId(id, 0), ..view.bucket(bucket) };
        view.read_under(bucket, 0);
        view.replace(bucket, reads(5));
        view.until_notified(bucket, EntryId(5, 0)).await;
        assert!(view.is_read_under(bucket, 0));
        // Entry 6 is lost with its master; the next one has entry 7.
        view.read_under(bucket, 1 << 20);
        view.replace(bucket, reads(7));
        view.until_notified(bucket, EntryId(6, 0)).await;
        assert!(!view.is_read_under(bucket, 0), "entry 6 was never read");
        assert!(view.is_read_under(bucket, 1 << 20));
    }
}
