//! Moments of the store's clock. The caller passes the time to the domain, which never reads a
//! clock.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since 1970, by the store's clock unless said otherwise.
///
/// The field is the number plus one, so that `Option<Timestamp>` has the same size: a status has
/// three times that are often absent, and a server keeps each status in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(NonZeroU64);

impl Timestamp {
    /// Returns the moment so many milliseconds after the beginning of 1970. The largest number
    /// stands for the moment before it.
    pub const fn new(millis: u64) -> Timestamp {
        Timestamp(NonZeroU64::MIN.saturating_add(millis))
    }

    /// Returns the milliseconds since the beginning of 1970.
    pub const fn millis(self) -> u64 {
        self.0.get() - 1
    }

    /// Returns this moment plus a duration; saturates at the maximum.
    #[must_use]
    pub fn after(self, duration: Duration) -> Timestamp {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    /// Returns the moment a duration earlier, at the earliest the first one.
    pub fn before(self, duration: Duration) -> Timestamp {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Timestamp::new(self.millis().saturating_sub(millis))
    }

    /// Returns the moment as text for people: `2026-11-21T17:51:18Z`, in whole seconds.
    pub fn to_utc(self) -> String {
        let seconds = self.millis() / 1000;
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        // Howard Hinnant's civil_from_days, from 0000-03-01 on.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Returns the duration since `earlier`; zero if it is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.millis().saturating_sub(earlier.millis()))
    }
}

impl Default for Timestamp {
    fn default() -> Timestamp {
        Timestamp::new(0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timestamp").field(&self.millis()).finish()
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct("Timestamp", &self.millis())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        u64::deserialize(deserializer).map(Timestamp::new)
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn an_absent_moment_takes_no_bytes() {
        assert_eq!(size_of::<Option<Timestamp>>(), size_of::<Timestamp>());
    }

    #[test]
    fn moments_are_written_as_people_do() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00Z"),
            (1_798_761_599_000, "2026-12-31T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp::new(millis).to_utc(), text);
        }
        // The largest timestamp has a text form too.
        assert!(Timestamp::new(u64::MAX).to_utc().ends_with('Z'));
    }
}
