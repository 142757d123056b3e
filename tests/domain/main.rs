//! The pure core against a naive model of it, with commands that nobody would think of.
//!
//! [`model`] keeps lists and recomputes everything from scratch, and [`changes`] changes them, by
//! the rules as `tests/vectors/README.md` and the design word them. [`commands`] makes up commands
//! whose names collide. [`world`] runs both side by side; [`properties`] says what must hold;
//! [`bounds`] are the single cases at the edges. [`holds`] is the model of what is held back,
//! [`damping`] what must hold of it.
#![allow(clippy::unwrap_used)] // here a panic is how a test fails

mod bounds;
mod changes;
mod commands;
mod damping;
mod holds;
mod model;
mod properties;
mod world;
