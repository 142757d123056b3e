//! An object of Kubernetes, read by path: kinds of others have any form, and no field is certain.

use anyhow::bail;
use jiff::Timestamp;
use serde_json::Value;

/// An object.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(Value);

/// A condition of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition<'o> {
    /// Its type: `Ready`.
    pub kind: &'o str,
    /// `True`, `False` or `Unknown`; other words occur.
    pub status: &'o str,
    /// Machine-readable cause.
    pub reason: &'o str,
    /// The text for a person.
    pub message: &'o str,
    /// When the status became what it is.
    pub since: Option<Timestamp>,
    /// The generation of the object that it is about.
    pub observed: Option<i64>,
}

impl Condition<'_> {
    /// Returns whether the condition holds.
    pub fn holds(&self) -> bool {
        self.status.eq_ignore_ascii_case("true")
    }

    /// Returns whether the condition does not hold. One that is unknown does neither.
    pub fn fails(&self) -> bool {
        self.status.eq_ignore_ascii_case("false")
    }

    /// Returns the field that decided: `condition Ready=False reason Failed`.
    pub fn field(&self) -> String {
        let Condition { kind, status, reason, .. } = self;
        match *reason {
            "" => format!("condition {kind}={status}"),
            reason => format!("condition {kind}={status} reason {reason}"),
        }
    }

    /// Returns the message, else the reason, else the condition.
    pub fn text(&self) -> String {
        match (self.message, self.reason) {
            ("", "") => format!("{} is {}", self.kind, self.status),
            ("", reason) => reason.to_string(),
            (message, _) => message.to_string(),
        }
    }
}

impl Object {
    /// Takes a value as an object.
    ///
    /// # Errors
    /// What every object has and this one lacks.
    pub fn new(value: Value) -> anyhow::Result<Object> {
        let object = Object(value);
        if !object.0.is_object() {
            bail!("this is no object; import what `kubectl get -o json` prints");
        }
        if object.kind().is_empty() {
            bail!("this object has no `kind`");
        }
        if object.name().is_empty() {
            bail!("this {} has no `metadata.name`", object.kind());
        }
        Ok(object)
    }

    /// Returns the whole value.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Returns the value at a path; null if there is none.
    pub fn at(&self, path: &[&str]) -> &Value {
        at(&self.0, path)
    }

    /// Returns the text at a path; empty if there is none.
    pub fn text(&self, path: &[&str]) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }

    /// Returns the number at a path. Some controllers write it as text.
    pub fn number(&self, path: &[&str]) -> Option<i64> {
        number(self.at(path))
    }

    /// Returns the entries of the list at a path.
    pub fn list(&self, path: &[&str]) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the time at a path.
    pub fn time(&self, path: &[&str]) -> Option<Timestamp> {
        self.text(path).parse().ok()
    }

    /// Returns whether the value at a path is true.
    pub fn is(&self, path: &[&str]) -> bool {
        self.at(path).as_bool() == Some(true)
    }

    /// Returns the kind: `Deployment`.
    pub fn kind(&self) -> &str {
        self.text(&["kind"])
    }

    /// Returns the group: `apps`; empty for the core group.
    pub fn group(&self) -> &str {
        self.text(&["apiVersion"]).rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }

    /// Returns the namespace; empty for an object of the cluster.
    pub fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }

    /// Returns the value of a label; empty if there is none.
    pub fn label(&self, name: &str) -> &str {
        self.text(&["metadata", "labels", name])
    }

    /// Returns kind and name of the owner: its controller, else the first one.
    pub fn owner(&self) -> Option<(&str, &str)> {
        let owners = self.list(&["metadata", "ownerReferences"]);
        let controls = |owner: &&Value| at(owner, &["controller"]).as_bool() == Some(true);
        let owner = owners.iter().find(controls).or(owners.first())?;
        let text = |field: &str| owner.get(field).and_then(Value::as_str);
        Some((text("kind")?, text("name")?))
    }

    /// Returns the time since which the object is there.
    pub fn created(&self) -> Option<Timestamp> {
        self.time(&["metadata", "creationTimestamp"])
    }

    /// Returns the conditions in `status`.
    pub fn conditions(&self) -> Vec<Condition<'_>> {
        conditions(self.at(&["status", "conditions"]))
    }

    /// Returns a condition by its type.
    pub fn condition(&self, kind: &str) -> Option<Condition<'_>> {
        self.conditions().into_iter().find(|condition| condition.kind == kind)
    }

    /// Returns a command of kubectl on this object: `kubectl -n shop describe pod web-0`.
    pub fn kubectl(&self, verb: &str) -> String {
        let kind = self.kind().to_lowercase();
        match self.namespace() {
            "" => format!("kubectl {verb} {kind} {}", self.name()),
            namespace => format!("kubectl -n {namespace} {verb} {kind} {}", self.name()),
        }
    }
}

/// Returns the value at a path; null if there is none.
pub fn at<'o>(value: &'o Value, path: &[&str]) -> &'o Value {
    path.iter().try_fold(value, |value, name| value.get(name)).unwrap_or(&Value::Null)
}

/// Returns a number, also of a text.
pub fn number(value: &Value) -> Option<i64> {
    let of_text = || value.as_str().and_then(|text| text.parse().ok());
    // A number beyond 2^53 occurs as a fraction.
    value.as_i64().or_else(of_text)
}

/// Returns the conditions of a list. An entry without a type is none; a boolean status counts as
/// its word.
pub fn conditions(list: &Value) -> Vec<Condition<'_>> {
    fn text<'o>(value: &'o Value, field: &str) -> &'o str {
        value.get(field).and_then(Value::as_str).unwrap_or_default()
    }
    let entries = list.as_array().map_or(&[][..], Vec::as_slice);
    let entries = entries.iter().filter(|entry| !text(entry, "type").is_empty());
    entries
        .map(|entry| Condition {
            kind: text(entry, "type"),
            status: match at(entry, &["status"]) {
                Value::Bool(true) => "True",
                Value::Bool(false) => "False",
                _ => text(entry, "status"),
            },
            reason: text(entry, "reason"),
            message: text(entry, "message"),
            since: text(entry, "lastTransitionTime").parse().ok(),
            observed: number(at(entry, &["observedGeneration"])),
        })
        .collect()
}
