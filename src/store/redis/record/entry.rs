//! The entries of a stream: a log, or a history.

use std::str::FromStr;

use redis::Value;

use super::reply;

/// The id of an entry of a log: the clock of Redis in milliseconds, and a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct EntryId(pub(crate) u64, pub(crate) u64);

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

/// The fields of an entry.
pub(crate) type RawFields<'a> = Vec<(&'a Value, &'a Value)>;

/// Returns the id of a stream entry, and its fields.
pub(crate) fn read_entry(entry: &Value) -> Option<(EntryId, RawFields<'_>)> {
    match reply::items(entry) {
        [id, fields] => Some((reply::text(id)?.parse().ok()?, reply::pairs(fields))),
        _ => None,
    }
}

/// Returns the value of a field.
pub(crate) fn field<'a>(fields: &RawFields<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let (_, value) = fields.iter().find(|(key, _)| reply::bytes(key) == Some(name))?;
    reply::bytes(value)
}
