//! Counts the facts of a document that no status shows, by the kind of their object and their
//! field.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

/// Number of facts by name, such as `unit address`.
pub type Counts = BTreeMap<String, usize>;

/// Counts the values of a document that are not among those `seen`. Null and an empty text are no
/// facts.
pub fn count_unread(root: &Value, seen: &HashSet<*const Value>) -> Counts {
    let mut counts = Counts::new();
    walk(root, &mut Vec::new(), &mut |value, path| {
        if !seen.contains(&std::ptr::from_ref(value)) {
            *counts.entry(name(path)).or_default() += 1;
        }
    });
    counts
}

/// Formats the counts, or `None` if there are none.
pub fn sentence(counts: &Counts) -> Option<String> {
    let sum: usize = counts.values().sum();
    let each: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    (0 < sum).then(|| format!("facts that no status shows: {sum} ({})", each.join(", ")))
}

/// Calls `visit` with each fact and its path.
fn walk<'a>(value: &'a Value, path: &mut Vec<&'a str>, visit: &mut impl FnMut(&Value, &[&str])) {
    match value {
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        Value::Array(items) => items.iter().for_each(|item| walk(item, path, visit)),
        Value::Object(fields) => {
            for (name, inner) in fields {
                path.push(name);
                walk(inner, path, visit);
                path.pop();
            }
        }
        _ => visit(value, path),
    }
}

/// Returns the name of a fact: the kind of its object, and the field of the object.
pub fn name(path: &[&str]) -> String {
    let (kind, fields) = match path {
        ["applications", _, "units", _, fields @ ..] => ("unit", inner(fields, "subordinates")),
        ["applications", _, fields @ ..] => ("application", fields),
        ["application-endpoints", _, fields @ ..] => ("remote application", fields),
        ["machines", _, fields @ ..] => ("machine", inner(fields, "containers")),
        ["offers", _, fields @ ..] => ("offer", fields),
        ["storage", _, _, fields @ ..] => ("storage", fields),
        ["model", fields @ ..] => ("model", fields),
        _ => ("", path),
    };
    let field = fields.first().copied().unwrap_or_default();
    [kind, field].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the path within the innermost object of those that contain others under `key`.
fn inner<'p, 'a>(mut fields: &'p [&'a str], key: &str) -> &'p [&'a str] {
    while let [first, _, rest @ ..] = fields
        && *first == key
    {
        fields = rest;
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_has_the_name_of_its_object_and_field() {
        for (path, expected) in [
            (&["applications", "web", "charm"][..], "application charm"),
            (&["applications", "web", "units", "web/0", "address"], "unit address"),
            (
                &["applications", "web", "units", "web/0", "subordinates", "log/0", "address"],
                "unit address",
            ),
            (&["machines", "4", "containers", "4/lxd/0", "hostname"], "machine hostname"),
            (&["storage", "volumes", "0", "status", "current"], "storage status"),
            (&["model", "sla"], "model sla"),
            (&["controller", "timestamp"], "controller"),
            (&["storage"], "storage"),
        ] {
            assert_eq!(name(path), expected);
        }
    }

    #[test]
    fn every_value_that_was_not_read_counts() {
        let text = r#"{"model": {"name": "m", "sla": "", "cloud": null}, "list": ["a", 1, false]}"#;
        let root: Value = serde_json::from_str(text).expect("JSON");
        let seen = HashSet::from([std::ptr::from_ref(&root["model"]["name"])]);
        let counts = count_unread(&root, &seen);
        assert_eq!(counts, Counts::from([("list".to_string(), 3)]));
        assert_eq!(sentence(&counts).as_deref(), Some("facts that no status shows: 3 (list 3)"));
        assert_eq!(sentence(&Counts::new()), None);
    }
}
