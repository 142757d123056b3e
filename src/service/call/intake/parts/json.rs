//! Counts the parts of a message in JSON, without a copy of any of them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::schema::{Field, LIST_MAX, TypeId, Types};
use super::{Left, PARTS_MAX, TooMany};
use crate::service::scalars::pass_scalars;

impl Types {
    /// Counts the parts of a message in JSON. What is no such message ends the count: the decoder
    /// refuses it.
    ///
    /// # Errors
    /// The first limit that the message exceeds.
    pub(in crate::service::call::intake) fn check_json(
        &self,
        message: TypeId,
        json: &[u8],
    ) -> Result<(), TooMany> {
        // An entry takes two bytes at least.
        if json.len() <= 2 * LIST_MAX {
            return Ok(());
        }
        let mut walk = Walk { types: self, left: Left(PARTS_MAX), found: None };
        let value = Value { walk: &mut walk, shape: Shape::Message(message) };
        let _wrong = value.deserialize(&mut serde_json::Deserializer::from_slice(json));
        walk.found.map_or(Ok(()), Err)
    }
}

/// A walk through a message.
struct Walk<'t> {
    types: &'t Types,
    left: Left,
    /// The limit that ended the walk.
    found: Option<TooMany>,
}

impl Walk<'_> {
    /// Counts an entry, after `before` others of its list.
    fn take<E: Error>(&mut self, field: Option<&Field>, before: usize) -> Result<(), E> {
        let checked = field.map_or(Ok(()), |field| field.check(before + 1));
        checked.and_then(|()| self.left.take(1)).map_err(|found| {
            self.found = Some(found);
            E::custom("there are too many parts")
        })
    }
}

/// What a value is, by its field.
#[derive(Clone, Copy)]
enum Shape<'t> {
    /// A message.
    Message(TypeId),
    /// A list or a map.
    List(&'t Field),
    /// Something else. The decoder refuses an object or a list there.
    Other,
    /// The value of a field that does not exist. The decoder refuses it, but other readers before
    /// the decoder may keep its keys.
    Unknown,
}

struct Value<'w, 't> {
    walk: &'w mut Walk<'t>,
    shape: Shape<'t>,
}

impl<'t> Value<'_, 't> {
    /// Returns the shape of a field's value.
    fn of_field(&self, name: &str) -> Shape<'t> {
        let Shape::Message(of) = self.shape else { return Shape::Unknown };
        let Some(number) = self.walk.types.number(of, name) else { return Shape::Unknown };
        match self.walk.types.field(of, number) {
            Some(field) if field.list.is_some() => Shape::List(field),
            field => field.and_then(|field| field.message).map_or(Shape::Other, Shape::Message),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let field = if let Shape::List(field) = self.shape { Some(field) } else { None };
        let message = field.and_then(|field| field.message);
        let shape = message.map_or(Shape::Other, Shape::Message);
        let mut count = 0;
        while entries.next_element_seed(Value { walk: &mut *self.walk, shape })?.is_some() {
            self.walk.take(field, count)?;
            count += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        if let Shape::List(field) = self.shape {
            let value = field.message.and_then(|entry| self.walk.types.map_value(entry));
            let shape = value.map_or(Shape::Other, Shape::Message);
            let mut count = 0;
            while entries.next_key::<IgnoredAny>()?.is_some() {
                self.walk.take(Some(field), count)?;
                entries.next_value_seed(Value { walk: &mut *self.walk, shape })?;
                count += 1;
            }
            return Ok(());
        }
        while let Some(shape) = entries.next_key_seed(FieldName(&self))? {
            if let Shape::Message(_) | Shape::Unknown = shape {
                self.walk.take(None, 0)?;
            }
            entries.next_value_seed(Value { walk: &mut *self.walk, shape })?;
        }
        Ok(())
    }

    pass_scalars!();
}

/// The name of a field, of which the shape of its value is known.
struct FieldName<'k, 'w, 't>(&'k Value<'w, 't>);

impl<'de, 't> DeserializeSeed<'de> for FieldName<'_, '_, 't> {
    type Value = Shape<'t>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Shape<'t>, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de, 't> Visitor<'de> for FieldName<'_, '_, 't> {
    type Value = Shape<'t>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Shape<'t>, E> {
        Ok(self.0.of_field(name))
    }
}
