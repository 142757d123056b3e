//! Plans the calls that bring the server from its current state to that of a document.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bellwether_client::proto::{OfApplication, OfUnit};

use crate::cli::command::import::facts::{
    ApplicationFacts, ImportFacts, Leader, SetFacts, UnitFacts,
};
use crate::cli::command::import::origin::Origin;
use crate::proto::v1::{
    Application, ApplicationConfig, ClearApplicationStatusRequest, ConfigureApplicationRequest,
    DeleteApplicationRequest, ExternalLeader, RemoveUnitRequest, ReplaceApplicationStatusesRequest,
    ReplaceStatusesRequest, StatusKind, StatusRecord, StatusReport,
};

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
    pub fn from_wire(
        application: &Application,
        statuses: &[StatusRecord],
        origin: &Origin,
    ) -> KnownApplication {
        let config = application.config.as_ref();
        let leader = config.and_then(|c| c.external_leader.as_ref());
        let is_marked = |record: &&StatusRecord| origin.has_marked(record);
        let is_led = leader.is_some() && origin.decides_leaders;
        let of_units = || statuses.iter().filter(|record| !record.unit.is_empty());
        let imported_units: BTreeSet<String> =
            of_units().filter(is_marked).map(|r| r.unit.clone()).collect();
        let all_marked = of_units().all(|record| is_marked(&record));
        KnownApplication {
            external_leader: leader.map(|leader| leader.unit.clone()),
            is_imported: is_led || (!imported_units.is_empty() && all_marked),
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
    pub fn name(&self) -> String {
        match self {
            ImportStep::Replace(request) => unit_of(&request.application, &request.unit),
            ImportStep::RemoveUnit(request) => unit_of(&request.application, &request.unit),
            ImportStep::Lead(request) => request.application.clone(),
            ImportStep::ReplaceOwn(request) => request.application.clone(),
            ImportStep::ClearStatus(request) => request.application.clone(),
            ImportStep::Delete(request) => request.application.clone(),
        }
    }
}

/// Returns the name of a unit among those of all applications: `web/0`, or `db-1 of web` if it does
/// not contain the application.
fn unit_of(application: &str, unit: &str) -> String {
    let rest = unit.strip_prefix(application);
    match rest.is_some_and(|rest| rest.starts_with('/')) {
        true => unit.to_string(),
        false => format!("{unit} of {application}"),
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
    /// Facts of the document that concern no unit and no application.
    pub notes: Vec<String>,
    /// Number of facts that no status shows, in words.
    pub unshown: Option<String>,
    /// What the document lacks and the plan does not remove, as it is more than half.
    pub kept: Vec<String>,
}

/// Plans an import of `facts` into `namespace`.
pub fn plan(
    facts: ImportFacts,
    origin: &Origin,
    namespace: &str,
    known: &BTreeMap<String, KnownApplication>,
    options: Options,
) -> Plan {
    let ImportFacts { mut applications, notes, unshown, .. } = facts;
    let mut plan = Plan {
        application_count: applications.len(),
        unit_count: applications.values().map(|a| a.units.len()).sum(),
        kept: match options.prune {
            true => Vec::new(),
            false => too_many_gone(&applications, known, &origin.application()),
        },
        notes,
        unshown,
        ..Plan::default()
    };
    let removes = plan.kept.is_empty();
    let nothing = KnownApplication::default();
    let names: BTreeSet<String> = applications.keys().chain(known.keys()).cloned().collect();
    for name in names {
        let known = known.get(&name).unwrap_or(&nothing);
        let ttl = options.ttl;
        let planner = Planner { origin, namespace, name: &name, known, removes, ttl };
        let steps = match applications.remove(&name) {
            Some(application) => planner.steps(application),
            None => planner.gone(),
        };
        plan.steps.insert(name, steps);
    }
    plan
}

/// Returns the names of what the document lacks, if that is more than half of what was imported:
/// the document may be filtered. An application without units counts as one.
fn too_many_gone(
    applications: &BTreeMap<String, ApplicationFacts>,
    known: &BTreeMap<String, KnownApplication>,
    of_import: &str,
) -> Vec<String> {
    let (mut total, mut gone_count, mut gone) = (0, 0, Vec::new());
    for (name, known) in known.iter().filter(|(name, _)| *name != of_import) {
        let count = known.imported_units.len().max(usize::from(known.is_imported));
        total += count;
        match applications.get(name) {
            None if known.is_imported => {
                gone_count += count;
                gone.push(name.clone());
            }
            application => {
                let units = known.units_missing(application);
                gone_count += units.len();
                gone.extend(units.into_iter().map(|unit| unit_of(name, unit)));
            }
        }
    }
    if total < 2 * gone_count { gone } else { Vec::new() }
}

impl KnownApplication {
    /// Returns the imported units that the document lacks. Those of an application that could not
    /// be read are unknown.
    fn units_missing(&self, application: Option<&ApplicationFacts>) -> Vec<&String> {
        if application.is_some_and(|application| application.keeps_others) {
            return Vec::new();
        }
        let units = application.map_or(&[][..], |application| &application.units);
        let is_there = |name: &String| units.iter().any(|unit| unit.name == *name);
        self.imported_units.iter().filter(|name| !is_there(name)).collect()
    }
}

/// Plans one application of the document.
struct Planner<'a> {
    origin: &'a Origin,
    namespace: &'a str,
    name: &'a str,
    known: &'a KnownApplication,
    removes: bool,
    ttl: Option<Duration>,
}

impl Planner<'_> {
    fn steps(&self, application: ApplicationFacts) -> Vec<ImportStep> {
        let missing = self.remove_missing(Some(&application));
        let ApplicationFacts { units, leader, own, .. } = application;
        let mut steps: Vec<ImportStep> = units.into_iter().map(|unit| self.replace(unit)).collect();
        steps.extend(missing);
        let leads = self.leader(leader);
        // Before the statuses of the application, which only its leader may set.
        if let Some(leader) = &leads
            && self.known.external_leader.as_ref() != Some(leader)
        {
            steps.push(self.lead(leader));
        }
        let leader = leads.unwrap_or_default();
        if !own.statuses.is_empty() || self.known.has_own {
            let (component, statuses) = self.marked(own);
            steps.push(ImportStep::ReplaceOwn(ReplaceApplicationStatusesRequest {
                component,
                statuses,
                ..self.of_unit(&leader)
            }));
        }
        if self.known.has_status {
            steps.push(ImportStep::ClearStatus(self.of_unit(&leader)));
        }
        steps
    }

    fn replace(&self, unit: UnitFacts) -> ImportStep {
        let (component, statuses) = self.marked(unit.set);
        ImportStep::Replace(ReplaceStatusesRequest {
            component,
            statuses,
            ..self.of_unit(&unit.name)
        })
    }

    /// Returns the component that a set replaces, and its statuses as those of the origin.
    fn marked(&self, set: SetFacts) -> (Option<String>, Vec<StatusReport>) {
        let mut statuses = set.statuses;
        self.origin.mark(&mut statuses, self.ttl);
        (set.component.map(str::to_string), statuses)
    }

    /// Returns the unit that leads, `""` for none; `None` if the source knows no leaders.
    fn leader(&self, leader: Leader) -> Option<String> {
        match leader {
            Leader::NotStated => None,
            Leader::Unreadable => Some(self.known.external_leader.clone().unwrap_or_default()),
            Leader::Nobody => Some(String::new()),
            Leader::Unit(unit) => Some(unit),
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

    fn remove_missing(&self, application: Option<&ApplicationFacts>) -> Vec<ImportStep> {
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
