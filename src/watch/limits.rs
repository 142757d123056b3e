//! Bounds of watching.

use std::time::Duration;

/// Bounds of watching, and its rhythm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Watchers at the same time.
    pub watchers_max: usize,
    /// Applications indexed by all different filters together, as of when each was first used.
    pub indexed_max: usize,
    /// Different filters over the same applications: over all, over one namespace, or naming one.
    /// A change is held against at most three times as many.
    pub filters_per_scope_max: usize,
    /// Of these, those whose first watcher came from one address.
    pub filters_per_peer_max: usize,
    /// A watcher that is current is told so this often.
    pub bookmark_period: Duration,
    /// What a watcher takes at a time, at least 1.
    pub batch_max: usize,
    /// How long a reader that comes from another replica waits until this one knows as much.
    pub catch_up_max: Duration,
    /// Readers that wait for a revision of one application.
    pub waits_max: usize,
}

impl Default for Limits {
    /// Two million entries of about 300 bytes: twenty filters over a fleet of 100,000, or any
    /// number of small ones. 256 filters over the same applications: a commit is held against 768
    /// at most, a few microseconds each. 64 of one address: a dashboard has a filter for each level
    /// and place, not for each reader. 4 s, so that 5 s are kept with a second for the way. 256 at
    /// a time: enough that the lock does not count, little enough that nobody waits for it, and all
    /// that a slow reader keeps in memory. 5 s: a replica that follows is behind for milliseconds,
    /// and for seconds while its store fails over.
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
