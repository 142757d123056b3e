//! Watching: the newest state of every application, for lists, counts and watchers.
//!
//! ```text
//!  Store --Change--> Hub --if in scope--> Group --reads from--> Watcher
//!                    by name              one per filter,       an offset
//!                                         with its index
//! ```
//!
//! Only the store feeds the hub, so commits of other replicas take the same path as local ones.
//! The index of a group holds each application once, at the offset of its last change. Snapshots,
//! changes, conflation and slow watchers use one mechanism: a watcher reads on from its offset.
//!
//! A store orders its changes by bucket, and replicas see the buckets interleaved differently. So
//! an offset is valid in one group only; a resume token has a cursor for each bucket instead.
//!
//! # After a disconnect
//!
//! A reader that resumes with its last token, on any replica of the store, receives:
//!
//! 1. One item for each application in scope that changed after the token: `Upserted` with the
//!    newest state if the filter shows it, otherwise `Removed`, even if the reader never knew it.
//!    States in between are neither sent nor counted in `coalesced`. A state may come twice, and
//!    after a failover with the revision of a lost one. A level that `stable_for` still delays
//!    comes when it has held, or immediately if the filter is new on this replica.
//! 2. A bookmark as soon as no change is left: the reader checks its copy by count and digest.
//! 3. Every later change.
//!
//! If this replica is behind the token, the watch waits for it, and ends with
//! [`ResumeError::Behind`] after [`Limits::catch_up_max`]: the reader tries again, at another
//! replica. `resume` judges tokens, at the start and while a watch waits. A token is refused if it
//! is from another store or filter, or older than a data loss or than pruned tombstones, or if a
//! master of the store that took over since lacks changes that the token covers. The reader then
//! watches without a token: it receives every member by name, then `SnapshotComplete`, and drops
//! whatever the snapshot does not contain.
//!
//! A data loss of the store ends only a watch that still waits for its token. Others receive the
//! differences as ordinary changes at greater positions. Older tokens are refused because their
//! reader may know states that are gone.
//!
//! # In a relay
//!
//! `copied` feeds the hub of a relay in proved batches; `landmarks` translates tokens, and
//! `origins` those of several upstreams.
//!
//! Locks: first the hub's, then a group's or the cursors'. Each is held for one change, one batch
//! or one page, never while waiting. The first watcher of a filter holds the hub's while it indexes
//! the scope.

mod backlog;
pub mod blockers;
mod copied;
mod cursors;
mod debounce;
mod digest;
mod entry;
mod error;
mod filter;
mod fleet;
mod group;
mod groups;
mod hub;
mod index;
mod landmarks;
mod limits;
mod masters;
mod namespaces;
mod notifier;
mod open;
mod origins;
mod resume;
mod seen;
mod serving;
mod token;
mod wait;
mod waits;
mod watcher;

#[cfg(test)]
mod tests;

pub use copied::Copied;
pub use cursors::Cursors;
pub use digest::{Digest, mark};
pub use entry::Entry;
pub use error::{ResumeError, WatchError};
pub use filter::{Filter, Scope};
pub use hub::Hub;
pub use landmarks::Proved;
pub use limits::Limits;
pub use namespaces::Summary;
pub use seen::Coverage;
pub use serving::Serving;
pub use token::{StorePoint, Token};
pub use waits::WaitError;
pub use watcher::{Event, Item, Standing, StandingGroup, Start, Watcher};
