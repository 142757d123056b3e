//! The edge of the server: connections as they come, before there is any call.
//!
//! ```text
//!  accept --> Gate: a place? --> preface --> HTTP/2 --> Calls --> observe --> intake --> ...
//!             per peer, for all   5 s        age         Caller in each request
//! ```
//!
//! One peer cannot take what all need: places, streams, bytes of messages that are not complete. A
//! task serves each connection. The task ends the connection when it is old, when its place is
//! needed, and at a drain.

mod call;
mod gate;
mod link;
mod peer;
mod preface;
mod serve;
mod stream;

pub use gate::{Gate, Limits, Refused, Seat};
pub use link::Caller;
pub use peer::{Kind, Peer, Share, Tally};
pub use serve::{Server, Times, serve};
