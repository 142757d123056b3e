//! Moments of the store's clock. The domain is told the time; it never reads it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970, by the store's clock unless said otherwise.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This moment moved later; stops at the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Timestamp {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    /// How long ago `earlier` was; zero if it is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
