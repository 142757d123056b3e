//! Levels in the spellings that people and other programs use: `active`, `ACTIVE` and `Active` for
//! `LEVEL_ACTIVE`. Canonical proto JSON has the last one alone.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;

use crate::domain::level::Level;
use crate::service::code::quoted;

const LEVEL: &str = "bellwether.v1.Level";
const PREFIX: &str = "LEVEL_";

/// Writes each level of a message in its canonical spelling. Returns whether one was not.
///
/// # Errors
/// For a text that names no level: a sentence with the levels that exist.
pub fn correct(message: &MessageDescriptor, value: &mut Value) -> Result<bool, String> {
    let Value::Object(fields) = value else { return Ok(false) };
    let mut is_corrected = false;
    for (key, value) in fields {
        let field = message.get_field_by_json_name(key);
        let Some(field) = field.or_else(|| message.get_field_by_name(key)) else { continue };
        is_corrected |= correct_field(&field, value)?;
    }
    Ok(is_corrected)
}

fn correct_field(field: &FieldDescriptor, value: &mut Value) -> Result<bool, String> {
    let kind = match field.kind() {
        Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
        kind => kind,
    };
    let mut is_corrected = false;
    let mut one = |value: &mut Value| -> Result<(), String> {
        is_corrected |= match (&kind, &mut *value) {
            (Kind::Enum(of), Value::String(text)) if of.full_name() == LEVEL => respell(text)?,
            (Kind::Message(message), value) => correct(message, value)?,
            _ => false,
        };
        Ok(())
    };
    match value {
        Value::Array(items) if field.is_list() => items.iter_mut().try_for_each(&mut one)?,
        Value::Object(entries) if field.is_map() => entries.values_mut().try_for_each(&mut one)?,
        value => one(value)?,
    }
    Ok(is_corrected)
}

/// Writes a level in its canonical spelling. Returns whether it was not.
fn respell(text: &mut String) -> Result<bool, String> {
    let upper = text.to_ascii_uppercase();
    let word = upper.strip_prefix(PREFIX).unwrap_or(&upper);
    let name = format!("{PREFIX}{word}");
    if word != "UNSPECIFIED"
        && !Level::ALL.iter().any(|level| word.eq_ignore_ascii_case(level.word()))
    {
        // The worst first, as everywhere.
        let names = Level::ALL.into_iter().rev();
        let names = names.map(|level| format!("{PREFIX}{}", level.word().to_uppercase()));
        let names = names.collect::<Vec<_>>().join(", ");
        return Err(format!("{} is no level; write one of {names}", quoted(text)));
    }
    let is_other = *text != name;
    *text = name;
    Ok(is_other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::proto;
    use crate::service::web::pool;

    fn corrected(name: &str, mut value: Value) -> Result<(bool, Value), String> {
        let pool = pool(&[proto::FILE_DESCRIPTOR_SET]).unwrap();
        let message = pool.get_message_by_name(&format!("bellwether.v1.{name}")).unwrap();
        correct(&message, &mut value).map(|is_corrected| (is_corrected, value))
    }

    #[test]
    fn levels_are_respelt_wherever_they_are() {
        for text in ["active", "ACTIVE", "Active", "level_active", "LEVEL_ACTIVE"] {
            let report = json!({"status": {"level": text, "message": "active"}});
            let (is_corrected, value) = corrected("ReportStatusRequest", report).unwrap();
            assert_eq!(is_corrected, text != "LEVEL_ACTIVE", "{text}");
            assert_eq!(value, json!({"status": {"level": "LEVEL_ACTIVE", "message": "active"}}));
        }
        let list = json!({"levels": ["blocked", "LEVEL_ERROR", 3]});
        let (is_corrected, value) = corrected("ListApplicationsRequest", list).unwrap();
        assert!(is_corrected);
        assert_eq!(value, json!({"levels": ["LEVEL_BLOCKED", "LEVEL_ERROR", 3]}));
        let set = json!({"statuses": [{"level": "Waiting"}, {"labels": {"level": "fine"}}]});
        let (_, value) = corrected("ReplaceStatusesRequest", set).unwrap();
        assert_eq!(value["statuses"][0]["level"], "LEVEL_WAITING");
        assert_eq!(value["statuses"][1]["labels"]["level"], "fine");
    }

    #[test]
    fn a_text_that_is_no_level_is_answered_with_the_levels() {
        let said = corrected("ReportStatusRequest", json!({"status": {"level": "fine"}}));
        let said = said.unwrap_err();
        assert!(said.contains("fine") && said.contains("LEVEL_ERROR, LEVEL_BLOCKED"), "{said}");
    }
}
