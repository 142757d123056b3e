//! Plans the calls that bring the server from its current state to that of a document.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_client::proto::{OfApplication, OfUnit};

use crate::cli::juju::document::{self, Document, Offer, Unit};
use crate::cli::juju::word::{self, LABEL, Meaning};
use crate::cli::render::time;
use crate::proto::v1::{
    Application, ApplicationConfig, ApplicationStatusMode, ClearApplicationStatusRequest,
    ConfigureApplicationRequest, DeleteApplicationRequest, ExternalLeader, Level,
    RemoveUnitRequest, ReplaceStatusesRequest, SetApplicationStatusRequest, StatusRecord,
    StatusReport,
};

/// The server's current state of one application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownApplication {
    /// The unit that leads by an external decision; absent if the server decides leadership.
    pub external_leader: Option<String>,
    /// Units with a status from an earlier import.
    pub imported_units: BTreeSet<String>,
    /// Whether every status in it was imported.
    pub is_imported: bool,
    /// Whether the application has a status as a whole.
    pub has_status: bool,
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
            has_status: statuses.iter().any(|record| record.unit.is_empty()),
        }
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportStep {
    /// Reports the statuses of a unit.
    Replace(ReplaceStatusesRequest),
    /// Removes a unit that is not in the document.
    RemoveUnit(RemoveUnitRequest),
    /// Sets the leader.
    Lead(ConfigureApplicationRequest),
    /// Sets the status of the application as a whole.
    SetStatus(SetApplicationStatusRequest),
    /// Withdraws that status.
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
            ImportStep::SetStatus(request) => &request.application,
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
    /// Facts of the document that have no place in a status.
    pub notes: Vec<String>,
}

/// Plans an import of `document` into `namespace`.
pub fn plan(
    document: &Document,
    namespace: &str,
    known: &BTreeMap<String, KnownApplication>,
) -> Plan {
    let mut plan = Plan {
        application_count: document.applications.len(),
        unit_count: document.applications.values().map(|a| a.units.len()).sum(),
        ..Plan::default()
    };
    let unreadable = document.unreadable.iter();
    plan.notes.extend(unreadable.map(|(what, text)| format!("juju could not read {what}: {text}")));
    let offers = offers(document, &mut plan.notes);
    let nothing = KnownApplication::default();
    let names: BTreeSet<&String> = document.applications.keys().chain(known.keys()).collect();
    for name in names {
        let known = known.get(name).unwrap_or(&nothing);
        let planner = Planner { namespace, name, known, offers: &offers };
        let steps = match document.applications.get(name) {
            Some(application) => planner.steps(application),
            None => planner.gone(),
        };
        plan.steps.insert(name.clone(), steps);
    }
    plan
}

/// Returns reports for the offers by unit name. An offer has no status of its own: its counts go to
/// the leader of its application.
fn offers(document: &Document, notes: &mut Vec<String>) -> BTreeMap<String, Vec<StatusReport>> {
    let mut reports: BTreeMap<String, Vec<StatusReport>> = BTreeMap::new();
    for (name, reading) in &document.offers {
        let Offer { application, total_connected: total, active_connected: active } = match reading
        {
            Ok(offer) => offer,
            Err(text) => {
                notes.push(format!("juju could not read offer {name}: {text}"));
                continue;
            }
        };
        let message = format!("offer {name}: {active} of {total} connected");
        if !application.is_empty() {
            notes.push(format!("{message} (application {application})"));
        }
        let units = document.applications.get(application).map(|a| a.units.as_slice());
        if let Some(unit) = units.and_then(reporter) {
            let meaning = Meaning { level: Level::Active, reason: "", message };
            reports.entry(unit.name.clone()).or_default().push(StatusReport {
                key: name.clone(),
                priority: word::ASIDE,
                ..word::labelled("offer", meaning)
            });
        }
    }
    reports
}

/// Returns the unit that reports for its application: the leader, else the first readable unit.
fn reporter(units: &[Unit]) -> Option<&Unit> {
    let mut readable = units.iter().filter(|unit| unit.statuses.is_ok());
    readable.clone().find(|unit| unit.leader).or_else(|| readable.next())
}

/// Plans one application of the document.
struct Planner<'a> {
    namespace: &'a str,
    name: &'a str,
    known: &'a KnownApplication,
    offers: &'a BTreeMap<String, Vec<StatusReport>>,
}

impl Planner<'_> {
    fn steps(&self, application: &document::Application) -> Vec<ImportStep> {
        let mut steps: Vec<ImportStep> =
            application.units.iter().map(|u| self.replace(u)).collect();
        if application.unreadable.is_none() {
            // The units of an application that could not be read are unknown.
            let there = |name: &String| application.units.iter().any(|unit| unit.name == *name);
            let gone = self.known.imported_units.iter().filter(|name| !there(name));
            steps.extend(gone.map(|unit| self.remove(unit)));
        }
        let leader = self.leader(application);
        // Before the status of the application, which only its leader may set.
        if self.known.external_leader.as_ref() != Some(&leader) {
            steps.push(self.lead(&leader));
        }
        steps.extend(self.status(application, &leader));
        steps
    }

    fn replace(&self, unit: &Unit) -> ImportStep {
        let (component, statuses) = match &unit.statuses {
            // Only the workload is replaced; the other statuses stay.
            Err(text) => {
                let meaning = Meaning::unreadable("unit", text);
                (Some("workload"), vec![word::labelled("workload", meaning)])
            }
            Ok(statuses) => {
                let workload = statuses.workload.as_ref();
                let agent = statuses.agent.as_ref();
                let mut reports = Vec::new();
                reports.extend(workload.map(|w| word::report("workload", w, Meaning::of_workload)));
                reports.extend(agent.map(|a| StatusReport {
                    priority: word::ASIDE,
                    ..word::report("agent", a, Meaning::of_agent)
                }));
                reports.extend(self.offers.get(&unit.name).into_iter().flatten().cloned());
                (None, reports)
            }
        };
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
        ImportStep::Lead(ConfigureApplicationRequest {
            config: Some(ApplicationConfig {
                external_leader: Some(ExternalLeader { unit: leader.to_string() }),
                ..ApplicationConfig::default()
            }),
            update_mask: Some(prost_types::FieldMask {
                paths: vec!["external_leader".to_string()],
            }),
            ..OfApplication::of_application(self.namespace, self.name)
        })
    }

    fn status(&self, application: &document::Application, leader: &str) -> Option<ImportStep> {
        let unreadable = |text: &str| (Meaning::unreadable("application", text), None);
        let (meaning, since) = match (&application.unreadable, &application.status) {
            (Some(text), _) | (None, Some(Err(text))) => unreadable(text),
            (None, Some(Ok(status))) => (Meaning::of_workload(status), status.since),
            (None, None) if self.known.has_status => {
                return Some(ImportStep::ClearStatus(self.of_unit(leader)));
            }
            (None, None) => return None,
        };
        Some(ImportStep::SetStatus(SetApplicationStatusRequest {
            level: meaning.level.into(),
            message: meaning.message,
            reason: meaning.reason.to_string(),
            mode: ApplicationStatusMode::Contribute.into(),
            observe_time: since.map(time::to_wire),
            ..self.of_unit(leader)
        }))
    }

    /// Plans for an application that is not in the document: deletes it if it was imported, else
    /// removes only its imported units.
    fn gone(&self) -> Vec<ImportStep> {
        if self.known.is_imported {
            let request = DeleteApplicationRequest::of_application(self.namespace, self.name);
            return vec![ImportStep::Delete(request)];
        }
        self.known.imported_units.iter().map(|unit| self.remove(unit)).collect()
    }

    fn remove(&self, unit: &str) -> ImportStep {
        ImportStep::RemoveUnit(self.of_unit(unit))
    }

    fn of_unit<R: OfUnit>(&self, unit: &str) -> R {
        R::of_unit(self.namespace, self.name, unit)
    }
}
