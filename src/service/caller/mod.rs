//! What one caller has, and what it may hold: connections, streams, calls, rates, and bytes in both
//! directions.
//!
//! ```text
//!  accept --> Peer --> Tally     connections, streams, bytes of an address
//!                       ^
//!  connection --> Caller: Link --> Room, Budgets      bytes of answers, of incomplete messages
//!                       |
//!                       v
//!  call --> Owner --> Account    rates, open calls, streams, bytes of answers of a principal
//! ```
//!
//! Each limit holds for an address, and for a principal once the caller is identified. Something
//! that counts is a value ([`Share`], [`outgoing::Share`], `budget::Share`); it counts until it
//! is dropped.

mod account;
pub mod budget;
mod limits;
mod link;
pub mod outgoing;
mod peer;
mod presented;
mod rate;

pub(in crate::service) use account::{ACCOUNTS_MAX, Accounts};
pub use account::{Account, Slot};
pub use limits::{Bound, Class, Limits, STREAM_SHARE, WatchLimits};
pub use link::Caller;
pub(in crate::service) use link::{Link, OpenCall};
pub use peer::{Full, Holder, Kind, Owner, Peer, Share, Tally};
pub use presented::Presented;
