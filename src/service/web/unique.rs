//! Keys of JSON that are there twice. Canonical proto JSON refuses them; a reader that takes the
//! first value and one that takes the last one would see two requests.

use std::collections::HashSet;
use std::fmt;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::service::scalars::pass_scalars;

/// Checks that no object of a message has a key twice, also by its two names (`shortMessage` and
/// `short_message`).
///
/// # Errors
/// If it has, or if the text is no JSON.
pub fn check(message: &MessageDescriptor, json: &[u8]) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(json);
    Shape::of(&Kind::Message(message.clone())).deserialize(&mut json)
}

/// What the keys of an object are.
enum Shape {
    /// Fields of a message.
    Message(MessageDescriptor),
    /// Keys of a map with values of this kind.
    Map(Kind),
    /// Anything.
    Other,
}

impl Shape {
    fn of(kind: &Kind) -> Shape {
        match kind {
            // Each of these has a form of its own.
            Kind::Message(message) if message.full_name().starts_with("google.protobuf.") => {
                Shape::Other
            }
            Kind::Message(message) => Shape::Message(message.clone()),
            _ => Shape::Other,
        }
    }

    /// Returns the field of a key.
    fn field(&self, key: &str) -> Option<FieldDescriptor> {
        let Shape::Message(message) = self else { return None };
        message.get_field_by_json_name(key).or_else(|| message.get_field_by_name(key))
    }

    /// Returns the shape of the value of a key.
    fn value(&self, field: Option<&FieldDescriptor>) -> Shape {
        match (self, field.map(|field| (field.is_map(), field.kind()))) {
            (Shape::Map(kind), _) => Shape::of(kind),
            (_, Some((true, Kind::Message(entry)))) => {
                Shape::Map(entry.map_entry_value_field().kind())
            }
            (_, Some((_, kind))) => Shape::of(&kind),
            (_, None) => Shape::Other,
        }
    }

    /// Returns the same shape, for each item of a list.
    fn item(&self) -> Shape {
        match self {
            Shape::Message(message) => Shape::Message(message.clone()),
            Shape::Map(_) | Shape::Other => Shape::Other,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Shape {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shape {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let field = self.field(&key);
            let value = self.value(field.as_ref());
            let name = field.map_or_else(|| key.clone(), |field| field.name().to_string());
            if !seen.insert(name) {
                return Err(A::Error::custom(format_args!("the key {key:?} is there twice")));
            }
            map.next_value_seed(value)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self.item())?.is_some() {}
        Ok(())
    }

    pass_scalars!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_unique(json: &str) -> bool {
        let pool = crate::service::web::pool(&[crate::proto::FILE_DESCRIPTOR_SET]).unwrap();
        let message = pool.get_message_by_name("bellwether.v1.ReplaceStatusesRequest").unwrap();
        check(&message, json.as_bytes()).is_ok()
    }

    #[test]
    fn a_key_is_there_once() {
        for (json, expected) in [
            (r#"{}"#, true),
            (r#"{"unit": "a", "application": "a"}"#, true),
            (r#"{"unit": "a", "unit": "b"}"#, false),
            (r#"{"unit": "a", "\u0075nit": "b"}"#, false),
            (r#"{"unit": null, "unit": "b"}"#, false),
            (r#"{"statuses": [{"message": "a"}, {"message": "b"}]}"#, true),
            (r#"{"statuses": [{"message": "a", "message": "b"}]}"#, false),
            (r#"{"statuses": [{"shortMessage": "a", "short_message": "b"}]}"#, false),
            (r#"{"statuses": [{"labels": {"a_b": "1", "aB": "2"}}]}"#, true),
            (r#"{"statuses": [{"labels": {"a": "1", "a": "2"}}]}"#, false),
            (r#"{"nothing": {"a": [true, 1, -1, 1.5, null]}}"#, true),
            (r#"{"nothing": {"a": 1, "a": 2}}"#, false),
            ("{", false),
        ] {
            assert_eq!(is_unique(json), expected, "{json}");
        }
    }
}
