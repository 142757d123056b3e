//! Reaches a server: connects, reads every page, follows changes and says in words what went wrong.
//!
//! ```text
//!  Client --unary calls--> server            Error: not reachable | refused, with reason and facts
//!  Watch  <--events------- server            reconnects, resumes, proves its copy by the digest
//! ```

mod backoff;
mod connection;
mod digest;
mod error;
mod link;
mod page;
mod watch;

#[cfg(test)]
mod tests;

pub use connection::Client;
pub use error::Error;
pub use error::Refusal;
pub use watch::Event;
pub use watch::Watch;
