//! The errors that refuse or end a watch.

/// The watch cannot continue from the position of its reader. Either tombstones after that position
/// were pruned, so deletions would be missing; or the reader comes from another replica and this
/// one has not received the same changes within
/// [`Limits::catch_up_max`](super::Limits::catch_up_max).
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
    /// The resume token is from before a possible data loss of the store.
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
    /// Tombstones after the position of the resume token were pruned, or the token is ahead of the
    /// only server.
    #[error(transparent)]
    Expired(#[from] Expired),
    /// The limit of watchers is reached.
    #[error(
        "{max} watches are open, which is the most served here; close one, or wait and try again"
    )]
    TooManyWatchers {
        /// [`Limits::watchers_max`](super::Limits::watchers_max).
        max: usize,
    },
    /// The limit of different filters over the same applications is reached. Each of them adds work
    /// to the commits of these applications.
    #[error(
        "{max} different filters over the same applications are being watched, which is the most \
         served here; watch with a filter that others use"
    )]
    TooManyFiltersOfScope {
        /// [`Limits::filters_per_scope_max`](super::Limits::filters_per_scope_max).
        max: usize,
    },
    /// The share of one address in that limit is reached.
    #[error(
        "your address watches the same applications with {max} different filters, which is the \
         most that one address may; watch with a filter that you use already, or with fewer levels"
    )]
    TooManyFiltersOfPeer {
        /// [`Limits::filters_per_peer_max`](super::Limits::filters_per_peer_max).
        max: usize,
    },
    /// The limit of indexed applications is reached. Each different filter has its own index.
    #[error(
        "the filters being watched index {max} applications, which is the most kept here; \
         watch with a filter that others use, or with a narrower one"
    )]
    TooManyFilters {
        /// [`Limits::indexed_max`](super::Limits::indexed_max).
        max: usize,
    },
}
