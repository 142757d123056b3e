//! A list of objects as `kubectl get -o json` prints it, read one object at a time: a document has
//! up to 256 MiB, and its objects take several times as much as values.

use std::fmt;

use anyhow::{Context, bail};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::cli::command::import::json::{Unique, check_new};

/// Limit of the objects of a document.
const OBJECTS_MAX: usize = 500_000;

/// Passes each object of a document to `take`: the items of a list, or the one object that it is.
///
/// # Errors
/// The mistake with its line and column, and the error of `take` with those of its object.
pub fn each_object(
    text: &str,
    take: &mut dyn FnMut(Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if text.trim_start().is_empty() {
        bail!("the document is empty; print it with `kubectl get ... -o json`");
    }
    if !text.trim_start().starts_with('{') {
        bail!("the document is no JSON object; print it with `kubectl get ... -o json`");
    }
    let mut source = serde_json::Deserializer::from_str(text);
    let read = source.deserialize_map(ListVisitor { take: &mut *take });
    let rest = read.and_then(|rest| source.end().map(|()| rest));
    let rest = rest.context("the document is no list of Kubernetes objects")?;
    match rest {
        None => Ok(()),
        Some(object) if object.contains_key("kind") => take(Value::Object(object)),
        Some(_) => bail!(
            "the document has neither `items` nor a `kind`; print it with `kubectl get ... -o json`"
        ),
    }
}

/// Reads the outer object: `None` if it is a list, whose items were taken.
struct ListVisitor<'t> {
    take: &'t mut dyn FnMut(Value) -> anyhow::Result<()>,
}

impl<'de> Visitor<'de> for ListVisitor<'_> {
    type Value = Option<Map<String, Value>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let take = self.take;
        let (mut rest, mut is_list) = (Map::new(), false);
        while let Some(key) = entries.next_key::<String>()? {
            check_new(&rest, &key)?;
            if key == "items" {
                entries.next_value_seed(Items { take: &mut *take })?;
                is_list = true;
                rest.insert(key, Value::Null);
            } else {
                let value = entries.next_value_seed(Unique::default())?;
                rest.insert(key, value);
            }
        }
        Ok((!is_list).then_some(rest))
    }
}

/// Reads the items of a list.
struct Items<'t> {
    take: &'t mut dyn FnMut(Value) -> anyhow::Result<()>,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of objects as `items`")
    }

    /// An empty list of a program in Go is `null`.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut count = 0;
        while let Some(item) = items.next_element_seed(Unique::default())? {
            count += 1;
            if OBJECTS_MAX < count {
                let text = format!("more than {OBJECTS_MAX} objects; import some namespaces each");
                return Err(A::Error::custom(text));
            }
            (self.take)(item)
                .map_err(|error| A::Error::custom(format!("item {count}: {error:#}")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Result<usize, String> {
        let mut count = 0;
        let mut take = |object: Value| match object.get("kind") {
            Some(_) => {
                count += 1;
                Ok(())
            }
            None => bail!("no `kind`"),
        };
        each_object(text, &mut take).map_err(|error| format!("{error:#}"))?;
        Ok(count)
    }

    #[test]
    fn a_list_or_an_object_is_a_document() {
        assert_eq!(
            count(r#"{"kind": "List", "items": [{"kind": "Pod"}, {"kind": "Job"}]}"#),
            Ok(2)
        );
        assert_eq!(count(r#"{"items": null}"#), Ok(0));
        assert_eq!(count(r#"{"items": []}"#), Ok(0));
        assert_eq!(count(r#"{"kind": "Pod", "metadata": {}}"#), Ok(1));
    }

    #[test]
    fn a_mistake_names_its_place() {
        for (text, expected) in [
            ("", "the document is empty"),
            ("kind: List", "the document is no JSON object; print it with `kubectl get"),
            ("[]", "the document is no JSON object"),
            ("{}", "has neither `items` nor a `kind`"),
            (r#"{"items": [{"kind": "Pod"}, 7]}"#, "item 2: no `kind` at line 1 column"),
            (r#"{"items": [{"kind": "Pod", "kind": "Job"}]}"#, "`kind` is there twice at line 1"),
            (r#"{"items": [], "items": []}"#, "the key `items` is there twice"),
            (r#"{"items": 3}"#, "invalid type: integer `3`, expected a list of objects as `items`"),
            (r#"{"items": [{"kind": "#, "EOF while parsing"),
            (r#"{"items": []} {"items": []}"#, "trailing characters at line 1 column 15"),
        ] {
            let error = count(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
