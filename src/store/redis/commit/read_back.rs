//! An acknowledgement of a commit waits until this process has read the commit from the log: a loss
//! is noticed only if a process has read what was lost. An answer without a commit does not wait,
//! so that a process whose reader is late can give it. What it relies on is remembered instead
//! (`unread.rs`), and counts as lost if another master is met before it was read.

use std::time::Duration;

use crate::domain::transition::Transition;
use crate::store::redis::record::entry::EntryId;
use crate::store::{Applied, Bucket, CommitError, ConflictCause, Version};

use super::{Commits, unavailable};

/// The time that a committed transition waits for the reader to notify the observers of this
/// process.
const READ_BACK_TIMEOUT: Duration = Duration::from_secs(5);

impl Commits {
    /// Waits until the observers have received a commit on the master with this floor. Fails if the
    /// reader has met another master since: that one may lack the commit, and its log goes on with
    /// later entries.
    pub(super) async fn read_back(
        &self,
        bucket: Bucket,
        epoch_floor: u64,
        id: EntryId,
    ) -> Result<(), CommitError> {
        let received = self.log.view.until_notified(bucket, id);
        if tokio::time::timeout(READ_BACK_TIMEOUT, received).await.is_err() {
            let reason = "the commit is applied, but not read back yet".to_string();
            return Err(unavailable(reason, Applied::Yes));
        }
        match self.log.view.reader_floor(bucket) <= epoch_floor {
            true => Ok(()),
            false => Err(may_be_lost()),
        }
    }

    /// Lets the answers of a commit without an entry of the log rely on the state that the commit
    /// is based on.
    pub(crate) async fn rely_on_base(
        &self,
        transition: &Transition,
        bucket: Bucket,
    ) -> Result<(), CommitError> {
        let Transition { app, base, base_quiet, epoch_floor, head, .. } = transition;
        if *base <= self.log.view.revision(bucket, app) {
            return Ok(());
        }
        let quiet_commits = if transition.is_durable() { head.quiet_commits } else { *base_quiet };
        let version = Version { revision: *base, quiet_commits, epoch_floor: *epoch_floor };
        let Err(error) = self.confirm(app, version).await else { return Ok(()) };
        Err(match error {
            // Nothing was written, so the caller decides again.
            error if !transition.is_durable() => error,
            CommitError::Conflict { cause: ConflictCause::Master, .. } => may_be_lost(),
            CommitError::Conflict { cause, .. } => not_read_back(&cause.to_string()),
            CommitError::Unavailable { reason, .. } => not_read_back(&reason),
        })
    }
}

fn not_read_back(why: &str) -> CommitError {
    let reason = format!("the commit is applied, but what it is based on is not read: {why}");
    unavailable(reason, Applied::Yes)
}

fn may_be_lost() -> CommitError {
    let reason = "another master has taken over, and may lack the commit".to_string();
    unavailable(reason, Applied::Maybe)
}
