//! The protection of the ports: encryption of connections, and the files that it comes from.
//!
//! ```text
//!  files --> Reloaded: parsed, checked --> Tls: new connections use the newest valid files
//!    ^          |  every 3 s, SIGHUP
//!    '-- look --'  a file that is invalid, cut or silent: the previous one stays,
//!                  a log line, a metric
//! ```

mod closing;
mod error;
pub mod get;
pub mod identity;
mod protection;
pub mod reload;
pub mod role;
pub mod tls;

pub use error::Error;
pub use protection::Protection;
pub use reload::Reloaded;
