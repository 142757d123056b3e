//! The space that a store has left for what it keeps, and a warning before it is used up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Store;

/// The space of a store; of several servers, that of the fullest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that are free.
    pub free: u64,
    /// Bytes in all.
    pub capacity: u64,
    /// Whether an operator should make room now: without it, commits will be refused.
    pub is_low: bool,
}

/// How often the space is looked at.
const PERIOD: Duration = Duration::from_secs(15);

/// The least time between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(600);

/// Follows the space of a store. `each` receives it each time; the log has a warning while it is
/// low. Runs until it is dropped.
pub async fn watch_space(store: Arc<dyn Store>, each: impl Fn(Option<Space>)) {
    let mut warned: Option<Instant> = None;
    loop {
        let space = store.space().await;
        each(space);
        let is_due = warned.is_none_or(|at| WARN_EVERY <= at.elapsed());
        match space {
            Some(Space { free, capacity, is_low: true }) if is_due => {
                warned = Some(Instant::now());
                tracing::warn!(
                    free_mib = free >> 20,
                    capacity_mib = capacity >> 20,
                    "the store is almost full: without space every report is refused; make room"
                );
            }
            Some(Space { is_low: false, .. }) if warned.take().is_some() => {
                tracing::info!("the store has room again");
            }
            _ => {}
        }
        tokio::time::sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::store::{MemoryStore, Retention};

    #[tokio::test(start_paused = true)]
    async fn the_space_is_looked_at_again_and_again() {
        let seen: Arc<Mutex<Vec<Option<Space>>>> = Arc::default();
        let list = seen.clone();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Retention::default()));
        let watch = watch_space(store, move |space| list.lock().unwrap().push(space));
        let _ended = tokio::time::timeout(PERIOD * 5 / 2, watch).await;
        assert_eq!(*seen.lock().unwrap(), [None, None, None]);
    }
}
