//! Says what is wrong with a set-up of Redis or Valkey: facts are gathered, then judged.
//!
//! ```text
//!  Target --link::Survey--> connections --gather--> Facts --judge--> findings
//! ```
//!
//! Nothing is written, and nothing is tried that would change anything.

use std::time::Duration;

use crate::store::doctor::{Finding, in_order};

use super::durability::Durability;
use super::link::Target;

mod facts;
mod gather;
mod judge;
mod rights;

/// Looks at everything that the target leads to, and ends by then, whatever happens; the worst
/// comes first.
pub async fn examine(target: &Target, durability: Durability, timeout: Duration) -> Vec<Finding> {
    // To find the master, to reach it, and to be answered, each of them may be slow.
    let gathering = gather::gather(target, durability, timeout / 3);
    in_order(match tokio::time::timeout(timeout, gathering).await {
        Ok(facts) => judge::judge(&facts),
        Err(_) => vec![judge::too_slow(timeout)],
    })
}
