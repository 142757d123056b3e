//! Examines a setup of Redis or Valkey: gathers facts, then judges them.
//!
//! ```text
//!  Target --link::Survey--> connections --gather--> Facts --judge--> findings
//! ```
//!
//! It writes nothing, and tries nothing that would change anything.

use std::time::Duration;

use crate::store::doctor::{Finding, in_order};

use super::durability::Durability;
use super::layout::Layout;
use super::link::Target;

mod facts;
mod gather;
mod judge;
mod rights;

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
