//! The id of an entry of a log.

use std::str::FromStr;

/// The id of an entry of a log: the clock of Redis in milliseconds, and a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct EntryId(pub(super) u64, pub(super) u64);

impl FromStr for EntryId {
    type Err = ();

    fn from_str(text: &str) -> Result<EntryId, ()> {
        let (millis, count) = text.split_once('-').ok_or(())?;
        Ok(EntryId(millis.parse().map_err(|_| ())?, count.parse().map_err(|_| ())?))
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}
