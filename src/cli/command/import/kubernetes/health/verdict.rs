//! What the state of an object means.

use jiff::Timestamp;

use crate::cli::command::import::kubernetes::object::Condition;
use crate::proto::v1::need::Object as NeededObject;
use crate::proto::v1::{Level, Need};

/// What the state of an object means, and the field that decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The level.
    pub level: Level,
    /// Machine-readable cause, in CamelCase.
    pub reason: String,
    /// The text for a person.
    pub message: String,
    /// What a person does about it.
    pub action: String,
    /// The field that decided: `status.phase=Pending`.
    pub field: String,
    /// The start of the state, if the object has it.
    pub since: Option<Timestamp>,
    /// What has to be so before the state can get better.
    pub needs: Vec<Need>,
}

impl Verdict {
    /// Returns a verdict with a text.
    pub fn new(level: Level, reason: &str, message: &str) -> Verdict {
        Verdict {
            level,
            reason: camel(reason),
            message: message.trim().to_string(),
            action: String::new(),
            field: String::new(),
            since: None,
            needs: Vec::new(),
        }
    }

    /// Returns the verdict of a condition.
    pub fn of(level: Level, condition: &Condition<'_>) -> Verdict {
        Verdict::new(level, condition.reason, &condition.text()).decided_by(condition)
    }

    /// Adds the condition that decided, and its time.
    #[must_use]
    pub fn decided_by(self, condition: &Condition<'_>) -> Verdict {
        Verdict { field: condition.field(), since: condition.since, ..self }
    }

    /// Adds the field that decided.
    #[must_use]
    pub fn field(self, field: impl Into<String>) -> Verdict {
        Verdict { field: field.into(), ..self }
    }

    /// Adds the start of the state.
    #[must_use]
    pub fn since(self, since: Option<Timestamp>) -> Verdict {
        Verdict { since, ..self }
    }

    /// Adds what a person does about it.
    #[must_use]
    pub fn action(self, action: impl Into<String>) -> Verdict {
        Verdict { action: action.into(), ..self }
    }

    /// Adds something outside of Bellwether that is needed.
    #[must_use]
    pub fn needs(mut self, outside: String) -> Verdict {
        self.needs.push(Need { object: Some(NeededObject::Outside(outside)) });
        self
    }

    /// Returns whether the object is well: active, or ended as planned.
    pub fn is_well(&self) -> bool {
        matches!(self.level, Level::Active | Level::Terminated)
    }
}

/// Returns a reason as one word in CamelCase: `Failed`, of `failed`; `NoSpaceLeft`, of
/// `no-space left`.
fn camel(reason: &str) -> String {
    let words = reason.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    let text: String = words.map(capital).collect();
    text.trim_start_matches(|c: char| c.is_ascii_digit()).chars().take(REASON_MAX).collect()
}

/// Longest reason in characters.
const REASON_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_word() {
        for (reason, expected) in [
            ("ImagePullBackOff", "ImagePullBackOff"),
            ("failed", "Failed"),
            ("no-space left", "NoSpaceLeft"),
            ("kustomize.Build/Failed", "KustomizeBuildFailed"),
            ("", ""),
            ("é", ""),
        ] {
            assert_eq!(camel(reason), expected);
        }
    }
}
