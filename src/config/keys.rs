//! The keys that the configuration file may have, derived from its types.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor, value::Error};

use super::{File, FileFaults, FileHistory, FileLimits, FileSessions};

/// The tables of the file.
const TABLES: [&str; 4] = ["limits", "history", "sessions", "faults"];

/// Returns section and key of every setting of the file, in the order of the types; the section of
/// a key outside of the tables is empty.
pub fn keys() -> Vec<(&'static str, &'static str)> {
    let top = fields::<File>().into_iter().filter(|key| !TABLES.contains(key));
    let tables = [
        fields::<FileLimits>(),
        fields::<FileHistory>(),
        fields::<FileSessions>(),
        fields::<FileFaults>(),
    ];
    let tables = TABLES.into_iter().zip(tables);
    let inner = tables.flat_map(|(table, keys)| keys.into_iter().map(move |key| (table, key)));
    top.map(|key| ("", key)).chain(inner).collect()
}

fn fields<'de, T: Deserialize<'de>>() -> Vec<&'static str> {
    let mut found = Vec::new();
    // The result is always an error; the fields are known by then.
    let _ = T::deserialize(Fields(&mut found));
    found
}

/// A deserializer that records the names of the fields that a type asks for, and returns no value.
struct Fields<'a>(&'a mut Vec<&'static str>);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom(fmt::Error))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.extend(fields);
        Err(Error::custom(fmt::Error))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_its_keys() {
        let all = keys();
        for expected in [
            ("", "grpc_listen"),
            ("limits", "units_max"),
            ("history", "events_max"),
            ("sessions", "sessions_max"),
            ("faults", "soft_count"),
        ] {
            assert!(all.contains(&expected), "{expected:?} is not in {all:?}");
        }
        assert!(!all.contains(&("", "limits")));
    }
}
