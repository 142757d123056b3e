//! Backups: a copy of the database as of one position, taken while a server uses the store.
//!
//! ```text
//!  bellwether backup                     the process that has the store
//!    makes DIR/bellwether.backup.ID/  -->  looks for such folders, four times a second
//!                                          applies the log, reads in one transaction,
//!    checks the copy, moves it        <--  writes the copy there
//! ```
//!
//! A folder is the request, because only who may write the data directory may take a backup, and it
//! works wherever the directory is mounted. If no process has the store, the command copies it.
//!
//! The copy is a data directory with the mark `FROM_BACKUP` of `tables`. Its first start begins a
//! history of its own: what was acknowledged after the backup is lost.

mod answer;
mod copy;
mod take;

pub(super) use answer::Backups;
pub use take::{TakeError, Taken, take};

/// What the name of a folder begins with that requests a backup.
const PREFIX: &str = "bellwether.backup.";
/// The copy while it is written.
const PART: &str = "part";
/// Why there is no copy.
const FAILED: &str = "failed";
