//! Plans the calls that bring the server from its current state to that of a document.

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use bellwether_client::proto::{OfApplication, OfUnit};

use crate::cli::command::juju::document::{self, Document, Unit};
use crate::cli::command::juju::facts::ImportFacts;
use crate::cli::command::juju::word::LABEL;
use crate::proto::v1::{
    Application, ApplicationConfig, ClearApplicationStatusRequest, ConfigureApplicationRequest,
    DeleteApplicationRequest, ExternalLeader, RemoveUnitRequest, ReplaceApplicationStatusesRequest,
    ReplaceStatusesRequest, StatusKind, StatusRecord,
};

/// The application that shows a failing import. No application of Juju has a dot in its name.
pub const IMPORT: &str = "import.juju";

/// The options of an import.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// How long what is imported is valid without another import.
    pub ttl: Option<Duration>,
    /// Whether more than half of what was imported may be removed.
    pub prune: bool,
}

/// The server's current state of one application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownApplication {
    /// The unit that leads by an external decision; absent if the server decides leadership.
    pub external_leader: Option<String>,
    /// Units with a status from an earlier import.
    pub imported_units: BTreeSet<String>,
    /// Whether every status in it was imported.
    pub is_imported: bool,
    /// Whether the application has a status as a whole that an earlier version imported.
    pub has_status: bool,
    /// Whether the application has imported statuses of its own.
    pub has_own: bool,
}

impl KnownApplication {
    /// Derives the state, and finds the labels of an earlier import.
    pub fn from_wire(application: &Application, statuses: &[StatusRecord]) -> KnownApplication {
        let config = application.config.as_ref();
        let leader = config.and_then(|c| c.external_leader.as_ref());
        let is_marked = |record: &&StatusRecord| {
            let label = record.report.as_ref().and_then(|r| r.labels.get(LABEL.0));
            label.is_some_and(|value| value == LABEL.1)
        };
        let of_units = || statuses.iter().filter(|record| !record.unit.is_empty());
        let imported_units: BTreeSet<String> =
            of_units().filter(is_marked).map(|r| r.unit.clone()).collect();
        let all_marked = of_units().all(|record| is_marked(&record));
        KnownApplication {
            external_leader: leader.map(|leader| leader.unit.clone()),
            is_imported: leader.is_some() || (!imported_units.is_empty() && all_marked),
            imported_units,
            has_status: statuses.iter().any(|r| r.unit.is_empty() && !is_pull(r)),
            has_own: statuses.iter().any(|r| r.unit.is_empty() && is_pull(r) && is_marked(&r)),
        }
    }
}

fn is_pull(record: &StatusRecord) -> bool {
    record.report.as_ref().is_some_and(|report| report.kind() == StatusKind::Pull)
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportStep {
    /// Reports the statuses of a unit.
    Replace(ReplaceStatusesRequest),
    /// Removes a unit that is not in the document.
    RemoveUnit(RemoveUnitRequest),
    /// Sets the leader.
    Lead(Box<ConfigureApplicationRequest>),
    /// Reports the statuses of the application itself.
    ReplaceOwn(ReplaceApplicationStatusesRequest),
    /// Withdraws the status of the application as a whole, of an import of an earlier version.
    ClearStatus(ClearApplicationStatusRequest),
    /// Deletes an application that is not in the document.
    Delete(DeleteApplicationRequest),
}

impl ImportStep {
    /// Returns the application or the unit that the call changes.
    pub fn name(&self) -> &str {
        match self {
            ImportStep::Replace(request) => &request.unit,
            ImportStep::RemoveUnit(request) => &request.unit,
            ImportStep::Lead(request) => &request.application,
            ImportStep::ReplaceOwn(request) => &request.application,
            ImportStep::ClearStatus(request) => &request.application,
            ImportStep::Delete(request) => &request.application,
        }
    }
}

/// The calls of an import, and its summary.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Steps by application: in order within one, in any order among several.
    pub steps: BTreeMap<String, Vec<ImportStep>>,
    /// Applications in the document.
    pub application_count: usize,
    /// Units in the document.
    pub unit_count: usize,
    /// ImportFacts of the document that concern no unit and no application.
    pub notes: Vec<String>,
    /// Number of facts that no status shows, in words.
    pub unshown: Option<String>,
    /// What the document lacks and the plan does not remove, as it is more than half.
    pub kept: Vec<String>,
}

/// Plans an import of `document` into `namespace`.
pub fn plan(
    document: &Document,
    namespace: &str,
    known: &BTreeMap<String, KnownApplication>,
    options: Options,
) -> Plan {
    let mut facts = ImportFacts::new(document, options.ttl);
    let mut plan = Plan {
        application_count: document.applications.len(),
        unit_count: document.applications.values().map(|a| a.units.len()).sum(),
        kept: if options.prune { Vec::new() } else { too_many_gone(document, known) },
        ..Plan::default()
    };
    let removes = plan.kept.is_empty();
    let nothing = KnownApplication::default();
    let names: BTreeSet<&String> = document.applications.keys().chain(known.keys()).collect();
    for name in names {
        let known = known.get(name).unwrap_or(&nothing);
        let planner = Planner { namespace, name, known, removes };
        let steps = match document.applications.get(name) {
            Some(application) => planner.steps(application, &mut facts),
            None => planner.gone(),
        };
        plan.steps.insert(name.clone(), steps);
    }
    plan.notes = facts.notes().to_vec();
    plan.unshown = facts.unshown();
    plan
}

/// Returns the names of what the document lacks, if that is more than half of what was imported:
/// the document may be filtered. An application without units counts as one.
fn too_many_gone(document: &Document, known: &BTreeMap<String, KnownApplication>) -> Vec<String> {
    let (mut total, mut gone_count, mut gone) = (0, 0, Vec::new());
    for (name, known) in known.iter().filter(|(name, _)| *name != IMPORT) {
        let count = known.imported_units.len().max(usize::from(known.is_imported));
        total += count;
        match document.applications.get(name) {
            None if known.is_imported => {
                gone_count += count;
                gone.push(name.clone());
            }
            application => {
                let units = known.units_missing(application);
                gone_count += units.len();
                gone.extend(units.into_iter().cloned());
            }
        }
    }
    if total < 2 * gone_count { gone } else { Vec::new() }
}

impl KnownApplication {
    /// Returns the imported units that the document lacks. Those of an application that could not
    /// be read are unknown.
    fn units_missing(&self, application: Option<&document::Application>) -> Vec<&String> {
        if application.is_some_and(|application| application.unreadable.is_some()) {
            return Vec::new();
        }
        let units = application.map_or(&[][..], |application| &application.units);
        let is_there = |name: &String| units.iter().any(|unit| unit.name == *name);
        self.imported_units.iter().filter(|name| !is_there(name)).collect()
    }
}

/// Plans one application of the document.
struct Planner<'a> {
    namespace: &'a str,
    name: &'a str,
    known: &'a KnownApplication,
    removes: bool,
}

impl Planner<'_> {
    fn steps(
        &self,
        application: &document::Application,
        facts: &mut ImportFacts,
    ) -> Vec<ImportStep> {
        let mut steps: Vec<ImportStep> =
            application.units.iter().map(|unit| self.replace(unit, facts)).collect();
        steps.extend(self.remove_missing(Some(application)));
        let leader = self.leader(application);
        // Before the statuses of the application, which only its leader may set.
        if self.known.external_leader.as_ref() != Some(&leader) {
            steps.push(self.lead(&leader));
        }
        let (component, statuses) = facts.of_application(self.name, application);
        if !statuses.is_empty() || self.known.has_own {
            steps.push(ImportStep::ReplaceOwn(ReplaceApplicationStatusesRequest {
                component: component.map(str::to_string),
                statuses,
                ..self.of_unit(&leader)
            }));
        }
        if self.known.has_status {
            steps.push(ImportStep::ClearStatus(self.of_unit(&leader)));
        }
        steps
    }

    fn replace(&self, unit: &Unit, facts: &mut ImportFacts) -> ImportStep {
        let (component, statuses) = facts.of_unit(unit);
        ImportStep::Replace(ReplaceStatusesRequest {
            component: component.map(str::to_string),
            statuses,
            ..self.of_unit(&unit.name)
        })
    }

    fn leader(&self, application: &document::Application) -> String {
        let leader = application.units.iter().find(|unit| unit.leader);
        match (leader, &application.unreadable) {
            (Some(unit), _) => unit.name.clone(),
            (None, Some(_)) => self.known.external_leader.clone().unwrap_or_default(),
            (None, None) => String::new(),
        }
    }

    fn lead(&self, leader: &str) -> ImportStep {
        ImportStep::Lead(Box::new(ConfigureApplicationRequest {
            config: Some(ApplicationConfig {
                external_leader: Some(ExternalLeader { unit: leader.to_string() }),
                ..ApplicationConfig::default()
            }),
            update_mask: Some(prost_types::FieldMask {
                paths: vec!["external_leader".to_string()],
            }),
            ..OfApplication::of_application(self.namespace, self.name)
        }))
    }

    /// Plans for an application that is not in the document: deletes it if it was imported, else
    /// removes only its imported units.
    fn gone(&self) -> Vec<ImportStep> {
        if self.known.is_imported && self.removes {
            let request = DeleteApplicationRequest::of_application(self.namespace, self.name);
            return vec![ImportStep::Delete(request)];
        }
        self.remove_missing(None)
    }

    fn remove_missing(&self, application: Option<&document::Application>) -> Vec<ImportStep> {
        let missing = self.known.units_missing(application).into_iter();
        missing.filter(|_| self.removes).map(|unit| self.remove(unit)).collect()
    }

    fn remove(&self, unit: &str) -> ImportStep {
        ImportStep::RemoveUnit(self.of_unit(unit))
    }

    fn of_unit<R: OfUnit>(&self, unit: &str) -> R {
        R::of_unit(self.namespace, self.name, unit)
    }
}
