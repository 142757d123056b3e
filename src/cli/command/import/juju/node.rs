//! Walks a JSON document and keeps the path of each value, so that errors can name it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::rc::Rc;

use serde_json::Value;

use crate::cli::command::import::juju::account::{Counts, count_unread};

/// Why a document is not the output of `juju status --format json`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The document does not parse.
    #[error("the document is not JSON ({0}); give the output of `juju status --format json`")]
    NotJson(String),
    /// A field has a type that Juju does not write.
    #[error("{place}: expected {expected}, found {found}")]
    WrongType {
        /// The field.
        place: NodePlace,
        /// The type that Juju writes.
        expected: &'static str,
        /// The type found.
        found: String,
    },
    /// A field that Juju always writes is missing.
    #[error("{0} is missing; is this the output of `juju status --format json`?")]
    Missing(NodePlace),
    /// A time is in none of Juju's formats.
    #[error("{place}: `{text}` is no time; expected `24 Feb 2025 12:02:57+13:00` or RFC 3339")]
    BadTime {
        /// The field.
        place: NodePlace,
        /// The text found.
        text: String,
    },
    /// A name that no application or unit can have.
    #[error("{place}: `{name}` is not {expected}")]
    BadName {
        /// The field.
        place: NodePlace,
        /// The name.
        name: String,
        /// The expected form.
        expected: &'static str,
    },
}

/// The path of a value in the document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePlace(Vec<String>);

impl fmt::Display for NodePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.0.first().map_or("", String::as_str) {
            "applications" => Some("application"),
            "application-endpoints" => Some("remote application"),
            "offers" => Some("offer"),
            "machines" => Some("machine"),
            _ => None,
        };
        match (what, self.0.as_slice()) {
            (_, []) => write!(f, "the document"),
            (Some(what), [_, name]) => write!(f, "{what} {name}"),
            (Some(what), [_, name, field @ ..]) => {
                write!(f, "{what} {name}, field `{}`", field.join("."))
            }
            (_, field) => write!(f, "field `{}`", field.join(".")),
        }
    }
}

/// A value and its path.
#[derive(Debug, Clone)]
pub struct Node<'a> {
    value: &'a Value,
    place: NodePlace,
    /// The values of the document that were read.
    seen: Rc<RefCell<HashSet<*const Value>>>,
}

impl<'a> Node<'a> {
    /// Returns the whole document.
    pub fn root(value: &'a Value) -> Node<'a> {
        Node { value, place: NodePlace::default(), seen: Rc::default() }
    }

    /// Returns the path of the value.
    pub fn place(&self) -> NodePlace {
        self.place.clone()
    }

    /// Returns the field of this name; null counts as absent.
    pub fn get(&self, key: &str) -> Result<Option<Node<'a>>, DocumentError> {
        let object = self.value.as_object().ok_or_else(|| self.wrong("an object"))?;
        Ok(object.get(key).filter(|value| !value.is_null()).map(|value| self.inner(key, value)))
    }

    /// Returns the field of this name, which Juju always writes.
    pub fn required(&self, key: &str) -> Result<Node<'a>, DocumentError> {
        self.get(key)?.ok_or_else(|| DocumentError::Missing(self.place_of(key)))
    }

    /// Returns the entries of the field of this name; none if it is absent.
    pub fn entries(&self, key: &str) -> Result<Vec<(&'a str, Node<'a>)>, DocumentError> {
        let Some(map) = self.get(key)? else { return Ok(Vec::new()) };
        let object = map.value.as_object().ok_or_else(|| map.wrong("an object"))?;
        Ok(object.iter().map(|(name, value)| (name.as_str(), map.inner(name, value))).collect())
    }

    /// Returns the text of the field of this name; empty if it is absent.
    pub fn text(&self, key: &str) -> Result<&'a str, DocumentError> {
        self.read(key, "a string", Value::as_str)
    }

    /// Returns the boolean of the field of this name; false if it is absent.
    pub fn flag(&self, key: &str) -> Result<bool, DocumentError> {
        self.read(key, "true or false", Value::as_bool)
    }

    /// Returns the count of the field of this name; 0 if it is absent.
    pub fn count(&self, key: &str) -> Result<u64, DocumentError> {
        self.read(key, "a count", Value::as_u64)
    }

    fn read<T: Default>(
        &self,
        key: &str,
        expected: &'static str,
        read: fn(&'a Value) -> Option<T>,
    ) -> Result<T, DocumentError> {
        let Some(node) = self.get(key)? else { return Ok(T::default()) };
        self.seen.borrow_mut().insert(node.value);
        read(node.value).ok_or_else(|| node.wrong(expected))
    }

    /// Returns the text of the field of this name, unless it is this usual one, which then counts
    /// as not read.
    pub fn unusual_text(&self, key: &str, usual: &str) -> Result<Option<&'a str>, DocumentError> {
        let text = self.text(key)?;
        if text == usual
            && let Some(node) = self.get(key)?
        {
            self.seen.borrow_mut().remove(&std::ptr::from_ref(node.value));
        }
        Ok(Some(text).filter(|text| !text.is_empty() && *text != usual))
    }

    /// Returns whether the field of this name has a value.
    pub fn has(&self, key: &str) -> Result<bool, DocumentError> {
        self.get(key).map(|node| node.is_some())
    }

    /// Counts the facts below this value that were not read.
    pub fn unread(&self) -> Counts {
        count_unread(self.value, &self.seen.borrow())
    }

    /// Returns the path that the field of this name has, or would have.
    pub fn place_of(&self, key: &str) -> NodePlace {
        NodePlace([&self.place.0[..], &[key.to_string()]].concat())
    }

    fn inner(&self, key: &str, value: &'a Value) -> Node<'a> {
        Node { value, place: self.place_of(key), seen: self.seen.clone() }
    }

    fn wrong(&self, expected: &'static str) -> DocumentError {
        let found = match self.value {
            Value::Null => "null".to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) => format!("the number {number}"),
            Value::String(_) => "a string".to_string(),
            Value::Array(_) => "a list".to_string(),
            Value::Object(_) => "an object".to_string(),
        };
        DocumentError::WrongType { place: self.place(), expected, found }
    }
}
