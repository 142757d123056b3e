//! Custom rules as data: their conditions and their results.

use crate::domain::classify::finding::{Class, ErrorOrigin, ErrorOutcome, Evidence, Match};

/// A registered pair of domain and reason: from the owner of a target it proves that the target is
/// gone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GonePair {
    /// The domain, as in google.rpc.ErrorInfo.
    pub domain: Box<str>,
    /// The reason, as in google.rpc.ErrorInfo.
    pub reason: Box<str>,
}

/// A custom rule: it matches if all its conditions hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRule {
    /// The name that findings quote.
    pub name: Box<str>,
    /// The system.
    pub system: Option<Box<str>>,
    /// The whole code.
    pub code: Option<Box<str>>,
    /// The origin of the error.
    pub origin: Option<ErrorOrigin>,
    /// Whether the requested action happened.
    pub outcome: Option<ErrorOutcome>,
    /// The domain.
    pub domain: Option<Box<str>>,
    /// The reason.
    pub reason: Option<Box<str>>,
    /// A part of the message; the comparison ignores case.
    pub message: Option<Box<str>>,
    /// The resulting class.
    pub class: Class,
    /// The cause, in words.
    pub explanation: Box<str>,
    /// The action that a person must take, if the class is `BLOCKED`.
    pub remedy: Box<str>,
}

impl OwnRule {
    pub(in crate::domain) fn matches(&self, evidence: &Evidence) -> bool {
        let is = |wanted: &Option<Box<str>>, given: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == given)
        };
        is(&self.system, &evidence.system)
            && is(&self.code, &evidence.code)
            && self.origin.is_none_or(|origin| origin == evidence.origin)
            && self.outcome.is_none_or(|outcome| Some(outcome) == evidence.outcome)
            && is(&self.domain, &evidence.domain)
            && is(&self.reason, &evidence.reason)
            && self.message.as_deref().is_none_or(|part| says(&evidence.message, part))
    }

    pub(in crate::domain) fn found(&self) -> Match<'_> {
        Match { class: self.class, rule: &self.name, why: &self.explanation, remedy: &self.remedy }
    }
}

fn says(message: &str, part: &str) -> bool {
    message.to_lowercase().contains(&part.to_lowercase())
}
