//! Conversion of single values to the wire: levels, times, counts.

use std::time::Duration;

use crate::domain::level::Level;
use crate::domain::status::{Freshness, Kind};
use crate::proto::v1;

/// Converts a level.
pub fn level(level: Level) -> v1::Level {
    match level {
        Level::Unknown => v1::Level::Unknown,
        Level::Terminated => v1::Level::Terminated,
        Level::Active => v1::Level::Active,
        Level::Waiting => v1::Level::Waiting,
        Level::Maintenance => v1::Level::Maintenance,
        Level::Blocked => v1::Level::Blocked,
        Level::Error => v1::Level::Error,
    }
}

/// Converts a level on the wire; one that is not given is unknown.
pub fn from_level(given: v1::Level) -> Level {
    Level::ALL.into_iter().find(|known| level(*known) == given).unwrap_or(Level::Unknown)
}

/// Returns the word of a level on the wire.
pub fn level_word(given: v1::Level) -> &'static str {
    from_level(given).word()
}

/// Converts a kind.
pub fn kind(kind: Kind) -> v1::StatusKind {
    match kind {
        Kind::Pull => v1::StatusKind::Pull,
        Kind::Push => v1::StatusKind::Push,
    }
}

/// Converts a freshness.
pub fn freshness(freshness: Freshness) -> v1::Freshness {
    match freshness {
        Freshness::Fresh => v1::Freshness::Fresh,
        Freshness::Stale => v1::Freshness::Stale,
        Freshness::Lost => v1::Freshness::Lost,
        Freshness::Uncertain => v1::Freshness::Uncertain,
    }
}

/// Converts a duration.
pub fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos() as i32,
    }
}

/// Converts a count; the wire has the maximum for a larger one.
pub fn count(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}
