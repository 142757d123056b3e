//! Bellwether collects the statuses that the units of an application report, computes the
//! highest-priority status of the application and why it won, and streams every change to watchers.
//!
//! # From a report to a watcher
//!
//! ```text
//!  worker --report--> service, ----> aggregator --> domain::apply --> Store::commit   r -> r+1
//!                     session        (per app)  ^                        |   |
//!                                               '--- conflict: catch up -'   | change
//!  clock ---> sweep ---------------> aggregator --> domain::expire --> ...   v
//!  watcher <--event-- service <-- watch::Watcher <---------------------- watch::Hub
//!  reader  <--answer- service <-- aggregator (statuses, why) and watch::Hub (lists)
//! ```
//!
//! 1. `service` receives a call, checks it and converts it to a command of `domain`. Reports on the
//!    stream of a worker pass through `session`, which also detects that a worker is silent.
//! 2. `aggregator` puts the command into the mailbox of its application. Each active application
//!    has one task, which decides all commands in its mailbox as one batch.
//! 3. `domain` applies the batch. This is pure code: the state, the commands and the time go in, a
//!    transition comes out.
//! 4. `store` commits the transition if the application still has the revision that the batch is
//!    based on. After a conflict the task catches up with the other replica and applies the batch
//!    again. The caller gets its answer after the commit, never before.
//! 5. The store passes each change to `watch::Hub`. The hub keeps the newest state of every
//!    application, and each watcher sends its client what changed.
//!
//! Time changes statuses too: a sweep finds the applications with a deadline that has passed, and
//! their tasks let the statuses expire in the same way.
//!
//! # Layers
//!
//! A module imports only from layers with a lower number. Modules of one layer do not import each
//! other. `tests/tidy.rs` checks this table against the code.
//!
//! | Layer | Modules | Task |
//! |---|---|---|
//! | 0 | `domain`, `proto`, `sync` | Decisions without IO; wire types; locks |
//! | 1 | `store`, `telemetry` | Storage in memory, on disk or in Redis; logs, metrics, traces |
//! | 2 | `aggregator`, `doctor`, `security`, `watch` | Commits; findings; callers, TLS; watches |
//! | 3 | `session` | Connections of workers: heartbeats, collection, leadership |
//! | 4 | `service` | gRPC, JSON and the status page; who may call; limits |
//! | 5 | `config` | Flags, environment variables, configuration file |
//! | 6 | `app` | Builds the server from the layers, runs and drains it |
//! | 7 | `cli` | Commands |
//!
//! # Packages
//!
//! The feature `testing` adds `store::conformance` and `store::faulty`, for the tests of a store in
//! another crate, and `store::probe` and `cli::import_juju`, for `crates/fuzz`.
//!
//! `crates/client` is the client library with the wire types; it links no code of the server.
//! `crates/bench` is the load generator, `crates/sim` runs replicas in simulated time,
//! `crates/model` explores each order of events, and `crates/fuzz` has the targets that read any
//! bytes.

/// The version of this package: that of the server, the command line and the client.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub mod domain;
pub mod proto;
pub mod sync;

pub mod store;
pub mod telemetry;

pub mod aggregator;
pub mod doctor;
pub mod security;
pub mod watch;

pub mod session;

pub mod service;

pub mod config;

pub mod app;

pub mod cli;
