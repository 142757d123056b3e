//! Converts Juju's status words to reports.
//!
//! A word that only says that something is alive has no meaning of its own: it never becomes a
//! contribution, so it cannot win over what the workload reports.

use crate::cli::command::import::facts::Meaning;
use crate::cli::command::import::juju::status::{Reading, Status};
use crate::cli::level;
use crate::proto::v1::{Level, StatusReport};

/// Priority of all that a unit is not itself: its agent, machine and storage. Among equal levels
/// the workload comes first.
pub const ASIDE: i32 = -1;

/// What a status of the document is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The workload of a unit, or an application.
    Workload,
    /// The agent of a unit.
    Agent,
    /// The agent of a machine.
    MachineAgent,
    /// The instance that the provider runs as a machine.
    Instance,
    /// The changes of a running machine, such as LXD profiles.
    Modification,
    /// Storage, a filesystem or a volume.
    Storage,
    /// The meter of a unit.
    Meter,
}

/// What a word says: nothing but that its object is alive, or a level with a reason.
type Says = Option<(Level, &'static str)>;

const ALIVE: Says = None;
const WAITS: Says = Some((Level::Waiting, ""));
const WORKS: Says = Some((Level::Maintenance, ""));

impl Part {
    /// Returns the field of the document.
    pub fn field(self) -> &'static str {
        match self {
            Part::Workload => "workload-status",
            Part::Agent | Part::MachineAgent => "juju-status",
            Part::Instance => "machine-status",
            Part::Modification => "modification-status",
            Part::Storage => "status",
            Part::Meter => "meter-status",
        }
    }

    /// Returns the words of the part; those of a workload are our levels.
    fn words(self) -> &'static [(&'static str, Says)] {
        match self {
            Part::Workload => &[],
            Part::Agent => &[
                ("idle", ALIVE),
                ("executing", ALIVE),
                ("allocating", WAITS),
                ("rebooting", WORKS),
                // Whether the agent still works is unknown. Something else must restore the
                // contact: waiting.
                ("lost", Some((Level::Waiting, "AgentLost"))),
                ("failed", Some((Level::Error, "AgentFailed"))),
                ("error", Some((Level::Error, "AgentError"))),
            ],
            Part::MachineAgent => &[
                ("started", ALIVE),
                ("pending", WAITS),
                ("stopped", WORKS),
                ("down", Some((Level::Waiting, "MachineDown"))),
                ("error", Some((Level::Error, "MachineError"))),
            ],
            Part::Instance => &[
                ("running", ALIVE),
                // The provider cannot see the instance, such as one that was added by hand.
                ("unknown", ALIVE),
                ("empty", WAITS),
                ("pending", WAITS),
                ("allocating", WAITS),
                ("provisioning", WAITS),
                ("provisioning error", Some((Level::Error, "ProvisioningError"))),
                ("error", Some((Level::Error, "MachineError"))),
            ],
            Part::Modification => &[
                ("applied", ALIVE),
                ("idle", ALIVE),
                ("unknown", ALIVE),
                ("pending", WAITS),
                ("error", Some((Level::Error, "ModificationError"))),
            ],
            Part::Storage => &[
                ("attached", ALIVE),
                ("detached", ALIVE),
                ("pending", WAITS),
                ("attaching", WAITS),
                ("detaching", WORKS),
                ("destroying", WORKS),
                ("error", Some((Level::Error, "StorageError"))),
            ],
            Part::Meter => &[
                ("green", ALIVE),
                ("not set", ALIVE),
                ("not available", ALIVE),
                ("amber", Some((Level::Waiting, "MeterAmber"))),
                ("red", Some((Level::Blocked, "MeterRed"))),
            ],
        }
    }

    /// Returns the meaning of a status; `None` if it only says that its object is alive.
    pub fn meaning(self, status: &Status) -> Option<Meaning> {
        if self == Part::Workload {
            return Some(match level::parse(&status.current) {
                Some(level) => Meaning::new(level, "", &status.message),
                None => unrecognized(status),
            });
        }
        let said = self.words().iter().find(|(word, _)| *word == status.current);
        match said {
            Some((_, says)) => says.map(|(level, reason)| {
                let message =
                    if status.message.is_empty() { &status.current } else { &status.message };
                Meaning::new(level, reason, message)
            }),
            None => Some(unrecognized(status)),
        }
    }
}

/// Returns the meaning of a status that Juju could not read.
pub fn unreadable(what: &str, text: &str) -> Meaning {
    let message = format!("juju could not read this {what}: {text}");
    Meaning::new(Level::Waiting, "StatusUnreadable", &message)
}

/// Returns the meaning of a word that no table has. Whether it is good or bad is unknown, so it
/// must not be hidden by what is good.
fn unrecognized(status: &Status) -> Meaning {
    Meaning::new(Level::Waiting, "UnrecognizedStatus", &with_word(status))
}

/// Returns the word of a status, with its message.
pub fn with_word(status: &Status) -> String {
    match status.message.as_str() {
        "" => status.current.clone(),
        message => format!("{}: {message}", status.current),
    }
}

/// Returns a status as a report; `None` if it only says that its object is alive.
pub fn report(component: &str, reading: &Reading<Status>, part: Part) -> Option<StatusReport> {
    match reading {
        Ok(status) => part.meaning(status).map(|meaning| meaning.since(component, status.since)),
        Err(text) => Some(unreadable("status", text).of(component)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [Part; 7] = [
        Part::Workload,
        Part::Agent,
        Part::MachineAgent,
        Part::Instance,
        Part::Modification,
        Part::Storage,
        Part::Meter,
    ];

    fn mk_status(current: &str, message: &str) -> Status {
        Status { current: current.into(), message: message.into(), since: None }
    }

    #[test]
    fn agents_have_words_of_their_own() {
        for (word, level, reason) in [
            ("allocating", Level::Waiting, ""),
            ("rebooting", Level::Maintenance, ""),
            ("lost", Level::Waiting, "AgentLost"),
            ("failed", Level::Error, "AgentFailed"),
            ("error", Level::Error, "AgentError"),
        ] {
            let meaning = Part::Agent.meaning(&mk_status(word, "m")).expect("a meaning");
            assert_eq!((meaning.level, meaning.reason), (level, reason), "{word}");
            assert_eq!(meaning.message, "m");
        }
    }

    #[test]
    fn no_word_beside_those_of_a_workload_is_active() {
        for part in PARTS {
            for (word, _) in part.words() {
                let meaning = part.meaning(&mk_status(word, ""));
                let level = meaning.map(|meaning| meaning.level);
                assert!(
                    !matches!(level, Some(Level::Active | Level::Terminated | Level::Unknown)),
                    "{part:?} {word}"
                );
            }
        }
    }

    #[test]
    fn an_unknown_word_is_kept() {
        for part in PARTS {
            let known = part.meaning(&mk_status("levitating", "2 m")).expect("a meaning");
            assert_eq!((known.level, known.reason), (Level::Waiting, "UnrecognizedStatus"));
            assert_eq!(known.message, "levitating: 2 m");
            let bare = part.meaning(&mk_status("levitating", "")).expect("a meaning");
            assert_eq!(bare.message, "levitating");
        }
    }
}
