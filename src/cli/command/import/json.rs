//! Reads JSON. It refuses an object with a duplicate key, because which of the two values counts is
//! undefined, and values within more than [`DEPTH_MAX`] others.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Limit of lists and objects within each other.
const DEPTH_MAX: usize = 64;

/// Reads a document.
///
/// # Errors
/// The mistake, with line and column.
pub fn read(text: &str) -> Result<Value, serde_json::Error> {
    let mut source = serde_json::Deserializer::from_str(text);
    let value = Unique::default().deserialize(&mut source)?;
    source.end()?;
    Ok(value)
}

/// Reads one value without duplicate keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unique {
    /// Number of lists and objects around the value.
    depth: usize,
}

impl Unique {
    /// Returns the reader of a value within this one.
    fn within<E: serde::de::Error>(self) -> Result<Unique, E> {
        let depth = self.depth + 1;
        if DEPTH_MAX < depth {
            return Err(E::custom(format!("more than {DEPTH_MAX} values within each other")));
        }
        Ok(Unique { depth })
    }
}

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_any(self)
    }
}

/// Checks that an object does not have a key yet.
///
/// # Errors
/// A duplicate key.
pub fn check_new<E: serde::de::Error>(known: &Map<String, Value>, key: &str) -> Result<(), E> {
    match known.contains_key(key) {
        true => Err(E::custom(format!("the key `{key}` is there twice"))),
        false => Ok(()),
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (within, mut all) = (self.within()?, Vec::new());
        while let Some(item) = items.next_element_seed(within)? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let (within, mut all) = (self.within()?, Map::new());
        while let Some(key) = entries.next_key::<String>()? {
            check_new(&all, &key)?;
            let value = entries.next_value_seed(within)?;
            all.insert(key, value);
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_json_has_and_refuses_a_key_twice() {
        let text = r#"{"a": [1, -2, 0.5, null, true, "x"], "b": {"a": 1e400}}"#;
        assert!(read(text).is_err(), "a number that no float has");
        let text = r#"{"a": [1, -2, 0.5, null, true, "x"], "b": {"a": 18446744073709551615}}"#;
        let plain: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(read(text).expect("JSON"), plain);
        let error = read(r#"{"a": {"web": 1, "web": 2}}"#).expect_err("twice").to_string();
        assert!(error.starts_with("the key `web` is there twice at line 1 column "), "{error}");
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&nested(DEPTH_MAX)).is_ok());
        let error = read(&nested(DEPTH_MAX + 1)).expect_err("too deep").to_string();
        assert!(error.starts_with("more than 64 values within each other at line 1"), "{error}");
        assert!(read("{} {}").is_err(), "two documents");
    }
}
