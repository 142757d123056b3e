//! The parts of a message: the messages inside it. A part takes two bytes on the wire and hundreds
//! in memory, so they are counted before the message is decoded.

use std::collections::HashMap;

use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

use crate::service::wire::{WireValue, next_field};

/// Maximum parts of a message: 4,096 statuses with 31 labels each.
pub const PARTS_MAX: usize = 1 << 17;

/// A message of fewer bytes cannot have too many parts.
const BYTES_MIN: usize = 2 * PARTS_MAX;

/// Messages inside messages are decoded up to this depth by prost.
const DEPTH_MAX: u32 = 100;

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TypeId(usize);

/// The fields of all types that are messages.
#[derive(Default)]
pub(super) struct Types {
    ids: HashMap<String, TypeId>,
    /// By type: the type of each field that is a message, by its number.
    fields: Vec<HashMap<u32, TypeId>>,
}

impl Types {
    /// Adds the types of some files.
    pub(super) fn add(&mut self, set: &FileDescriptorSet) {
        for file in &set.file {
            for message in &file.message_type {
                self.add_type(&format!(".{}", file.package()), message);
            }
        }
    }

    /// Returns the id of a type, by its full name with a dot before it.
    pub(super) fn id(&mut self, name: &str) -> TypeId {
        if let Some(known) = self.ids.get(name) {
            return *known;
        }
        let id = TypeId(self.fields.len());
        self.fields.push(HashMap::new());
        self.ids.insert(name.to_string(), id);
        id
    }

    fn add_type(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        let id = self.id(&name);
        for field in &message.field {
            if field.r#type() == Type::Message {
                let of = self.id(field.type_name());
                self.fields[id.0].insert(field.number().unsigned_abs(), of);
            }
        }
        for inner in &message.nested_type {
            self.add_type(&name, inner);
        }
    }

    /// Returns whether a message has more parts than [`PARTS_MAX`]. What cannot be decoded ends the
    /// count: the decoder refuses it.
    pub(super) fn has_too_many(&self, message: TypeId, bytes: &[u8]) -> bool {
        let mut left = PARTS_MAX;
        BYTES_MIN < bytes.len() && self.count(message, bytes, &mut left, DEPTH_MAX).is_none()
    }

    /// Takes the parts of a message off `left`. Returns `None` if there are not enough.
    fn count(&self, of: TypeId, mut bytes: &[u8], left: &mut usize, depth: u32) -> Option<()> {
        while let Some((number, value)) = next_field(&mut bytes) {
            let Some(part) = self.fields[of.0].get(&number).filter(|_| 0 < depth) else { continue };
            *left = left.checked_sub(1)?;
            if let WireValue::Bytes(value) = value {
                self.count(*part, value, left, depth - 1)?;
            }
        }
        Some(())
    }
}

/// Returns whether a message in JSON has more parts than [`PARTS_MAX`].
pub fn json_has_too_many(json: &[u8]) -> bool {
    if json.len() <= BYTES_MIN {
        return false;
    }
    let (mut parts, mut in_text, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' if !in_text => parts += 1,
            _ => {}
        }
    }
    PARTS_MAX < parts
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::proto::{self, v1};

    const REPLACE: &str = ".bellwether.v1.ReplaceStatusesRequest";

    fn has_too_many(name: &str, message: &impl Message) -> bool {
        let mut types = Types::default();
        types.add(&FileDescriptorSet::decode(proto::FILE_DESCRIPTOR_SET).unwrap());
        let id = types.id(name);
        types.has_too_many(id, &message.encode_to_vec())
    }

    fn mk_set(status: v1::StatusReport, count: usize) -> v1::ReplaceStatusesRequest {
        let statuses = vec![status; count];
        v1::ReplaceStatusesRequest { statuses, ..v1::ReplaceStatusesRequest::default() }
    }

    #[test]
    fn a_large_set_is_accepted_and_empty_statuses_without_end_are_not() {
        let labels = (0..31).map(|n| (format!("label-{n}"), "x".repeat(20)));
        let labels = labels.collect();
        let status = v1::StatusReport { labels, ..v1::StatusReport::default() };
        assert!(!has_too_many(REPLACE, &mk_set(status, 4095)));
        assert!(!has_too_many(REPLACE, &mk_set(v1::StatusReport::default(), PARTS_MAX)));
        assert!(has_too_many(REPLACE, &mk_set(v1::StatusReport::default(), PARTS_MAX + 1)));
    }

    /// Parts are counted at any depth, and a text is no part.
    #[test]
    fn parts_of_parts_count_and_texts_do_not() {
        let labels = (0..PARTS_MAX).map(|n| (format!("{n}"), String::new())).collect();
        let status = v1::StatusReport { labels, ..v1::StatusReport::default() };
        assert!(has_too_many(REPLACE, &mk_set(status, 1)));
        let message = "\u{a}\u{0}".repeat(2 << 20);
        let status = v1::StatusReport { message, ..v1::StatusReport::default() };
        assert!(!has_too_many(REPLACE, &mk_set(status, 1)));
    }

    #[test]
    fn objects_of_json_are_parts_outside_of_texts() {
        let objects = |count| format!("[{}]", vec!["{}"; count].join(","));
        assert!(!json_has_too_many(objects(PARTS_MAX).as_bytes()));
        assert!(json_has_too_many(objects(PARTS_MAX + 1).as_bytes()));
        let text = format!("[\"{}\\\"{}\"]", "{".repeat(PARTS_MAX), "{".repeat(PARTS_MAX));
        assert!(!json_has_too_many(text.as_bytes()));
    }

    proptest::proptest! {
        #[test]
        fn bytes_that_are_no_message_are_left_to_the_decoder(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)
        ) {
            let mut types = Types::default();
            types.add(&FileDescriptorSet::decode(proto::FILE_DESCRIPTOR_SET).unwrap());
            let (id, mut left) = (types.id(REPLACE), PARTS_MAX);
            proptest::prop_assert!(types.count(id, &bytes, &mut left, DEPTH_MAX).is_some());
        }
    }
}
