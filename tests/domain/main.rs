//! The pure core against a naive model of it, with commands that nobody would think of.
//!
//! [`model`] keeps lists and recomputes everything from scratch, and [`changes`] changes them, by
//! the rules as `tests/vectors/README.md` and the design word them; [`comings`] does so for units
//! that come and go, [`holds`] for what is held back. [`commands`] makes up commands whose names
//! collide. [`world`] runs both side by side; [`properties`] says what must hold; [`incarnations`]
//! is about the order of their messages, [`damping`] about what is held, [`faults`] about errors
//! that are open, [`operations`] about work in flight, [`elections`] about who leads, [`requests`]
//! about request ids, [`totals`] about bounds on all applications together; [`bounds`] are the
//! single cases at the edges.
#![allow(clippy::unwrap_used)] // here a panic is how a test fails

mod bounds;
mod changes;
mod comings;
mod commands;
mod damping;
mod elections;
mod faults;
mod holds;
mod incarnations;
mod model;
mod operations;
mod properties;
mod requests;
mod totals;
mod world;
