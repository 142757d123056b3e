//! The newest value of each key in the operations of several groups.
//!
//! Most groups change the same few keys, such as the head of an application. The database takes one
//! value for each key, in the order of the keys, so that it looks each page up while the page is in
//! the caches.

use std::collections::BTreeMap;

use super::op::{TableId, Trim};

/// A key with its new value; `None` removes the key.
type Value<'a> = (TableId, &'a [u8], Option<&'a [u8]>);

/// Values and trims to apply together. What clears a prefix is between two of these.
#[derive(Default)]
pub(super) struct Newest<'a> {
    /// In the order of the operations.
    values: Vec<Value<'a>>,
    /// The last trim of each application: it removes what the earlier ones remove.
    trims: BTreeMap<&'a [u8], Trim<'a>>,
}

impl<'a> Newest<'a> {
    /// Sets or removes a key.
    pub(super) fn put(&mut self, table: TableId, key: &'a [u8], value: Option<&'a [u8]>) {
        self.values.push((table, key, value));
    }

    /// Removes old events.
    pub(super) fn trim(&mut self, trim: Trim<'a>) {
        self.trims.insert(trim.prefix, trim);
    }

    /// Returns the newest value of each key, in the order of tables and keys, and the trims to
    /// apply after them.
    pub(super) fn into_parts(self) -> (Vec<Value<'a>>, impl Iterator<Item = Trim<'a>>) {
        let mut values = self.values;
        // A stable sort: the last one of equal keys is the newest.
        values.sort_by_key(|(table, key, _)| (*table, *key));
        values.dedup_by(|next, kept| {
            let is_same = (next.0, next.1) == (kept.0, kept.1);
            if is_same {
                kept.2 = next.2;
            }
            is_same
        });
        (values, self.trims.into_values())
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::time::Timestamp;

    use super::*;

    #[test]
    fn the_last_value_of_a_key_and_the_last_trim_of_an_application_are_applied() {
        let trim = |prefix, oldest| Trim { prefix, oldest, cutoff: Timestamp::new(7) };
        let mut newest = Newest::default();
        newest.put(TableId::Records, b"b", Some(b"1"));
        newest.put(TableId::Heads, b"b", Some(b"2"));
        newest.trim(trim(b"web", 3));
        newest.put(TableId::Records, b"a", Some(b"3"));
        newest.put(TableId::Records, b"b", None);
        newest.trim(trim(b"db", 5));
        newest.put(TableId::Heads, b"b", Some(b"4"));
        newest.put(TableId::Records, b"c", None);
        newest.put(TableId::Records, b"c", Some(b"5"));
        newest.trim(trim(b"web", 9));
        let (values, trims) = newest.into_parts();
        let expected: [Value<'_>; 4] = [
            (TableId::Heads, b"b", Some(b"4")),
            (TableId::Records, b"a", Some(b"3")),
            (TableId::Records, b"b", None),
            (TableId::Records, b"c", Some(b"5")),
        ];
        assert_eq!(values, expected);
        assert_eq!(trims.collect::<Vec<_>>(), [trim(b"db", 5), trim(b"web", 9)]);
    }
}
