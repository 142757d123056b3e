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

pub mod domain;
pub mod proto;
pub mod telemetry;

pub mod client;
pub mod store;

pub mod aggregator;
pub mod watch;

pub mod session;

pub mod service;

pub mod config;

pub mod app;

pub mod bench;
pub mod cli;
