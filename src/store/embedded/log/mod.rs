//! The log in front of the database: groups of operations, synced before they are acknowledged.
//!
//! ```text
//!  Log::append --> segment n: header, group, group, ...  --full--> segment n+1
//!                     '--> Segments: freed once durable in the database, used again
//!  Scan: at a start, the groups that the database does not have
//! ```
//!
//! An acknowledged group is intact after a crash. A group that is incomplete at the end of the log
//! was not acknowledged. A damaged group before an intact one is an error, because acknowledged
//! groups would be lost.

mod append;
mod group;
mod scan;
mod segment;
mod set;

#[cfg(test)]
mod tests;

pub(super) use append::Log;
pub(super) use group::LogGroup;
pub(super) use scan::Scan;
#[cfg(test)]
pub(super) use segment::SegmentFile;
pub(super) use segment::{LogDir, LogFiles};
pub(super) use set::Segments;
