//! The errors that refuse or end a watch.

/// The watch cannot continue from the position of its reader, for one of three reasons:
///
/// - Tombstones after that position were pruned, so the reader would miss deletions.
/// - The token is from another replica, and this replica has not received all changes that the
///   token covers within [`Limits::catch_up_max`](super::Limits::catch_up_max).
/// - The store lost data while the watch waited for these changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot resume from here: deletions since then were pruned, or this replica is behind the \
     reader; watch again without a resume token for a fresh snapshot"
)]
pub struct Expired;

/// The reason why a watch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The resume token has an invalid format or check sum.
    #[error(
        "resume_token cannot be read; send exactly the text that the server sent, \
         or watch again without a resume token for a fresh snapshot"
    )]
    Malformed,
    /// The resume token is from a server with other data.
    #[error(
        "resume_token is from another store; \
         watch again without a resume token for a fresh snapshot"
    )]
    OtherStore,
    /// The resume token is from before a possible data loss of the store, or covers changes that a
    /// later master of the store lacks.
    #[error(
        "resume_token is older than a possible data loss of the store; \
         watch again without a resume token for a fresh snapshot"
    )]
    OtherEpoch,
    /// The resume token is from a watch with another filter.
    #[error(
        "resume_token is from a watch with other filters; \
         use the same filters, or watch again without a resume token for a fresh snapshot"
    )]
    OtherFilters,
    /// [`Expired`], or the token is ahead of the only replica of the store.
    #[error(transparent)]
    Expired(#[from] Expired),
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
