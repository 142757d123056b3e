//! Rules of one's own, as data: what they look at, and what they say.

use super::{Class, ErrorOrigin, ErrorOutcome, Evidence, Match};

/// A (domain, reason) that is registered: from the owner of a target it says that the target is
/// gone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GonePair {
    /// As in google.rpc.ErrorInfo.
    pub domain: Box<str>,
    /// As in google.rpc.ErrorInfo.
    pub reason: Box<str>,
}

/// A rule of one's own: matches if everything that it names does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRule {
    /// What verdicts quote.
    pub name: Box<str>,
    /// The system.
    pub system: Option<Box<str>>,
    /// The code, as a whole.
    pub code: Option<Box<str>>,
    /// Who answered.
    pub origin: Option<ErrorOrigin>,
    /// Whether what was asked for happened.
    pub outcome: Option<ErrorOutcome>,
    /// The domain.
    pub domain: Option<Box<str>>,
    /// The reason.
    pub reason: Option<Box<str>>,
    /// A part of the message, in either case.
    pub message: Option<Box<str>>,
    /// What it means.
    pub class: Class,
    /// Why, in words.
    pub explanation: Box<str>,
    /// What a person must do, if it is `BLOCKED`.
    pub remedy: Box<str>,
}

impl OwnRule {
    pub(super) fn matches(&self, evidence: &Evidence) -> bool {
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

    pub(super) fn found(&self) -> Match<'_> {
        Match { class: self.class, rule: &self.name, why: &self.explanation, remedy: &self.remedy }
    }
}

fn says(message: &str, part: &str) -> bool {
    message.to_lowercase().contains(&part.to_lowercase())
}
