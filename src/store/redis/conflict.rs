//! Reads the conflicts in the answers of `commit.lua` and `confirm.lua`.

use redis::Value;

use crate::domain::revision::Revision;
use crate::store::{Bucket, CommitError, ConflictCause};

use super::{Shared, reply};

impl Shared {
    /// Reads a conflict. If another master serves than the one that the readers have compared, they
    /// compare again.
    pub(super) fn read_conflict(&self, bucket: Bucket, answer: &[Value]) -> Option<CommitError> {
        let [current, cause, number @ ..] = answer else { return None };
        let cause = match reply::text(cause)? {
            "master" => {
                let number = number.first().and_then(reply::number);
                if number != self.view.note(bucket).map(|note| note.epoch_floor) {
                    self.suspicions.send_replace(());
                }
                ConflictCause::Master
            }
            "revision" => ConflictCause::Revision,
            "quiet" => ConflictCause::QuietCommits,
            "overtaken" => ConflictCause::Overtaken,
            "request" => ConflictCause::Request,
            _ => return None,
        };
        Some(CommitError::Conflict { current: Revision(reply::number(current)?), cause })
    }
}
