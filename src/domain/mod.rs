//! The core: the state of an application, its commands, and its derived status.
//!
//! Invariants: no clock, no randomness, no IO, no async, no hash order. Time is an argument. The
//! same state and the same commands give the same transitions on every replica, and replaying a
//! transition gives the same state.
//!
//! - The write path: [`apply`](apply::apply) a command to a [`Draft`](draft::Draft), or let time
//!   [`expire`](expire::expire) records that are due.
//! - A draft ends in a [`Transition`](transition::Transition); once it is committed,
//!   [`AppState::replay`](app::AppState::replay) applies it to the state.
//! - The read path: [`derive`](derive::derive) returns the winner and the reasons;
//!   [`rank::compare`] is the rule.
//!
//! # Topics
//!
//! Each topic is a folder. `mod.rs` has its types and the rules that need nothing else; `draft.rs`
//! has its part of a draft, with private fields; `apply.rs`, and files named after a rule, change a
//! draft; `refused.rs` has the reasons for which they refuse. No file imports one that imports it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

// Values.
pub mod bytes;
pub mod level;
pub mod limits;
pub mod message;
pub mod name;
pub mod outage;
pub mod revision;
pub mod severity;
pub mod shown;
pub mod time;
pub mod usage;
mod word;

// Topics: types, rules and their tests.
pub mod classify;
pub mod damping;
pub mod data;
pub mod fault;
pub mod history;
pub mod leadership;
pub mod operation;
pub mod policy;
pub mod request;
pub mod status;
pub mod unit;

// The state of an application and what it is derived to.
pub mod app;
pub mod contribution;
pub mod deadline;
pub mod derive;
pub mod index;
pub mod rank;
mod sorted;
pub mod summary;

// Commands and their way into a transition.
pub mod apply;
pub mod command;
pub mod data_loss;
pub mod delete;
pub mod draft;
pub mod expire;
pub mod quota;
pub mod rejected;
pub mod replay;
pub mod transition;
