//! The reasons for which a change of the data is refused.

use crate::domain::model::leadership::refused::NotLeader;
use crate::domain::model::limits::LimitExceeded;

/// The data have changed since the version that the change was made for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the data have changed since they were read, their etag is {current}; read them again")]
pub struct EtagMismatch {
    /// The current etag.
    pub current: String,
}

/// A part of the data is too large.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} would be {bytes} bytes; at most {max}")]
pub struct ValueTooLarge {
    /// The part.
    pub what: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The limit in bytes.
    pub max: u64,
}

/// The reason for which a change is refused.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(in crate::domain) enum UpdateError {
    NotLeader(#[from] NotLeader),
    Etag(#[from] EtagMismatch),
    Size(#[from] ValueTooLarge),
    Quota(#[from] LimitExceeded),
}
