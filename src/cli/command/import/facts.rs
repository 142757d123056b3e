//! What a source says: applications with their units, each with its whole pull set. A source is a
//! reader, which finds the facts in a document, and a table, which gives them levels. The plan
//! knows no source.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::cli::command::import::work::WorkFacts;
use crate::cli::render::time;
use crate::domain::limits::MESSAGE_BYTES_MAX;
use crate::domain::message::cut_bytes;
use crate::proto::v1::{Level, StatusKind, StatusReport};

/// The facts of a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportFacts {
    /// The applications.
    pub applications: Placed,
    /// Facts that concern no unit and no application, in words.
    pub notes: Vec<String>,
    /// Number of facts that no status shows, in words.
    pub unshown: Option<String>,
    /// Whether the document may end before the facts do: then nothing is removed.
    pub may_be_cut: bool,
}

/// Applications by name.
pub type Applications = BTreeMap<String, ApplicationFacts>;

/// Applications, and their namespaces.
#[derive(Debug, Clone, PartialEq)]
pub enum Placed {
    /// All are in one namespace: the one given, else the one that the document names.
    Together(Option<String>, Applications),
    /// Each is in the namespace that the document names.
    Apart(BTreeMap<String, Applications>),
}

impl Default for Placed {
    fn default() -> Placed {
        Placed::Together(None, Applications::new())
    }
}

impl Placed {
    /// Returns the applications with their namespace. `given` is that of the command line.
    pub fn resolve(self, given: Option<&str>) -> BTreeMap<ApplicationPlace, ApplicationFacts> {
        let of_one = |namespace: String, applications: Applications| {
            applications.into_iter().map(move |(application, facts)| {
                (ApplicationPlace { namespace: namespace.clone(), application }, facts)
            })
        };
        match self {
            Placed::Together(named, applications) => {
                let namespace = given.map(str::to_string).or(named);
                of_one(namespace.unwrap_or_else(default_namespace), applications).collect()
            }
            Placed::Apart(namespaces) => {
                namespaces.into_iter().flat_map(|(name, all)| of_one(name, all)).collect()
            }
        }
    }

    /// Returns the applications with a unit whose work was cut off.
    pub fn with_work_cut_off(&self, given: Option<&str>) -> BTreeSet<ApplicationPlace> {
        let is_cut_off = |unit: &UnitFacts| matches!(unit.work, WorkFacts::CutOff(_));
        let of_one = |namespace: &str, applications: &Applications| {
            let found = applications.iter().filter(|(_, facts)| facts.units.iter().any(is_cut_off));
            let place = |application: &String| ApplicationPlace {
                namespace: namespace.to_string(),
                application: application.clone(),
            };
            found.map(|(application, _)| place(application)).collect::<Vec<_>>()
        };
        match self {
            Placed::Together(_, applications) => {
                let namespace = self.namespace(given).unwrap_or_else(default_namespace);
                of_one(&namespace, applications).into_iter().collect()
            }
            Placed::Apart(namespaces) => {
                namespaces.iter().flat_map(|(name, all)| of_one(name, all)).collect()
            }
        }
    }

    /// Returns the namespace of all applications; `None` if there are several.
    pub fn namespace(&self, given: Option<&str>) -> Option<String> {
        match self {
            Placed::Together(named, _) => {
                let namespace = given.map(str::to_string).or_else(|| named.clone());
                Some(namespace.unwrap_or_else(default_namespace))
            }
            Placed::Apart(_) => None,
        }
    }
}

fn default_namespace() -> String {
    "default".to_string()
}

/// Where an application is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApplicationPlace {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub application: String,
}

/// Names in one note.
const NAMES_MAX: usize = 10;

/// Returns a note on what a document has and an import leaves out; `None` for nothing.
pub fn not_imported(why: &str, names: &[String]) -> Option<String> {
    let named = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        count if count <= NAMES_MAX => Some(format!("not imported, {why}: {named}")),
        count => Some(format!("not imported, {why}: {named} and {} more", count - NAMES_MAX)),
    }
}

/// What a document says about one application.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApplicationFacts {
    /// Its units.
    pub units: Vec<UnitFacts>,
    /// Whether other units of an earlier import stay, because the document does not say which
    /// units there are.
    pub keeps_others: bool,
    /// The unit that leads.
    pub leader: Leader,
    /// The statuses of the application itself.
    pub own: SetFacts,
}

/// The leading unit of an application, by its document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Leader {
    /// The source knows no leaders.
    #[default]
    NotStated,
    /// The document cannot say; the leader stays.
    Unreadable,
    /// No unit leads.
    Nobody,
    /// This unit leads.
    Unit(String),
}

/// What a document says about one unit.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitFacts {
    /// Its name.
    pub name: String,
    /// Its statuses.
    pub set: SetFacts,
    /// The work on it.
    pub work: WorkFacts,
}

/// A pull set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetFacts {
    /// The component that the set replaces; `None`: all of them.
    pub component: Option<&'static str>,
    /// The statuses.
    pub statuses: Vec<StatusReport>,
}

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
    /// Returns a meaning; a message that is too long is cut.
    pub fn new(level: Level, reason: &'static str, message: &str) -> Meaning {
        Meaning { level, reason, message: cut_bytes(message, MESSAGE_BYTES_MAX).into() }
    }

    /// Returns the meaning as a report of a component.
    pub fn of(self, component: &str) -> StatusReport {
        StatusReport {
            component: component.to_string(),
            kind: StatusKind::Pull.into(),
            level: self.level.into(),
            message: self.message,
            reason: self.reason.to_string(),
            ..StatusReport::default()
        }
    }

    /// Does the same with the time at which the level began, if it is known.
    pub fn since(self, component: &str, since: Option<Timestamp>) -> StatusReport {
        let since_unknown = since.is_none();
        StatusReport { observe_time: since.map(time::to_wire), since_unknown, ..self.of(component) }
    }
}
