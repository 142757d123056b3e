//! An acknowledgement of a commit waits until this process has read the commit from the log: a loss
//! is noticed only if a process has read what was lost. An answer without a commit does not wait,
//! so that a process whose reader is late can give it. What it relies on is remembered instead
//! (`unread.rs`), and counts as lost if another master is met before it was read.

use std::time::Duration;

use crate::domain::transition::Transition;
use crate::store::{Applied, Bucket, CommitError, ConflictCause, Store as _, Version};

use super::entry::EntryId;
use super::{RedisStore, Shared};

/// The time that a committed transition waits for the reader to notify the observers of this
/// process.
const READ_BACK_TIMEOUT: Duration = Duration::from_secs(5);

impl Shared {
    /// Waits until the observers have received a commit on the master with this floor. Fails if the
    /// reader has met another master since: that one may lack the commit, and its log goes on with
    /// later entries.
    pub(super) async fn read_back(
        &self,
        bucket: Bucket,
        epoch_floor: u64,
        id: EntryId,
    ) -> Result<(), CommitError> {
        let received = self.view.until_notified(bucket, id);
        if tokio::time::timeout(READ_BACK_TIMEOUT, received).await.is_err() {
            let reason = "the commit is applied, but not read back yet".to_string();
            return Err(self.unavailable(reason, Applied::Yes));
        }
        match self.view.reader_floor(bucket) <= epoch_floor {
            true => Ok(()),
            false => Err(self.may_be_lost()),
        }
    }

    fn not_read_back(&self, why: &str) -> CommitError {
        let reason = format!("the commit is applied, but what it is based on is not read: {why}");
        self.unavailable(reason, Applied::Yes)
    }

    fn may_be_lost(&self) -> CommitError {
        let reason = "another master has taken over, and may lack the commit".to_string();
        self.unavailable(reason, Applied::Maybe)
    }
}

impl RedisStore {
    /// Lets the answers of a commit without an entry of the log rely on the state that the commit
    /// is based on.
    pub(super) async fn rely_on_base(
        &self,
        transition: &Transition,
        bucket: Bucket,
    ) -> Result<(), CommitError> {
        let Transition { app, base, base_quiet, epoch_floor, head, .. } = transition;
        if *base <= self.shared.view.revision(bucket, app) {
            return Ok(());
        }
        let quiet_commits = if transition.is_durable() { head.quiet_commits } else { *base_quiet };
        let version = Version { revision: *base, quiet_commits, epoch_floor: *epoch_floor };
        let Err(error) = self.confirm(app, version).await else { return Ok(()) };
        Err(match error {
            // Nothing was written, so the caller decides again.
            error if !transition.is_durable() => error,
            CommitError::Conflict { cause: ConflictCause::Master, .. } => self.shared.may_be_lost(),
            CommitError::Conflict { cause, .. } => self.shared.not_read_back(&cause.to_string()),
            CommitError::Unavailable { reason, .. } => self.shared.not_read_back(&reason),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::name::AppName;
    use crate::domain::revision::Revision;
    use crate::store::redis::entry::EntryId;
    use crate::store::redis::unread::Confirmed;
    use crate::store::redis::view::{BucketView, View};
    use crate::store::{Bucket, Epoch};

    /// The answer of a former master arrives after the reader has met the next one.
    #[test]
    fn no_answer_relies_on_a_former_master() {
        let (bucket, app) = (Bucket(0), AppName::new("test", "web").unwrap());
        let view = View::new(1, Epoch { store_id: 7, losses: 0 });
        view.meet_master(bucket, 0, Vec::new());
        let confirmed = |epoch_floor| {
            let entry = EntryId(9, 0);
            view.rely_on(bucket, &app, Confirmed { revision: Revision(1), epoch_floor, entry })
        };
        assert!(confirmed(0));
        assert_eq!(view.last_unread_entry(bucket, 0), None, "its master still serves");
        view.meet_master(bucket, 1, Vec::new());
        assert_eq!(view.last_unread_entry(bucket, 1), Some(EntryId(9, 0)));
        assert!(!confirmed(0));
        // The next master has it, and the one after that does not.
        view.confirm_unread(bucket, 1);
        assert_eq!(view.last_unread_entry(bucket, 1), None);
        view.meet_master(bucket, 2, Vec::new());
        assert_eq!(view.last_unread_entry(bucket, 2), Some(EntryId(9, 0)));
        view.replace(bucket, view.bucket(bucket));
        assert_eq!(view.last_unread_entry(bucket, 2), None);
    }

    /// The ids of entries are times, so those of the next master follow the id of a lost entry.
    #[tokio::test]
    async fn an_entry_of_the_next_master_is_no_proof_of_a_lost_one() {
        let bucket = Bucket(0);
        let view = View::new(1, Epoch { store_id: 7, losses: 0 });
        let reads = |id| BucketView { cursor: EntryId(id, 0), ..view.bucket(bucket) };
        view.meet_master(bucket, 0, Vec::new());
        view.replace(bucket, reads(5));
        view.until_notified(bucket, EntryId(5, 0)).await;
        assert_eq!(view.reader_floor(bucket), 0);
        // Entry 6 is lost with its master; the next one has entry 7.
        view.meet_master(bucket, 1 << 20, Vec::new());
        view.replace(bucket, reads(7));
        view.until_notified(bucket, EntryId(6, 0)).await;
        assert_eq!(view.reader_floor(bucket), 1 << 20, "entry 6 was never read");
    }
}
