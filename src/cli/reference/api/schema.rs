//! Messages and enums as JSON Schema, in the form that canonical proto JSON has.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::comment::Commented;

/// The types that methods need, by name, as they are found.
#[derive(Default)]
pub struct Schemas {
    found: BTreeMap<String, Value>,
    /// The messages of answers, which a later version may give further fields.
    answered: BTreeSet<String>,
}

impl Schemas {
    /// Notes that a message and all within it occur in answers.
    pub fn note_answer(&mut self, message: &MessageDescriptor) {
        if !self.answered.insert(message.full_name().to_string()) {
            return;
        }
        for field in message.fields() {
            if let Kind::Message(inner) = field.kind() {
                self.note_answer(&inner);
            }
        }
    }

    /// Returns the schema of a message, and adds what it needs. Call [`Schemas::note_answer`] for
    /// all answers before.
    pub fn message(&mut self, message: &MessageDescriptor) -> Value {
        if let Some(schema) = well_known(message.full_name()) {
            return schema;
        }
        let name = name_of(message.full_name());
        if !self.found.contains_key(&name) {
            self.found.insert(name.clone(), Value::Null); // a message may contain itself
            let schema = self.object(message);
            self.found.insert(name.clone(), schema);
        }
        reference(&name)
    }

    /// Returns the schemas by name.
    pub fn finish(self) -> Map<String, Value> {
        self.found.into_iter().collect()
    }

    fn object(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        let is_sent_only = !self.answered.contains(message.full_name());
        let mut fields: Vec<FieldDescriptor> = message.fields().collect();
        fields.sort_by_key(|field| field.path().last().copied());
        for field in fields {
            let comment = field.comment();
            if is_sent_only && comment.contains("Required.") {
                required.push(json!(field.json_name()));
            }
            let mut schema = self.field(&field);
            schema["description"] = json!(comment);
            properties.insert(field.json_name().to_string(), schema);
        }
        let mut schema = json!({
            "type": "object",
            "description": message.comment(),
            "properties": properties,
        });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if is_sent_only {
            // The server refuses a field that it does not know.
            schema["additionalProperties"] = json!(false);
        }
        schema
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        if field.is_map() {
            let Kind::Message(entry) = field.kind() else { unreachable!("a map has entries") };
            let value = self.value(&entry.map_entry_value_field());
            return json!({"type": "object", "additionalProperties": value});
        }
        match field.is_list() {
            true => json!({"type": "array", "items": self.value(field)}),
            false => self.value(field),
        }
    }

    fn value(&mut self, field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Message(message) => self.message(&message),
            Kind::Enum(of) => self.enumeration(&of),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::Double | Kind::Float => json!({"type": "number", "format": "double"}),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                json!({"type": "integer", "format": "int32"})
            }
            Kind::Uint32 | Kind::Fixed32 => json!({"type": "integer", "format": "uint32"}),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                json!({"type": "string", "format": "int64", "pattern": "^-?[0-9]+$"})
            }
            Kind::Uint64 | Kind::Fixed64 => {
                json!({"type": "string", "format": "uint64", "pattern": "^[0-9]+$"})
            }
            Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
            Kind::String => json!({"type": "string"}),
        }
    }

    fn enumeration(&mut self, of: &EnumDescriptor) -> Value {
        let name = name_of(of.full_name());
        if !self.found.contains_key(&name) {
            let values: Vec<String> = of.values().map(|value| value.name().to_string()).collect();
            let meanings = of.values().map(|value| {
                format!("- `{}`: {}", value.name(), value.comment().replace('\n', " "))
            });
            let meanings = meanings.collect::<Vec<_>>().join("\n");
            let description = format!("{}\n\n{meanings}", of.comment());
            let schema = json!({
                "type": "string",
                "description": description,
                "enum": values,
            });
            self.found.insert(name.clone(), schema);
        }
        reference(&name)
    }
}

/// Returns a reference to a schema of the document.
pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Returns the name of a type: without the package if it is of this project.
fn name_of(full_name: &str) -> String {
    full_name.strip_prefix("bellwether.v1.").unwrap_or(full_name).to_string()
}

/// Returns the schema of a message that has a form of its own in JSON.
fn well_known(name: &str) -> Option<Value> {
    let schema = match name {
        "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
        "google.protobuf.Duration" => {
            json!({"type": "string", "pattern": "^-?[0-9]+(\\.[0-9]{1,9})?s$", "examples": ["90s"]})
        }
        "google.protobuf.FieldMask" => json!({"type": "string", "examples": ["policy,unitTtl"]}),
        "google.protobuf.Any" => json!({
            "type": "object",
            "properties": {"@type": {"type": "string"}},
            "additionalProperties": true,
        }),
        _ => return None,
    };
    Some(schema)
}
