//! Parses the answers of Redis. Both versions of its protocol give the same results.

use std::str::FromStr;

use redis::{ServerError, Value};

use crate::store::redis::link::LinkError;

/// Returns the bytes of a text.
pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// Parses a text.
pub(crate) fn parse<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Returns a text.
pub(crate) fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(bytes(value)?).ok()
}

/// Returns the text of an answer to `INFO`; empty if the answer is an error.
pub(crate) fn info(value: &Value) -> &str {
    match value {
        Value::VerbatimString { text, .. } => text,
        value => self::text(value).unwrap_or_default(),
    }
}

/// Returns a number, which may be encoded as a text.
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        value => parse(bytes(value)?),
    }
}

/// Returns the items of an array.
pub(crate) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => &[],
    }
}

/// Returns the pairs of a hash, which is an array in the older protocol.
pub(crate) fn pairs(value: &Value) -> Vec<(&Value, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
        value => {
            let (pairs, _) = items(value).as_chunks::<2>();
            pairs.iter().map(|[key, value]| (key, value)).collect()
        }
    }
}

/// Returns the streams of an `XREAD`, each with its entries.
pub(crate) fn streams(value: &Value) -> Vec<(&Value, &[Value])> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(key, entries)| (key, items(entries))).collect(),
        value => {
            let streams = items(value).iter().map(items);
            let streams = streams.filter_map(|stream| stream.split_first_chunk::<2>());
            streams.map(|([key, entries], _)| (key, items(entries))).collect()
        }
    }
}

/// Returns the first error among answers.
pub(crate) fn error(values: &[Value]) -> Option<&ServerError> {
    values.iter().find_map(|value| match value {
        Value::ServerError(error) => Some(error),
        Value::Array(inner) => error(inner),
        _ => None,
    })
}

/// Fails with the first error among answers.
pub(crate) fn check(values: &[Value]) -> Result<(), LinkError> {
    match error(values) {
        Some(error) => Err(LinkError::Away { reason: error.to_string() }),
        None => Ok(()),
    }
}

/// Returns the results of a transaction: the answer to its `EXEC`, which is the last one.
pub(crate) fn transaction<const N: usize>(values: &[Value]) -> Result<&[Value; N], LinkError> {
    check(values)?;
    let results = values.last().and_then(|last| items(last).try_into().ok());
    results.ok_or_else(|| LinkError::Away {
        reason: format!("unexpected answer to EXEC: {:?}", values.last()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn both_protocols_are_read() {
        let (key, value) = (mk_text("key"), mk_text("7"));
        let flat = Value::Array(vec![key.clone(), value.clone()]);
        let map = Value::Map(vec![(key.clone(), value.clone())]);
        assert_eq!(pairs(&flat), [(&key, &value)]);
        assert_eq!(pairs(&map), [(&key, &value)]);
        assert_eq!(number(&value), Some(7));
        assert_eq!(number(&Value::Int(7)), Some(7));
        assert_eq!(number(&Value::Int(-1)), None);
        let entries = Value::Array(vec![Value::Nil]);
        let old = Value::Array(vec![Value::Array(vec![key.clone(), entries.clone()])]);
        let new = Value::Map(vec![(key.clone(), entries.clone())]);
        assert_eq!(streams(&old), streams(&new));
        assert_eq!(streams(&Value::Nil), []);
    }
}
