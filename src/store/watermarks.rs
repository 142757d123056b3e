//! What a store remembers of positions and revisions beside its heads.

use crate::domain::revision::Revision;

use super::Position;

/// The highest positions and revisions so far. They only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Watermarks {
    /// The last position given.
    pub(crate) last: Position,
    /// The highest revision of a pruned tombstone: an unknown application starts at this revision.
    pub(crate) revision_floor: Revision,
    /// The last position whose tombstone was pruned.
    pub(crate) forgotten: Position,
}
