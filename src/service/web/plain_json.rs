//! Canonical JSON of an answer, straight from its bytes.
//!
//! prost-reflect first makes a message with allocations for each field, which was a quarter of the
//! cost of a call with JSON. The answers of this server have a plain form, as encoders write it:
//! known fields in the order of their numbers, without default values. Any other form is `None`,
//! and prost-reflect translates it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost::encoding::decode_varint;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use prost_types::Timestamp;
use serde::Serialize;

use crate::service::protobuf::{WireValue, next_field};

/// The times that JSON can show: those of the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Returns a message as JSON; `None` if its bytes have another form than the plain one.
pub fn of(message: &MessageDescriptor, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut json = Vec::with_capacity(3 * bytes.len());
    add_message(&mut json, message, bytes)?;
    Some(json)
}

/// Reads the fields of a message with their numbers.
fn read(mut bytes: &[u8]) -> Option<Vec<(u32, WireValue<'_>)>> {
    let mut fields = Vec::with_capacity(16);
    while !bytes.is_empty() {
        fields.push(next_field(&mut bytes)?);
    }
    Some(fields)
}

fn add_message(json: &mut Vec<u8>, message: &MessageDescriptor, bytes: &[u8]) -> Option<()> {
    match message.full_name() {
        "google.protobuf.Timestamp" => {
            let time = Timestamp::decode(bytes).ok();
            return add(json, &time.filter(|time| SECONDS.contains(&time.seconds))?.to_string());
        }
        // Each of these has a form of its own.
        name if name.starts_with("google.protobuf.") => {
            return add(json, &DynamicMessage::decode(message.clone(), bytes).ok()?);
        }
        _ => {}
    }
    let fields = read(bytes)?;
    if !fields.is_sorted_by_key(|(number, _)| number) {
        return None;
    }
    let runs = fields.chunk_by(|(one, _), (other, _)| one == other);
    add_all(json, b"{}", runs, |json, run| {
        let field = message.get_field(run[0].0)?;
        add(json, field.json_name())?;
        json.push(b':');
        add_field(json, &field, run)
    })
}

/// Adds the values of one field.
fn add_field(
    json: &mut Vec<u8>,
    field: &FieldDescriptor,
    run: &[(u32, WireValue<'_>)],
) -> Option<()> {
    let kind = field.kind();
    match (&kind, run) {
        (Kind::Message(entry), _) if entry.is_map_entry() => {
            add_all(json, b"{}", run, |json, (_, value)| add_entry(json, entry, *value))
        }
        (Kind::String | Kind::Bytes | Kind::Message(_), _) if field.is_list() => {
            add_all(json, b"[]", run, |json, (_, value)| add_value(json, &kind, *value))
        }
        (_, &[(_, WireValue::Bytes(mut packed))]) if field.is_list() && !packed.is_empty() => {
            let mut numbers = Vec::new();
            while !packed.is_empty() {
                numbers.push(WireValue::Number(decode_varint(&mut packed).ok()?));
            }
            add_all(json, b"[]", numbers, |json, number| add_value(json, &kind, number))
        }
        _ if field.is_list() => None,
        (_, [(_, value)]) if field.supports_presence() || *value != default_of(&kind) => {
            add_value(json, &kind, *value)
        }
        _ => None,
    }
}

/// Adds an entry of a map whose keys are text. Its key and its value may be left out.
fn add_entry(json: &mut Vec<u8>, entry: &MessageDescriptor, value: WireValue<'_>) -> Option<()> {
    if entry.map_entry_key_field().kind() != Kind::String {
        return None;
    }
    let (fields, of) = (read(value.bytes()?)?, entry.map_entry_value_field().kind());
    let given = |number| fields.iter().find(|field| field.0 == number).map(|(_, value)| *value);
    add(json, given(1).unwrap_or(WireValue::Bytes(&[])).text()?)?;
    json.push(b':');
    add_value(json, &of, given(2).unwrap_or(default_of(&of)))
}

fn default_of(kind: &Kind) -> WireValue<'static> {
    match kind {
        Kind::String | Kind::Bytes | Kind::Message(_) => WireValue::Bytes(&[]),
        Kind::Double => WireValue::Fixed(&[0; 8]),
        _ => WireValue::Number(0),
    }
}

fn add_value(json: &mut Vec<u8>, kind: &Kind, value: WireValue<'_>) -> Option<()> {
    match kind {
        Kind::Bool => add(json, &(value.number()? != 0)),
        Kind::Int32 => add(json, &value.int32()?),
        Kind::Sint32 => add(json, &value.sint32()?),
        Kind::Uint32 => add(json, &u32::try_from(value.number()?).ok()?),
        Kind::Uint64 => add(json, &value.number()?.to_string()),
        // Infinity and NaN have a form of their own.
        Kind::Double => add(json, &value.double().filter(|double| double.is_finite())?),
        Kind::Enum(of) => match of.get_value(value.int32()?) {
            Some(value) => add(json, value.name()),
            None => add(json, &value.int32()?),
        },
        Kind::String => add(json, value.text()?),
        Kind::Bytes => add(json, &STANDARD.encode(value.bytes()?)),
        Kind::Message(of) => add_message(json, of, value.bytes()?),
        _ => None,
    }
}

fn add(json: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Option<()> {
    serde_json::to_writer(json, value).ok()
}

/// Adds items with commas between them and brackets around them.
fn add_all<T>(
    json: &mut Vec<u8>,
    [open, close]: &[u8; 2],
    items: impl IntoIterator<Item = T>,
    add: impl Fn(&mut Vec<u8>, T) -> Option<()>,
) -> Option<()> {
    json.push(*open);
    for (at, item) in items.into_iter().enumerate() {
        if 0 < at {
            json.push(b',');
        }
        add(json, item)?;
    }
    json.push(*close);
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost_reflect::{MapKey, Value as Field};
    use serde_json::Value as Json;

    use super::*;
    use crate::service::web::pool;

    /// Draws choices from a seed.
    struct Choices(u64);

    impl Choices {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        fn of<T: Clone>(&mut self, all: &[T]) -> T {
            all[self.next() as usize % all.len()].clone()
        }

        fn message(&mut self, of: &MessageDescriptor, depth: u32) -> DynamicMessage {
            let mut message = DynamicMessage::new(of.clone());
            if ["google.protobuf.Timestamp", "google.protobuf.Duration"].contains(&of.full_name()) {
                let (seconds, nanos) =
                    (self.of(&[0, 1, 1_700_000_000]), self.of(&[0, 5_000_000, 7]));
                message.set_field_by_number(1, Field::I64(seconds));
                message.set_field_by_number(2, Field::I32(nanos));
                return message;
            }
            if of.full_name() == "google.protobuf.Any" {
                let url = "type.googleapis.com/google.protobuf.Duration".to_string();
                message.set_field_by_number(1, Field::String(url));
                return message;
            }
            for field in of.fields() {
                let is_deep = matches!(field.kind(), Kind::Message(_)) && depth == 0;
                if !is_deep && self.of(&[true, true, false]) {
                    message.set_field(&field, self.field(&field, depth));
                }
            }
            message
        }

        fn field(&mut self, field: &FieldDescriptor, depth: u32) -> Field {
            let count = self.next() % 4;
            let kind = field.kind();
            match &kind {
                Kind::Message(entry) if field.is_map() => {
                    let kind = entry.map_entry_value_field().kind();
                    let keys = (0..count).map(|n| MapKey::String("k".repeat(n as usize)));
                    Field::Map(keys.map(|key| (key, self.value(&kind, depth))).collect())
                }
                _ if field.is_list() => {
                    Field::List((0..count).map(|_| self.value(&kind, depth)).collect())
                }
                _ => self.value(&kind, depth),
            }
        }

        fn value(&mut self, kind: &Kind, depth: u32) -> Field {
            match kind {
                Kind::Bool => Field::Bool(self.of(&[false, true])),
                Kind::Int32 | Kind::Sint32 => Field::I32(self.of(&[0, 1, -1, i32::MIN, i32::MAX])),
                Kind::Uint32 => Field::U32(self.of(&[0, 1, u32::MAX])),
                Kind::Uint64 => Field::U64(self.of(&[0, 1, u64::MAX])),
                Kind::Double => Field::F64(self.of(&[0.0, 99.95, -1e300, 100.0])),
                Kind::Enum(_) => Field::EnumNumber(self.of(&[0, 1, 2, 3, 4, 999, -1])),
                Kind::String => {
                    Field::String(self.of(&["", "web/0", "\"\\\n\u{1}<\u{2028}ü"]).into())
                }
                Kind::Bytes => {
                    Field::Bytes(self.of(&[&b""[..], b"a", b"\xff\x00b"]).to_vec().into())
                }
                Kind::Message(of) => Field::Message(self.message(of, depth.saturating_sub(1))),
                other => panic!("no message has the type {other:?}"),
            }
        }
    }

    fn answers() -> Vec<MessageDescriptor> {
        let pool = pool(&[crate::proto::FILE_DESCRIPTOR_SET]).unwrap();
        let services: Vec<_> = pool.services().collect();
        services.iter().flat_map(|service| service.methods()).map(|m| m.output()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 32,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn every_answer_is_what_prost_reflect_makes_of_it(seed in 1_u64..) {
            let mut choices = Choices(seed);
            for answer in answers() {
                let message = choices.message(&answer, 4);
                let json = of(&answer, &message.encode_to_vec()).expect("its form is plain");
                let json: Json = serde_json::from_slice(&json).unwrap();
                prop_assert_eq!(json, serde_json::to_value(&message).unwrap());
            }
        }

        #[test]
        fn any_bytes_are_plain_or_not(bytes: Vec<u8>) {
            for answer in answers() {
                let _ = of(&answer, &bytes);
            }
        }
    }

    #[test]
    fn another_form_is_left_to_prost_reflect() {
        let all = answers();
        let answer = all.iter().find(|of| of.name() == "GetServerInfoResponse").unwrap();
        let json = |bytes| of(answer, bytes).map(|json| String::from_utf8(json).unwrap());
        assert_eq!(json(b"\x0a\x01a\x18\x01"), Some(plain()));
        for other in [
            &b"\x12\x01a\x0a\x01b"[..], // the second field is first
            b"\x0a\x01a\x0a\x01b",      // a field twice
            b"\x7a\x01a",               // an unknown field
            b"\x0a\x00",                // a default value
            b"\x0a\x01\xff",            // no UTF-8
            b"\x0a\x02a",               // cut off
            b"\x0d\x01\x01\x01\x01",    // a fixed number
            b"\x0b\x0c",                // a group
        ] {
            assert_eq!(json(other), None, "{other:?}");
        }
        let pool = answer.parent_pool();
        let config = pool.get_message_by_name("bellwether.v1.ApplicationConfig").unwrap();
        let levels = config.get_field_by_json_name("servingLevels").unwrap().number() as u8;
        assert_eq!(of(&config, &[levels << 3, 1]), None, "numbers that are not packed");
        assert_eq!(of(&config, &[levels << 3 | 2, 0]), None, "no numbers");
    }

    fn plain() -> String {
        r#"{"version":"a","storeKind":"STORE_KIND_MEMORY"}"#.to_string()
    }
}
