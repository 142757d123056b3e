//! The edge of the server: connections, before their calls.
//!
//! ```text
//!  accept --> Gate: a place? --> TLS, preface --> HTTP/2, 1.1 --> calls --> web, observe, ...
//!             per peer, for all   5 s             age              Caller in each request
//! ```
//!
//! Limits for each peer prevent one peer from using all places, streams, or bytes of incomplete
//! messages. A task serves each connection. The task ends the connection when it reaches its
//! maximum age, when its place is needed, and at a drain.

mod call;
mod cork;
mod gate;
mod preface;
mod serve;
pub mod transport;

pub use call::{GrpcBody, GrpcService};
pub use gate::{Gate, Limits, Seat};
pub use serve::{Server, Times, accept, bind, serve};
