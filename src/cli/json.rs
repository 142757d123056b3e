//! Messages as canonical proto JSON, or the same value as YAML.

use std::sync::OnceLock;

use anyhow::Context as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;

use crate::cli::exit::UsageError;
use crate::cli::output::Output;
use crate::cli::render::one_line;
use crate::cli::render::text::is_unsafe;
use crate::proto::FILE_DESCRIPTOR_SET;

/// The keys that name an item of a list.
const NAMES: &[&str] = &["name", "operationId", "markId"];

/// Converts a message of `bellwether.v1` to canonical proto JSON. Fields with their default value
/// are included, so that a script always finds the same paths.
///
/// # Errors
/// If `name` is not the name of the message's type.
pub fn from_message(message: &impl prost::Message, name: &str) -> anyhow::Result<Value> {
    let dynamic = DynamicMessage::decode(descriptor(name)?, message.encode_to_vec().as_slice())?;
    let options = SerializeOptions::new().skip_default_fields(false);
    Ok(dynamic.serialize_with_options(serde_json::value::Serializer, &options)?)
}

/// Reads a message of `bellwether.v1` from proto JSON.
///
/// # Errors
/// If `name` is not the name of the message's type, or the value is not such a message.
pub fn to_message<M: prost::Message + Default>(value: Value, name: &str) -> anyhow::Result<M> {
    Ok(DynamicMessage::deserialize(descriptor(name)?, value)?.transcode_to()?)
}

/// Puts a field in front of the others.
pub fn with_first(key: &str, value: impl Into<Value>, mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.shift_insert(0, key.to_string(), value.into());
    }
    object
}

/// Formats a value as indented JSON, as YAML, or as the items of its list: lines of JSON, or names.
///
/// # Errors
/// If the items have no names, and names are wanted.
pub fn render(value: &Value, output: Output) -> anyhow::Result<String> {
    match output {
        Output::Yaml => yaml(value),
        Output::Jsonl => Ok(items(value).map(line).collect()),
        Output::Name => items(value).map(name).collect(),
        _ => Ok(format!("{}\n", escaped(&format!("{value:#}"), Output::Json))),
    }
}

/// Returns the entries of the list that a value begins with; of any other value itself.
fn items(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    let first = value.as_object().and_then(|fields| fields.values().next());
    match first.and_then(Value::as_array) {
        Some(list) => Box::new(list.iter()),
        None => Box::new(std::iter::once(value)),
    }
}

/// Returns the name of an item on a line.
fn name(item: &Value) -> anyhow::Result<String> {
    let name = NAMES.iter().find_map(|key| item.get(key)?.as_str());
    let name = name.ok_or_else(|| {
        UsageError("what this command prints has no names; use -o jsonl or -o json".to_string())
    })?;
    Ok(format!("{}\n", one_line(name)))
}

fn yaml(value: &Value) -> anyhow::Result<String> {
    let yaml = yaml_serde::to_string(value)?;
    // YAML escapes only between double quotes; JSON, which is YAML too, has all its texts there.
    Ok(match yaml.chars().any(|c| c != '\n' && is_unsafe(c)) {
        true => format!("{}\n", escaped(&format!("{value:#}"), Output::Yaml)),
        false => yaml,
    })
}

/// Formats a value on one line.
pub fn line(value: &Value) -> String {
    format!("{}\n", escaped(&value.to_string(), Output::Json))
}

/// Escapes the characters that JSON allows unescaped and that affect a terminal. They occur within
/// texts only, so the document keeps its value.
fn escaped(json: &str, output: Output) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match (is_unsafe(character) && character != '\n', output) {
            (false, _) => text.push(character),
            (true, Output::Yaml) => text.push_str(&format!("\\U{:08x}", u32::from(character))),
            (true, _) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    text
}

fn descriptor(name: &str) -> anyhow::Result<MessageDescriptor> {
    static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).ok()).as_ref();
    pool.context("the descriptors of this build do not decode")?
        .get_message_by_name(&format!("bellwether.v1.{name}"))
        .with_context(|| format!("there is no message {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::Unit;

    #[test]
    fn is_canonical_and_complete() {
        let unit = Unit { name: "web/0".into(), incarnation: 7, level: 6, ..Unit::default() };
        let value = from_message(&unit, "Unit").expect("a unit");
        let expected = concat!(
            r#"{"name":"web/0","incarnation":"7","freshness":"FRESHNESS_UNSPECIFIED","#,
            r#""level":"LEVEL_BLOCKED","message":"","leader":false,"connected":false,"#,
            r#""holds":[],"component":"","shortMessage":"","holdsRestCount":0}"#
        );
        assert_eq!(value.to_string(), expected);
        let event = with_first("event", "upserted", value);
        assert!(event.to_string().starts_with(r#"{"event":"upserted","name":"#));
    }

    #[test]
    fn yaml_is_the_same_document() {
        let value = serde_json::json!({"level": "LEVEL_ACTIVE", "message": "on: fire"});
        assert_eq!(
            render(&value, Output::Yaml).expect("yaml"),
            "level: LEVEL_ACTIVE\nmessage: 'on: fire'\n"
        );
    }

    #[test]
    fn the_items_of_a_list_are_lines_or_names() {
        let of = |value: &Value, output| render(value, output).map_err(|error| error.to_string());
        let list = serde_json::json!({"units": [{"name": "a/0"}, {"name": "a/1"}], "next": ""});
        assert_eq!(of(&list, Output::Jsonl).unwrap(), "{\"name\":\"a/0\"}\n{\"name\":\"a/1\"}\n");
        assert_eq!(of(&list, Output::Name).unwrap(), "a/0\na/1\n");
        assert_eq!(of(&serde_json::json!({"units": []}), Output::Name).unwrap(), "");
        let one = serde_json::json!({"lease": {}, "candidates": ["a/0"]});
        assert_eq!(of(&one, Output::Jsonl).unwrap(), format!("{one}\n"));
        assert!(of(&one, Output::Name).unwrap_err().contains("has no names"));
    }

    #[test]
    fn control_characters_are_escaped_and_survive_parsing() {
        let text = "a\u{1b}[31mb\u{9b}c\u{7f}\u{202e}d\u{e0041}\ne";
        let value = serde_json::json!({ "message": text, "plain": "日本" });
        let json = render(&value, Output::Json).expect("json");
        let yaml = render(&value, Output::Yaml).expect("yaml");
        for printed in [&json, &yaml, &line(&value)] {
            let found = printed.chars().find(|c| *c != '\n' && is_unsafe(*c));
            assert_eq!(found, None, "{printed:?}");
            assert!(printed.contains("日本"));
        }
        assert_eq!(serde_json::from_str::<Value>(&json).expect("reads back"), value);
        assert_eq!(yaml_serde::from_str::<Value>(&yaml).expect("reads back"), value);
    }

    #[test]
    fn a_wrong_name_is_an_error() {
        let error = from_message(&Unit::default(), "Sheep").expect_err("no such message");
        assert_eq!(error.to_string(), "there is no message Sheep");
    }
}
