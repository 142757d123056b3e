//! Tests of the pure core against a naive model, with generated commands.
//!
//! [`model`] keeps lists and recomputes everything from scratch, and [`changes`] changes them by
//! the rules in `tests/vectors/README.md` and the design; [`lifecycle`] does so for the life of
//! units, [`holds`] for latches and damping. [`commands`] generates commands whose names collide.
//! [`world`] runs both side by side; [`properties`] checks the invariants; [`incarnations`] covers
//! the order of messages, [`damping`] latches and damping, [`faults`] open errors, [`operations`]
//! work in flight, [`holders`] leaders and holders after a data loss, [`elections`] leadership,
//! [`requests`] request ids, [`outages`] the times that count for no deadline, [`totals`] limits on
//! all applications together, [`shown`] what moves a revision, [`quorum`] units that are enough,
//! [`marks`] marks, and [`mark_histories`] both together; [`bounds`] contains single edge cases.
//! [`case`] commits command by command; its cases are in [`batches`], [`callbacks`], [`calls`],
//! [`data`], [`deletion`], [`errors`], [`lapses`], [`leases`], [`passing`], [`quotas`],
//! [`records`], [`rules`], [`silence`], [`successors`], [`texts`], [`units`], [`work`].
#![allow(clippy::unwrap_used)] // a panic fails the test

mod batches;
mod bounds;
mod callbacks;
mod calls;
mod case;
mod changes;
mod commands;
mod damping;
mod data;
mod deletion;
mod elections;
mod ends;
mod error_cases;
mod error_sources;
mod errors;
mod exceptions;
mod faults;
mod holders;
mod holds;
mod incarnations;
mod lapses;
mod leases;
mod lifecycle;
mod losses;
mod mark_histories;
mod marks;
mod model;
mod needs;
mod operations;
mod outages;
mod passing;
mod properties;
mod quorum;
mod quotas;
mod records;
mod relapses;
mod requests;
mod rules;
mod shown;
mod silence;
mod successors;
mod texts;
mod ties;
mod totals;
mod units;
mod uptime;
mod work;
mod world;
