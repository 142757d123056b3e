//! The evidence of an error, and what the classification finds.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::level::Level;
use crate::domain::word::worded;

worded! {
    /// The meaning of an error for its reporter, in wire order.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
    )]
    pub enum Class {
        /// No table has the code, or the code does not show the cause: retried, and never final for
        /// a fault.
        #[default]
        Unclassified = "UNCLASSIFIED",
        /// The path or the moment was bad; the target may be well.
        Transient = "TRANSIENT",
        /// The peer asked for a lower rate.
        Throttled = "THROTTLED",
        /// Another writer was faster.
        Conflict = "CONFLICT",
        /// The worker's own shutdown interrupted the call.
        Interrupted = "INTERRUPTED",
        /// A dependency is not available yet.
        Dependency = "DEPENDENCY",
        /// A person must act.
        Blocked = "BLOCKED",
        /// The owner of the target reports that it is gone.
        Gone = "GONE",
        /// No retry can succeed.
        Fatal = "FATAL",
    }
}

impl Class {
    /// Returns whether such an error uses up an attempt. A peer that is busy, faster or not
    /// available yet is no failure of the work.
    pub fn counts_as_attempt(self) -> bool {
        matches!(self, Class::Transient | Class::Unclassified)
    }

    /// Returns whether such an error holds the component until an operator releases it, unless its
    /// rule says otherwise.
    pub fn holds(self) -> bool {
        matches!(self, Class::Blocked | Class::Gone | Class::Fatal)
    }

    /// Returns the level that one such error gives its component immediately, before any threshold.
    pub fn level_at_once(self) -> Option<Level> {
        match self {
            Class::Interrupted => Some(Level::Maintenance),
            Class::Dependency => Some(Level::Waiting),
            Class::Blocked => Some(Level::Blocked),
            Class::Gone | Class::Fatal => Some(Level::Error),
            Class::Unclassified | Class::Transient | Class::Throttled | Class::Conflict => None,
        }
    }

    /// Returns whether the class is credible without an answer from the target.
    pub(in crate::domain) fn needs_no_answer(self) -> bool {
        use Class::{Conflict, Interrupted, Throttled, Transient};
        matches!(self, Transient | Throttled | Conflict | Interrupted)
    }
}

/// The origin of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorOrigin {
    /// The owner of the target answered.
    Peer,
    /// No answer: the error arose on the path.
    Transport,
    /// The caller failed to send the request, or to read the answer.
    Local,
}

/// Whether the requested action happened. Stored and shown; only a custom rule may depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorOutcome {
    /// The action did not happen.
    NotApplied,
    /// The action may have happened.
    Unknown,
    /// The target refused the action.
    Rejected,
}

worded! {
    /// The action to take after an error.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub enum Action {
        /// Retry with backoff.
        #[default]
        Retry = "RETRY",
        /// Retry no earlier than requested.
        RetryAfter = "RETRY_AFTER",
        /// Read again, then decide again.
        Reread = "REREAD",
        /// Continue at the point of interruption.
        Resume = "RESUME",
        /// Wait for the dependency.
        Defer = "DEFER",
        /// Stop until a person has acted.
        Block = "BLOCK",
        /// Create the target again.
        Recover = "RECOVER",
        /// Stop.
        Halt = "HALT",
    }
}

/// The facts about an error that decide its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The system, which selects the table: `grpc`, `http`, `python`, `helm`, `redis` or `io`.
    pub system: Box<str>,
    /// The error code of that system.
    pub code: Box<str>,
    /// The origin of the error.
    pub origin: ErrorOrigin,
    /// Whether the requested action happened, if that is known.
    pub outcome: Option<ErrorOutcome>,
    /// The domain, as in google.rpc.ErrorInfo; empty if not given.
    pub domain: Box<str>,
    /// The reason, as in google.rpc.ErrorInfo; empty if not given.
    pub reason: Box<str>,
    /// One line without confidential content.
    pub message: Box<str>,
    /// The delay that the peer requested.
    pub retry_after: Option<Duration>,
    /// Facts that the code alone does not show.
    pub hints: Hints,
}

/// Facts that only the reporter of the error knows. `None`: not given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// The refused value came from a person's input.
    pub user_input: Option<bool>,
    /// The worker built the request itself.
    pub own_request: Option<bool>,
    /// A quota that a person must raise was used up.
    pub quota: Option<bool>,
    /// The missing dependency will appear without a person.
    pub machine_resolvable: Option<bool>,
    /// The deadline of the work as a whole has passed.
    pub deadline_passed: Option<bool>,
    /// The worker cancelled the call because it is shutting down.
    pub own_shutdown: Option<bool>,
}

/// The result of a classification; the default stands for evidence that is not classified yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Finding {
    /// The class.
    pub class: Class,
    /// The action to take.
    pub action: Action,
    /// Name of the rule that decided: `http.404`, or a custom rule.
    pub rule: Box<str>,
    /// The cause, in words.
    pub explanation: Box<str>,
    /// The action that a person must take, for `BLOCKED`; else empty.
    pub remedy: Box<str>,
    /// Whether the component is not held although the class holds: the error may end by itself. Not
    /// written if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unheld: bool,
}

impl Finding {
    /// Returns whether the error holds its component until a person acts.
    pub fn holds(&self) -> bool {
        self.class.holds() && !self.unheld
    }
}

/// Name of the rule for errors in no table.
pub const DEFAULT: &str = "default";

/// The result of a rule.
#[derive(Debug, Clone)]
pub struct Match<'r> {
    /// The class.
    pub class: Class,
    /// The name of the rule.
    pub rule: &'r str,
    /// The cause, in words.
    pub why: Cow<'r, str>,
    /// The action for a person; empty if no person must act.
    pub remedy: &'r str,
    /// Whether the component is not held although the class holds.
    pub unheld: bool,
    /// The program, its version and the file, or the standard, that defines the error; empty for a
    /// custom rule without one, and for a rule of this server.
    pub source: &'r str,
}

impl<'r> Match<'r> {
    /// Returns a match of this server's own rules, for which no person must act.
    pub(in crate::domain) fn own(class: Class, rule: &'r str, why: Cow<'r, str>) -> Match<'r> {
        Match { class, rule, why, remedy: "", unheld: false, source: "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of before has no flag; it holds as its class does.
    #[test]
    fn the_flag_of_a_finding_is_stored_only_if_it_is_set() {
        for (unheld, fields) in [(false, 5), (true, 6)] {
            let class = Class::Blocked;
            let finding = Finding { class, unheld, ..Finding::default() };
            let bytes = rmp_serde::to_vec(&finding).unwrap();
            // The head of an array of so many fields.
            assert_eq!(bytes[0], 0x90 + fields);
            let read: Finding = rmp_serde::from_slice(&bytes).unwrap();
            assert_eq!((&read, read.holds()), (&finding, !unheld));
        }
    }
}
