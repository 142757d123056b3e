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
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod bytes;
pub mod name;
pub mod revision;
pub mod time;

pub mod classify;
pub mod limits;
pub mod message;
pub mod policy;
pub mod status;
pub mod statuses;

pub mod command;
mod configured;
pub mod operation;
pub mod request;
pub mod session;
pub mod transition;

pub mod app;
pub mod index;
pub mod rank;

pub mod apply;
pub mod callback;
pub mod connect;
pub mod damping;
pub mod data;
pub mod data_loss;
pub mod delete;
pub mod draft;
pub mod expire;
pub mod fault;
pub mod lease;
pub mod quota;
pub mod replay;
pub mod summary;
pub mod usage;

pub mod derive;
