//! The core: the state of an application, its commands, and its derived status.
//!
//! Invariants: no clock, no randomness, no IO, no async, no hash order. Time is an argument. The
//! same state and the same commands give the same transitions on every replica, and replaying a
//! transition gives the same state.
//!
//! ```text
//!              AppState          Draft                 Transition       AppState
//!  command --> rules::apply --> changes in parts --> Draft::finish --> replay --> next state
//!  time -----> rules::expire                                             |
//!                                          derive: winner, reasons <-----'
//! ```
//!
//! Each floor imports only those below it:
//!
//! | Floor | Folder | What it has |
//! |---|---|---|
//! | 5 | `derive`, `replay` | the winner and the reasons of a state; the state after a transition |
//! | 4 | `rules` | what a command or time changes in a draft, and why it refuses |
//! | 3 | `draft` | the changes of a batch on top of a state, a part for each topic |
//! | 2 | `model` | the types of an application, and what follows from them alone |
//! | 1 | `classify` | the class of an error: tables as data, and the rules of the operator |
//!
//! A topic (units, statuses, faults, operations, ...) has the same name on each floor: its types in
//! `model/status/`, its part of a draft in `draft/status.rs`, its commands in `rules/status.rs`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

// Words and levels, which the tables of errors need too.
pub mod level;
mod word;

pub mod classify;
pub mod draft;
mod model;
mod rules;

pub mod derive;
pub mod replay;

// Other layers name a topic, not its floor.
pub use self::model::{
    app, bytes, command, contribution, data, deadline, fault, health, history, index, leadership,
    limits, mark, message, met, name, need, operation, outage, policy, quorum, rank, request,
    revision, severity, shown, stated, status, summary, time, transition, unit, uptime, usage,
};
pub use self::rules::{apply, data_loss, delete, expire, quota, rejected, silence};
