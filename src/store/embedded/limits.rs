//! The sizes and times of the log.

use std::time::Duration;

/// When the log goes on in the next segment, and when its groups come into the database.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The size of a segment after which the writer takes the next one.
    pub(super) segment_bytes: u64,
    /// The bytes of groups after which the database is made durable.
    pub(super) durable_bytes: usize,
    /// The time after which the database is made durable.
    pub(super) durable_after: Duration,
    /// The bytes of groups after which they are applied.
    pub(super) apply_bytes: usize,
    /// The bytes of groups after which the writer waits for the applier.
    pub(super) bytes_max: usize,
}

impl Default for Limits {
    /// While the applier keeps up, a start after a crash reads about three segments and the
    /// prepared one, and a read of an application waits for at most two transactions of about
    /// `apply_bytes`.
    fn default() -> Limits {
        Limits {
            segment_bytes: 16 << 20,
            durable_bytes: 16 << 20,
            durable_after: Duration::from_secs(10),
            apply_bytes: 4 << 20,
            bytes_max: 32 << 20,
        }
    }
}
