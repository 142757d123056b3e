//! Following: the newest state of every application, for lists, counts and watchers.

mod digest;
mod error;
mod filter;
mod token;

use std::time::Duration;

pub use digest::{Digest, mark};
pub use error::{Expired, WatchError};
pub use filter::{Filter, Scope};
pub use token::Token;

/// Bounds of watching, and its rhythm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Watchers at the same time.
    pub watchers_max: usize,
    /// Applications indexed by all different filters together, as of when each was first used.
    pub indexed_max: usize,
    /// A watcher that is current is told so this often.
    pub bookmark_period: Duration,
}
