//! The time of the store, as it tells it.

use std::sync::Arc;

use bellwether::domain::outage::Outages;
use bellwether::domain::time::Timestamp;

/// The time at which runs begin.
pub const BEGINNING: Timestamp = Timestamp::new(1_800_000_000_000);

/// The time, and the outages until then.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The time of the store.
    pub time: Timestamp,
    /// The outages, with the one that continues.
    pub outages: Arc<Outages>,
}
