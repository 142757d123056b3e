//! A client of a Bellwether server: calls, watches, the session of a worker, operations, and errors
//! in words.
//!
//! ```text
//!  Client         --unary calls--> server   Error: not reachable | refused, with reason and facts
//!  Watch          <--events------- server   reconnects, resumes, checks its copy by the digest
//!  Worker         --statuses-----> server   keeps a session, answers questions, sends again
//!  OperationLease --heartbeats---> server   renews the lease of an operation, reports its loss
//! ```
//!
//! A program that has something to report now and then makes calls with a [`Client`]:
//!
//! ```no_run
//! use bellwether_client::Client;
//! use bellwether_client::proto::v1::{Level, ReportStatusRequest, StatusReport};
//!
//! # async fn example() -> Result<(), bellwether_client::Error> {
//! let client = Client::connect("http://127.0.0.1:50051").await?;
//! let request = ReportStatusRequest {
//!     application: "web".to_string(),
//!     unit: "web/0".to_string(),
//!     status: Some(StatusReport {
//!         level: Level::Blocked.into(),
//!         message: "the password is refused".to_string(),
//!         action: "set a new password".to_string(),
//!         ..StatusReport::default()
//!     }),
//!     ..ReportStatusRequest::default()
//! };
//! let answer = client.call(request).await?;
//! println!("stored at revision {}", answer.revision);
//! # Ok(())
//! # }
//! ```
//!
//! A program that runs for long is a [`Worker`]: the server can ask it at any time, and detects
//! that it is silent. A program that follows applications has a [`Watch`]:
//!
//! ```no_run
//! use bellwether_client::proto::v1::WatchApplicationsRequest;
//! use bellwether_client::{Client, Event, Watch};
//!
//! # async fn example() -> Result<(), bellwether_client::Error> {
//! let client = Client::connect("http://127.0.0.1:50051").await?;
//! let mut watch = Watch::new(&client, WatchApplicationsRequest::default());
//! loop {
//!     match watch.next().await? {
//!         Event::Upserted(application, _units) => println!("changed: {}", application.name),
//!         Event::Removed { name, .. } => println!("removed: {name}"),
//!         Event::Current => println!("that is all for now"),
//!         Event::Disconnected { error, pause } => println!("{error}; again in {pause:.1?}"),
//!     }
//! }
//! # }
//! ```
//!
//! Work that must survive its process is an operation: see [`OperationLease`].

#![deny(missing_docs)]

mod backoff;
mod connection;
mod digest;
mod error;
mod handshake;
mod link;
mod need;
pub mod operation;
mod page;
pub mod proto;
mod security;
mod trace;
mod watch;
pub mod worker;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use connection::{Client, Transport};
pub use digest::SavedApplication;
pub use error::{Error, Refusal};
pub use need::InvalidNeed;
pub use operation::OperationLease;
pub use security::{Bearer, Security};
pub use watch::{Event, SavedWatch, Watch};
pub use worker::Worker;

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
