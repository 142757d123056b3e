//! Bounds on answers under way: bytes that are rendered, and that the peer has not taken.
//!
//! ```text
//!  request --> edge: room for any call --> account: room for a long answer --> handler
//!              Room of the connection      Room, and that of the principal        |
//!                | none: waits, refused      | none: waits, refused           answer
//!                                                                                 |
//!  peer <-- connection <-- Taken <-- AnswerBody <---------------------------------'
//!             |             counts until it is written
//!             '-- nothing is taken for `untaken_max`: the stream or the connection ends
//! ```
//!
//! An answer takes room before it is rendered: as much as its method may need ([`size`]). Without
//! room the call waits, and is refused after a bounded time. When the answer is there, its bytes
//! count instead, until they are written to the connection. Streams with many answers have limits
//! of their own; each of their messages waits until there is room.

mod body;
mod budget;
mod refusal;
mod reserved;
mod resets;
mod room;
pub mod size;
mod untaken;

pub use body::{AnswerBody, Taken};
pub use budget::{Budget, Full};
pub use refusal::{bare, no_room};
pub use reserved::{Reserved, Shares};
pub use resets::Resets;
pub use room::{Room, Share};
pub use untaken::{StreamExecutor, Untaken, Watch};

use std::time::Duration;

/// Limits of the bytes of answers under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one connection.
    pub per_connection_max: usize,
    /// Bytes of one peer.
    pub per_peer_max: usize,
    /// Bytes of one principal.
    pub per_principal_max: usize,
    /// Bytes in total.
    pub max: usize,
    /// How long a call waits for room.
    pub wait_max: Duration,
    /// How long bytes of an answer wait while the peer takes none of them.
    pub untaken_max: Duration,
}

impl Default for Limits {
    /// Returns the defaults: the total is an eighth of the memory that the chart gives a server.
    /// One address may have half of it, because many clients may share the address of a proxy. A
    /// wait of 2 s is longer than any queue of clients that read. No network is silent for 30 s and
    /// still of use.
    fn default() -> Limits {
        Limits {
            per_connection_max: 16 << 20,
            per_peer_max: 32 << 20,
            per_principal_max: 32 << 20,
            max: 64 << 20,
            wait_max: Duration::from_secs(2),
            untaken_max: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests;
