//! Converts Juju's status words to reports.

use crate::cli::juju::document::{Reading, Status};
use crate::cli::level;
use crate::cli::render::time;
use crate::domain::limits::MESSAGE_BYTES_MAX;
use crate::domain::message::cut_bytes;
use crate::proto::v1::{Level, StatusKind, StatusReport};

/// The label by which a later import recognises statuses of an earlier one.
pub const LABEL: (&str, &str) = ("imported-from", "juju");

/// Priority of the statuses of agents and offers, below all others of the same level: an idle agent
/// must not hide what the workload reports.
pub const ASIDE: i32 = -1;

/// Level, reason and message of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// The level.
    pub level: Level,
    /// Machine-readable cause.
    pub reason: &'static str,
    /// The text for a person.
    pub message: String,
}

impl Meaning {
    /// Returns the meaning of the status of a workload or an application: Juju's words are our
    /// levels.
    pub fn of_workload(status: &Status) -> Meaning {
        match level::parse(&status.current) {
            Some(level) => Meaning::new(level, "", &status.message),
            None => Meaning::unrecognized(status),
        }
    }

    /// Returns the meaning of the status of a unit's agent.
    pub fn of_agent(status: &Status) -> Meaning {
        let (level, reason) = match status.current.as_str() {
            "idle" | "executing" => (Level::Active, ""),
            "allocating" => (Level::Waiting, ""),
            "rebooting" => (Level::Maintenance, ""),
            // Whether the agent still works is unknown. Something else must restore the contact:
            // waiting.
            "lost" => (Level::Waiting, "AgentLost"),
            "failed" => (Level::Error, "AgentFailed"),
            "error" => (Level::Error, "AgentError"),
            _ => return Meaning::unrecognized(status),
        };
        Meaning::new(level, reason, &status.message)
    }

    /// Returns the meaning of a status that Juju could not read.
    pub fn unreadable(what: &str, text: &str) -> Meaning {
        let message = format!("juju could not read this {what}: {text}");
        Meaning::new(Level::Waiting, "StatusUnreadable", &message)
    }

    fn unrecognized(status: &Status) -> Meaning {
        let message = match status.message.as_str() {
            "" => status.current.clone(),
            message => format!("{}: {message}", status.current),
        };
        Meaning::new(Level::Unknown, "UnrecognizedStatus", &message)
    }

    fn new(level: Level, reason: &'static str, message: &str) -> Meaning {
        Meaning { level, reason, message: cut_bytes(message, MESSAGE_BYTES_MAX).into() }
    }
}

/// Returns the status of a component as a report, labelled as imported.
pub fn report(
    component: &str,
    reading: &Reading<Status>,
    meaning: fn(&Status) -> Meaning,
) -> StatusReport {
    match reading {
        Ok(status) => StatusReport {
            observe_time: status.since.map(time::to_wire),
            ..labelled(component, meaning(status))
        },
        Err(text) => labelled(component, Meaning::unreadable("status", text)),
    }
}

/// Returns a meaning as a report of a component.
pub fn labelled(component: &str, meaning: Meaning) -> StatusReport {
    let (key, value) = LABEL;
    StatusReport {
        component: component.to_string(),
        kind: StatusKind::Pull.into(),
        level: meaning.level.into(),
        message: meaning.message,
        reason: meaning.reason.to_string(),
        labels: [(key.to_string(), value.to_string())].into(),
        ..StatusReport::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_status(current: &str, message: &str) -> Status {
        Status { current: current.into(), message: message.into(), since: None }
    }

    #[test]
    fn agents_have_words_of_their_own() {
        for (word, level, reason) in [
            ("idle", Level::Active, ""),
            ("executing", Level::Active, ""),
            ("allocating", Level::Waiting, ""),
            ("rebooting", Level::Maintenance, ""),
            ("lost", Level::Waiting, "AgentLost"),
            ("failed", Level::Error, "AgentFailed"),
            ("error", Level::Error, "AgentError"),
        ] {
            let meaning = Meaning::of_agent(&mk_status(word, "m"));
            assert_eq!((meaning.level, meaning.reason), (level, reason), "{word}");
            assert_eq!(meaning.message, "m");
        }
    }

    #[test]
    fn an_unknown_word_is_kept() {
        for meaning in [Meaning::of_agent, Meaning::of_workload] {
            let known = meaning(&mk_status("levitating", "2 m"));
            assert_eq!((known.level, known.reason), (Level::Unknown, "UnrecognizedStatus"));
            assert_eq!(known.message, "levitating: 2 m");
            assert_eq!(meaning(&mk_status("levitating", "")).message, "levitating");
        }
    }
}
