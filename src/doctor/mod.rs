//! Examines a store without changing it: gathers facts, then judges them as findings.

pub mod embedded;
pub mod redis;

mod finding;

pub use finding::{Finding, Level, in_order};
