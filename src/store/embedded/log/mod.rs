//! The log in front of the database: groups of operations, synced before they are acknowledged.
//!
//! ```text
//!  Log::append --> segment n: header, opening, group, ..., closing  --full--> segment n+1
//!                     '--> Segments: freed once durable in the database, used again
//!  Scan: at a start, the groups that the database does not have
//! ```
//!
//! An acknowledged group is intact after a crash. After a loss of power, an incomplete group at the
//! end of the log was not acknowledged. Any other damage is an error, because acknowledged groups
//! would be lost: a damaged group before an intact one, a damaged header, a missing segment, a file
//! that is cut off. An incomplete last group can be the result of damage too, so it is reported.

mod append;
mod content;
mod group;
mod scan;
mod segment;
mod set;

#[cfg(test)]
mod tests;

pub(super) use append::Log;
pub(super) use group::LogGroup;
pub(super) use scan::{LogEnd, Scan};
#[cfg(any(test, feature = "testing"))]
pub(super) use segment::SegmentFile;
pub(super) use segment::{LogDir, LogFiles};
pub(super) use set::Segments;
