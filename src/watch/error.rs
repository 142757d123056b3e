//! How a watch can be refused, or end.

/// The reader was away, or slow, for so long that deletions it was not told of are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "too far behind: deletions since then are forgotten; \
     watch again without a resume token for a fresh snapshot"
)]
pub struct Expired;

/// Why a watch cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The resume token is not one of ours.
    #[error(
        "resume_token cannot be read; give back exactly what the server sent, \
         or watch again without a resume token for a fresh snapshot"
    )]
    Malformed,
    /// The resume token is from a server with other data.
    #[error(
        "resume_token is from another store; \
         watch again without a resume token for a fresh snapshot"
    )]
    OtherStore,
    /// The store may have lost what the resume token stands on.
    #[error(
        "resume_token is from before the store may have lost writes; \
         watch again without a resume token for a fresh snapshot"
    )]
    OtherEpoch,
    /// The resume token is from a watch of something else.
    #[error(
        "resume_token is from a watch with other filters; \
         use the same filters, or watch again without a resume token for a fresh snapshot"
    )]
    OtherFilters,
    /// The resume token stands where deletions are forgotten, or after everything known here.
    #[error(transparent)]
    Expired(#[from] Expired),
    /// No more watchers are served here.
    #[error(
        "{max} watches are open, which is the most served here; close one, or wait and try again"
    )]
    TooManyWatchers {
        /// [`Limits::watchers_max`](super::Limits::watchers_max).
        max: usize,
    },
    /// Each different filter over the same applications is work within each of their commits.
    #[error(
        "{max} different filters over the same applications are being watched, which is the most \
         served here; watch with a filter that others use"
    )]
    TooManyFiltersOfScope {
        /// [`Limits::filters_per_scope_max`](super::Limits::filters_per_scope_max).
        max: usize,
    },
    /// One peer may not take all of them.
    #[error(
        "your address watches the same applications with {max} different filters, which is the \
         most that one address may; watch with a filter that you use already, or with fewer levels"
    )]
    TooManyFiltersOfPeer {
        /// [`Limits::filters_per_peer_max`](super::Limits::filters_per_peer_max).
        max: usize,
    },
    /// Filters that differ each cost an index; there is no room for another.
    #[error(
        "the filters being watched index {max} applications, which is the most kept here; \
         watch with a filter that others use, or with a narrower one"
    )]
    TooManyFilters {
        /// [`Limits::indexed_max`](super::Limits::indexed_max).
        max: usize,
    },
}
