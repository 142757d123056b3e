//! Limits of watches.

use std::time::Duration;

/// Limits and intervals of watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of watchers.
    pub watchers_max: usize,
    /// Applications indexed by all different filters together, counted when each was first used.
    pub indexed_max: usize,
    /// Different filters over the same applications: over all, over one namespace, or naming one. A
    /// change is compared with at most three times as many.
    pub filters_per_scope_max: usize,
    /// Share of that limit for filters whose first watcher came from one address.
    pub filters_per_peer_max: usize,
    /// Interval of bookmarks for a current watcher.
    pub bookmark_period: Duration,
    /// Updates that a watcher reads at a time, at least 1.
    pub batch_max: usize,
    /// How long a reader with a token of another replica waits until this one reaches it.
    pub catch_up_max: Duration,
    /// Waits for a revision of one application.
    pub waits_max: usize,
}

impl Default for Limits {
    /// - `indexed_max`: two million entries of about 300 bytes, for twenty filters over 100,000
    ///   applications or any number of small ones.
    /// - `filters_per_scope_max`: with 256 a commit is compared with 768 filters at most, a few
    ///   microseconds each.
    /// - `filters_per_peer_max`: 64, because a dashboard has a filter for each level and place, not
    ///   for each reader.
    /// - `bookmark_period`: 4 s, which leaves one of 5 s for the network.
    /// - `batch_max`: 256 is enough to make the lock cheap and little enough to hold it briefly. It
    ///   also bounds the memory of a slow reader.
    /// - `catch_up_max`: 5 s, because a replica lags by milliseconds, and by seconds while its
    ///   store fails over.
    fn default() -> Limits {
        Limits {
            watchers_max: 100_000,
            indexed_max: 2_000_000,
            filters_per_scope_max: 256,
            filters_per_peer_max: 64,
            bookmark_period: Duration::from_secs(4),
            batch_max: 256,
            catch_up_max: Duration::from_secs(5),
            waits_max: 1024,
        }
    }
}
