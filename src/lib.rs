//! Bellwether: how is this application, and why?
//!
//! ```text
//!  worker --report--> service --> aggregator --> domain::apply --> Store::commit   r -> r+1
//!                     (convert)   (per app)  ^                        |   |
//!                                            '--- conflict: catch up -'   | changes
//!  clock --> sweep --> aggregator --> domain::expire, the same way        v
//!  watcher <--event-- service <-- watch::Watcher <-------------------- watch::Hub
//!  reader  <--answer- service <-- aggregator (statuses, why) and watch::Hub (lists)
//! ```
//!
//! A module imports only from layers above its own in this table; modules of one layer do not know
//! each other, except that `cli` starts `bench` (`tests/tidy.rs` holds this).
//!
//! | Layer | Modules | |
//! |---|---|---|
//! | 0 | `domain`, `proto`, `telemetry` | know nothing |
//! | 1 | `store`, `client` | remember; reach |
//! | 2 | `aggregator`, `watch` | decide; follow |
//! | 3 | `session` | meets the workers |
//! | 4 | `service` | speaks |
//! | 5 | `config` | is told |
//! | 6 | `app` | composes |
//! | 7 | `cli`, `bench` | are used |
//!
//! The feature `client` alone leaves `proto` and `client`, for programs that report or watch;
//! `server` is everything, and the default.

#[cfg(feature = "server")]
pub mod domain;
pub mod proto;
#[cfg(feature = "server")]
pub mod telemetry;

pub mod client;
#[cfg(feature = "server")]
pub mod store;

#[cfg(feature = "server")]
pub mod aggregator;
#[cfg(feature = "server")]
pub mod watch;

#[cfg(feature = "server")]
pub mod session;

#[cfg(feature = "server")]
pub mod service;

#[cfg(feature = "server")]
pub mod config;

#[cfg(feature = "server")]
pub mod app;

#[cfg(feature = "server")]
pub mod bench;
#[cfg(feature = "server")]
pub mod cli;
