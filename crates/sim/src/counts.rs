//! What a run has checked.

/// What a run has counted.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    /// Commits that the store accepted.
    pub commits: u64,
    /// Acknowledged reports.
    pub reports: u64,
    /// Acknowledged writes of leaders.
    pub leader_writes: u64,
    /// Acknowledged commands on operations.
    pub operations: u64,
    /// Messages of watches.
    pub watch_events: u64,
    /// Bookmarks that were compared.
    pub bookmarks: u64,
    /// Reads that were compared with an acknowledged write.
    pub reads: u64,
    /// Notices that the needs of a status are met.
    pub needs_met: u64,
    /// Needs that heads state at the end of the run.
    pub stated: u64,
    /// Applications with a quorum whose status was counted again at the end.
    pub quorums: u64,
    /// Acknowledged calls that set a mark.
    pub marks: u64,
    /// Folds of blocks of statuses.
    pub folds: u64,
    /// Masters that had to have all that was acknowledged.
    pub kept: u64,
    /// Units that the server declared lost.
    pub losts: u64,
    /// Units that were silent for so long that the server had to declare them lost.
    pub silences: u64,
}
