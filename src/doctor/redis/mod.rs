//! Examines a setup of Redis or Valkey: gathers facts, then judges them.
//!
//! ```text
//!  Target --link::Survey--> connections --gather--> Facts --judge--> findings
//! ```
//!
//! It writes nothing, and tries nothing that would change anything.

use std::time::Duration;

use crate::doctor::{Finding, in_order};
use crate::store::redis::link::Target;
use crate::store::redis::{Durability, Layout};

mod facts;
mod gather;
mod judge;
mod rights;

#[cfg(test)]
mod tests;

/// Examines all servers of the target, and ends within `timeout`; the worst finding comes first.
pub async fn examine(
    target: &Target,
    durability: Durability,
    layout: &Layout,
    timeout: Duration,
) -> Vec<Finding> {
    // Three steps may each be slow: to find the master, to connect, and to get the answers.
    let gathering = gather::gather(target, durability, layout, timeout / 3);
    in_order(match tokio::time::timeout(timeout, gathering).await {
        Ok(facts) => judge::judge(&facts),
        Err(_) => vec![judge::too_slow(timeout)],
    })
}
