//! The errors that refuse or end a watch.

/// Why a reader cannot continue from its position. Each needs a snapshot, except
/// [`ResumeError::Behind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// Tombstones after that position were pruned, so the reader would miss deletions.
    #[error(
        "cannot continue from here: deletions since then were pruned; \
         watch again without a resume token for a fresh snapshot"
    )]
    Pruned,
    /// The token is from another replica, and this replica has not received all changes that the
    /// token covers within [`Limits::catch_up_max`](super::Limits::catch_up_max).
    #[error(
        "this replica has not received all changes that resume_token covers; \
         watch again with the same token, at another replica if there is one"
    )]
    Behind,
    /// The token covers changes that the store has never had, and no other replica uses the store:
    /// an older copy of the store was restored.
    #[error(
        "resume_token covers changes that this store does not have, as after the restore of an \
         older copy; watch again without a resume token for a fresh snapshot"
    )]
    Ahead,
    /// The token is from before a possible data loss of the store.
    #[error(
        "resume_token is older than a possible data loss of the store; \
         watch again without a resume token for a fresh snapshot"
    )]
    DataLoss,
    /// The token covers changes that a later master of the store lacks.
    #[error(
        "resume_token covers changes that a failover of the store may have lost; \
         watch again without a resume token for a fresh snapshot"
    )]
    MasterLost,
    /// The token is from a server with other data.
    #[error(
        "resume_token is from another store; \
         watch again without a resume token for a fresh snapshot"
    )]
    OtherStore,
}

impl ResumeError {
    /// Every refusal with its word on the wire.
    pub const WORDS: [(ResumeError, &'static str); 6] = [
        (ResumeError::Pruned, "pruned"),
        (ResumeError::Behind, "behind"),
        (ResumeError::Ahead, "ahead"),
        (ResumeError::DataLoss, "data_loss"),
        (ResumeError::MasterLost, "master_lost"),
        (ResumeError::OtherStore, "other_store"),
    ];

    /// Returns the word on the wire.
    pub fn word(self) -> &'static str {
        let mut words = ResumeError::WORDS.into_iter();
        words.find(|(each, _)| *each == self).map_or("", |(_, word)| word)
    }
}

/// The reason why a watch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The resume token has an invalid format or check sum.
    #[error(
        "resume_token cannot be read; send exactly the text that the server sent, \
         or watch again without a resume token for a fresh snapshot"
    )]
    Malformed,
    /// The resume token is from a watch with another filter.
    #[error(
        "resume_token is from a watch with other filters; \
         use the same filters, or watch again without a resume token for a fresh snapshot"
    )]
    OtherFilters,
    /// The watch cannot continue from the resume token.
    #[error(transparent)]
    Refused(#[from] ResumeError),
    /// [`Limits::watchers_max`](super::Limits::watchers_max) is reached.
    #[error(
        "{0} watches are open, which is the most served here; close one, or wait and try again"
    )]
    TooManyWatchers(usize),
    /// [`Limits::filters_per_scope_max`](super::Limits::filters_per_scope_max) is reached. Each
    /// different filter adds work to the commits of its applications.
    #[error(
        "{0} different filters over the same applications are being watched, which is the most \
         served here; watch with a filter that others use"
    )]
    TooManyFiltersOfScope(usize),
    /// [`Limits::filters_per_peer_max`](super::Limits::filters_per_peer_max) is reached.
    #[error(
        "your address watches the same applications with {0} different filters, which is the \
         most that one address may; watch with a filter that you use already, or with fewer levels"
    )]
    TooManyFiltersOfPeer(usize),
    /// [`Limits::indexed_max`](super::Limits::indexed_max) is reached. Each different filter has
    /// its own index.
    #[error(
        "the filters being watched index {0} applications, which is the most kept here; \
         watch with a filter that others use, or with a narrower one"
    )]
    TooManyFilters(usize),
}
