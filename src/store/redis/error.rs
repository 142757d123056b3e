//! Why the Redis store cannot be opened, and what the errors of a link mean for its callers.

use crate::store::ReadError;

use super::link::LinkError;

/// Why the Redis store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Redis cannot be reached or used now.
    #[error("cannot use Redis: {reason}")]
    Unavailable {
        /// The problem in words.
        reason: String,
    },
    /// The keys in Redis belong to another program.
    #[error(
        "key {key} in Redis is not a key of bellwether ({reason}); give bellwether a prefix of its \
         own by --store-prefix, or another database or Redis by --store"
    )]
    Foreign {
        /// The key.
        key: String,
        /// The problem in words.
        reason: String,
    },
    /// A newer version wrote the keys.
    #[error(
        "keys in Redis ({key}) have format {found}, and this version reads formats up to {known}; \
         start the newer version of bellwether that wrote them"
    )]
    TooNew {
        /// The key with the format.
        key: String,
        /// The format.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
    /// The store was created with another number of buckets.
    #[error(
        "store in Redis ({key}) has {found} buckets, and --store-buckets is {asked}; \
         the number is fixed at the first start: give {found} or leave the flag out, \
         or begin a new store under another --store-prefix"
    )]
    OtherBuckets {
        /// The key with the number.
        key: String,
        /// The number of buckets of the store.
        found: u16,
        /// The number of buckets in the configuration.
        asked: u16,
    },
    /// A record in Redis is not valid.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl From<LinkError> for ReadError {
    fn from(error: LinkError) -> ReadError {
        ReadError::Unavailable { reason: error.reason().to_string() }
    }
}

impl From<LinkError> for OpenError {
    fn from(error: LinkError) -> OpenError {
        OpenError::Unavailable { reason: error.reason().to_string() }
    }
}
