//! A message of any type, as decisions make it.

use bellwether_fuzz::choices::Choices;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};

/// Names that exist, texts with a meaning, and texts with none.
const TEXTS: &[&str] = &[
    "web",
    "web/0",
    "web/1",
    "default",
    "db",
    "web/0.5",
    "-",
    "",
    "a b",
    "\u{1F411}",
    "\u{0}",
    "juju",
    "/",
    "..",
    "web/18446744073709551616",
    "custom",
    "active",
    "http",
    "409",
    "TRANSIENT",
    "\u{7f}",
];
const DEPTH_MAX: usize = 5;

/// Returns a message with some of the fields.
pub fn message(of: &MessageDescriptor, choices: &mut Choices<'_>, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(of.clone());
    for field in of.fields() {
        let is_left_out = choices.is_over() || choices.below(3) == 0 || depth == DEPTH_MAX;
        // What a call is about is rarely missing.
        let is_named = matches!(field.name(), "application" | "unit" | "hello" | "status" | "mark");
        if is_left_out && !(is_named && depth < DEPTH_MAX) {
            continue;
        }
        message.set_field(&field, value(&field, choices, depth));
    }
    message
}

/// Moves all that a message is about into namespaces that begin with `prefix`. A name that no
/// namespace may have stays.
pub fn in_namespace(message: &mut DynamicMessage, prefix: &str) {
    for field in message.descriptor().fields() {
        if field.name() == "namespace" && field.kind() == Kind::String && !field.is_list() {
            let name = message.get_field(&field).as_str().unwrap_or_default().to_string();
            let is_valid = name.len() < 32
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            if is_valid {
                message.set_field(&field, Value::String(format!("{prefix}{name}0")));
            }
        } else if message.has_field(&field) {
            parts(message.get_field_mut(&field), prefix);
        }
    }
}

fn parts(value: &mut Value, prefix: &str) {
    match value {
        Value::Message(message) => in_namespace(message, prefix),
        Value::List(values) => values.iter_mut().for_each(|value| parts(value, prefix)),
        Value::Map(values) => values.values_mut().for_each(|value| parts(value, prefix)),
        _ => (),
    }
}

fn value(field: &FieldDescriptor, choices: &mut Choices<'_>, depth: usize) -> Value {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { unreachable!() };
        let entry_value = entry.map_entry_value_field();
        let pair = |choices: &mut Choices<'_>| {
            (MapKey::String(text(choices)), single(&entry_value, choices, depth))
        };
        return Value::Map((0..count(choices)).map(|_| pair(choices)).collect());
    }
    if field.is_list() {
        return Value::List((0..count(choices)).map(|_| single(field, choices, depth)).collect());
    }
    single(field, choices, depth)
}

/// Few entries, and now and then more than any limit of a short list.
fn count(choices: &mut Choices<'_>) -> usize {
    match choices.below(64) {
        63 => 130,
        n => n % 4,
    }
}

fn single(field: &FieldDescriptor, choices: &mut Choices<'_>, depth: usize) -> Value {
    match field.kind() {
        Kind::Message(of) => Value::Message(message(&of, choices, depth + 1)),
        Kind::Enum(_) => Value::EnumNumber(match choices.below(16) {
            15 => i32::from_ne_bytes([choices.byte(), choices.byte(), 0xff, 0x7f]),
            n => i32::try_from(n).unwrap() - 1,
        }),
        Kind::String => Value::String(text(choices)),
        Kind::Bytes => Value::Bytes(choices.bytes().to_vec().into()),
        Kind::Bool => Value::Bool(choices.below(2) == 1),
        Kind::Double => Value::F64(f64::from_bits(choices.number())),
        Kind::Float => Value::F32(f64::from_bits(choices.number()) as f32),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(number(choices) as i32),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(number(choices) as u32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number(choices)),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(number(choices) as u64),
    }
}

/// Small numbers, the ends of the types, and any number.
fn number(choices: &mut Choices<'_>) -> i64 {
    match choices.below(16) {
        n @ 0..8 => i64::try_from(n).unwrap() - 1,
        8 => i64::MAX,
        9 => i64::MIN,
        10 => i64::from(i32::MAX),
        11 => 1_000_000_000,
        12 => 86_400,
        13 => i64::from(choices.byte()),
        _ => choices.number() as i64,
    }
}

fn text(choices: &mut Choices<'_>) -> String {
    match choices.below(32) {
        30 => "x".repeat(1 << choices.below(17)),
        31 => String::from_utf8_lossy(choices.bytes()).into_owned(),
        n => TEXTS[n % TEXTS.len()].to_string(),
    }
}
