//! Reaches a server: connects, reads every page, follows changes, keeps a worker's session, and
//! says in words what went wrong.
//!
//! ```text
//!  Client --unary calls--> server            Error: not reachable | refused, with reason and facts
//!  Watch  <--events------- server            reconnects, resumes, proves its copy by the digest
//!  Worker --statuses----> server            keeps a session, answers questions, sends again
//!  Held   --heartbeats--> server            an operation: renews its lease, says when to stop
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
pub use error::Error;
pub use error::Refusal;
pub use operation::Held;
pub use watch::Event;
pub use watch::Watch;
pub use worker::Worker;
