//! A client of a server: connects, reads all pages, watches applications, keeps a worker's session,
//! and describes errors in words.
//!
//! ```text
//!  Client --unary calls--> server     Error: not reachable | refused, with reason and facts
//!  Watch  <--events------- server     reconnects, resumes, checks its copy by the digest
//!  Worker --statuses-----> server     keeps a session, answers questions, sends again
//!  Held   --heartbeats---> server     an operation: renews its lease, reports its loss
//! ```

mod backoff;
mod connection;
mod digest;
mod error;
mod link;
pub mod operation;
mod page;
mod watch;
pub mod worker;

#[cfg(all(test, feature = "server"))]
mod tests;

pub use connection::Client;
pub use error::{Error, Refusal};
pub use operation::Held;
pub use watch::{Event, Watch};
pub use worker::Worker;
