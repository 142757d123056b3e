//! The space of the disk that has the data directory.

use std::path::Path;

use rustix::fs::statvfs;

use crate::store::Space;

/// Free space below this is a warning: an operator has time to act.
pub(crate) const SPACE_LOW: u64 = 1 << 30;

/// Returns the space of the disk that has this directory.
pub(crate) fn space_of(there: &Path) -> Option<Space> {
    let stat = statvfs(there).ok()?;
    let [free, capacity] =
        [stat.f_bavail, stat.f_blocks].map(|blocks| blocks.saturating_mul(stat.f_frsize));
    Some(Space { free, capacity, is_low: free < SPACE_LOW })
}
