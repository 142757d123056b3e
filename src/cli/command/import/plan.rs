//! Plans the calls that bring the server from its current state to that of a document.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bellwether_client::proto::{OfApplication, OfUnit};

use crate::cli::command::import::facts::{
    ApplicationFacts, ApplicationPlace, ImportFacts, Leader, SetFacts, UnitFacts,
};
use crate::cli::command::import::known::{KnownApplication, KnownUnit};
use crate::cli::command::import::origin::Origin;
use crate::cli::command::import::step::{ImportStep, WorkCall, WorkStep, unit_of};
use crate::cli::command::import::work::{self, CutOff, IMPORTED_OPERATION, WorkFacts, WorkPlan};
use crate::proto::v1::{
    ApplicationConfig, BeginOperationRequest, CancelOperationRequest, CompleteOperationRequest,
    ConfigureApplicationRequest, ExternalLeader, ReplaceApplicationStatusesRequest,
    ReplaceStatusesRequest, StatusReport,
};

/// The options of an import.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// How long what is imported is valid without another import.
    pub ttl: Option<Duration>,
    /// Whether more than half of what was imported may be removed.
    pub prune: bool,
}

/// The calls of an import, and its summary.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Steps by application: in order within one, in any order among several.
    pub steps: BTreeMap<ApplicationPlace, Vec<ImportStep>>,
    /// Namespaces in the document.
    pub namespace_count: usize,
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

/// Plans an import of `facts`. `given` is the namespace of the command line.
pub fn plan(
    facts: ImportFacts,
    origin: &Origin,
    given: Option<&str>,
    known: &BTreeMap<ApplicationPlace, KnownApplication>,
    options: Options,
) -> Plan {
    let ImportFacts { applications, notes, unshown, may_be_cut } = facts;
    let mut applications = applications.resolve(given);
    let namespaces: BTreeSet<&str> = applications.keys().map(|p| p.namespace.as_str()).collect();
    let mut plan = Plan {
        namespace_count: namespaces.len(),
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
    let removes = plan.kept.is_empty() && (options.prune || !may_be_cut);
    let nothing = KnownApplication::default();
    let places: BTreeSet<&ApplicationPlace> = applications.keys().chain(known.keys()).collect();
    let places: Vec<ApplicationPlace> = places.into_iter().cloned().collect();
    for place in places {
        let known = known.get(&place).unwrap_or(&nothing);
        let planner = Planner { origin, place: &place, known, removes, ttl: options.ttl };
        let steps = match applications.remove(&place) {
            Some(application) => planner.steps(application, &mut plan.notes),
            None => planner.gone(),
        };
        plan.steps.insert(place, steps);
    }
    plan
}

/// Returns the names of what the document lacks, if that is more than half of what was imported:
/// the document may be filtered. An application without units counts as one.
fn too_many_gone(
    applications: &BTreeMap<ApplicationPlace, ApplicationFacts>,
    known: &BTreeMap<ApplicationPlace, KnownApplication>,
    of_import: &str,
) -> Vec<String> {
    let (mut total, mut gone_count, mut gone) = (0, 0, Vec::new());
    for (place, known) in known.iter().filter(|(place, _)| place.application != of_import) {
        let count = known.imported_unit_count().max(usize::from(known.is_imported));
        total += count;
        match applications.get(place) {
            None if known.is_imported => {
                gone_count += count;
                gone.push(place.application.clone());
            }
            application => {
                let units = known.units_missing(application);
                gone_count += units.len();
                gone.extend(units.into_iter().map(|unit| unit_of(&place.application, unit)));
            }
        }
    }
    if total < 2 * gone_count { gone } else { Vec::new() }
}

/// What is left of the work on a unit that no import is about any more.
static GONE: WorkFacts = WorkFacts::Ended { in_place: None };

/// Plans one application of the document.
struct Planner<'a> {
    origin: &'a Origin,
    place: &'a ApplicationPlace,
    known: &'a KnownApplication,
    removes: bool,
    ttl: Option<Duration>,
}

impl Planner<'_> {
    fn steps(&self, application: ApplicationFacts, notes: &mut Vec<String>) -> Vec<ImportStep> {
        let missing = self.remove_missing(Some(&application));
        let ApplicationFacts { units, leader, own, .. } = application;
        let mut steps: Vec<ImportStep> = Vec::new();
        for unit in units {
            self.of_document(unit, &mut steps, notes);
        }
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

    /// Plans the calls for a unit of the document.
    fn of_document(&self, unit: UnitFacts, steps: &mut Vec<ImportStep>, notes: &mut Vec<String>) {
        let UnitFacts { name, mut set, work } = unit;
        let plan = self.work(&name, &work);
        // An operation ends before the label goes that says that there is one, and begins after it
        // is there: the next import then finds it, wherever this one ends.
        steps.extend(self.ended(&name, &plan));
        if let Some((id, status)) = plan.open.as_ref().zip(set.statuses.first_mut()) {
            let label = work::label_of(id).to_string();
            status.labels.insert(IMPORTED_OPERATION.to_string(), label);
        }
        let begun = plan.begun.map(|new| self.record(&name, new));
        self.replace(UnitFacts { name, set, work: WorkFacts::default() }, steps, notes);
        steps.extend(begun);
    }

    /// Decides about the work on a unit. That of a unit which a worker reports is its own.
    fn work<'p>(&'p self, unit: &str, work: &'p WorkFacts) -> WorkPlan<'p> {
        let known = self.known.units.get(unit);
        let work = if known.is_some_and(|known| known.has_others) { &GONE } else { work };
        let recorded = known.and_then(KnownUnit::recorded);
        work::decide(work, unit, recorded, &self.known.operations)
    }

    fn record(&self, unit: &str, work: &CutOff) -> ImportStep {
        let request = BeginOperationRequest {
            operation_id: work.id.clone(),
            kind: work.kind.into(),
            target_version: work.target.clone(),
            for_unit: unit.to_string(),
            reversible: true,
            ..self.of_unit(unit)
        };
        self.step(unit, WorkCall::Record(Box::new(request), work.progress.clone()))
    }

    fn ended(&self, unit: &str, plan: &WorkPlan<'_>) -> Vec<ImportStep> {
        let complete = plan.completed.map(|operation| {
            WorkCall::Complete(CompleteOperationRequest {
                operation_id: operation.operation_id.clone(),
                fence: operation.fence,
                ..self.of_unit(unit)
            })
        });
        let cancel = plan.cancelled.map(|operation| {
            WorkCall::Cancel(CancelOperationRequest {
                operation_id: operation.operation_id.clone(),
                ..self.of_application()
            })
        });
        complete.into_iter().chain(cancel).map(|call| self.step(unit, call)).collect()
    }

    fn step(&self, unit: &str, operation: WorkCall) -> ImportStep {
        ImportStep::Work(Box::new(WorkStep { unit: unit.to_string(), operation }))
    }

    /// Plans the calls for the set of a unit: none if the server has it, else one for all of the
    /// unit, or one for each component if a worker has reported others.
    fn replace(&self, unit: UnitFacts, steps: &mut Vec<ImportStep>, notes: &mut Vec<String>) {
        let (component, statuses) = self.marked(unit.set);
        let nothing = KnownUnit::default();
        let known = self.known.units.get(&unit.name).unwrap_or(&nothing);
        let is_whole = component.is_none();
        if is_whole && known.shows(&statuses) {
            return;
        }
        if !is_whole || known.reported.is_empty() {
            steps.push(self.replacement(&unit.name, component, statuses));
            return;
        }
        for (component, statuses) in known.by_component(statuses) {
            if known.reported.contains(&component) {
                if !statuses.is_empty() {
                    let (unit, application) = (&unit.name, &self.place.application);
                    let of = unit_of(application, unit);
                    let of = [of.as_str(), component.as_str()].join(" ");
                    notes.push(format!("not imported, a worker reports it: {}", of.trim_end()));
                }
                continue;
            }
            if !known.shows_component(&component, &statuses) {
                steps.push(self.replacement(&unit.name, Some(component), statuses));
            }
        }
    }

    fn replacement(
        &self,
        unit: &str,
        component: Option<String>,
        statuses: Vec<StatusReport>,
    ) -> ImportStep {
        let request = ReplaceStatusesRequest { component, statuses, ..self.of_unit(unit) };
        ImportStep::Replace(request)
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
            ..self.of_application()
        }))
    }

    /// Plans for an application that is not in the document: deletes it if it was imported, else
    /// removes only its imported units.
    fn gone(&self) -> Vec<ImportStep> {
        if self.known.is_imported && self.removes {
            return vec![ImportStep::Delete(self.of_application())];
        }
        self.remove_missing(None)
    }

    fn remove_missing(&self, application: Option<&ApplicationFacts>) -> Vec<ImportStep> {
        let missing = self.known.units_missing(application).into_iter();
        missing.filter(|_| self.removes).flat_map(|unit| self.remove(unit)).collect()
    }

    /// Removes a unit, or only what was imported of it if a worker reports it too.
    fn remove(&self, unit: &str) -> Vec<ImportStep> {
        match self.known.units.get(unit).filter(|known| known.has_others) {
            None => vec![ImportStep::RemoveUnit(self.of_unit(unit))],
            Some(known) => {
                let components = known.imported_components().into_iter();
                let own = components.filter(|component| !known.reported.contains(component));
                let mut steps = self.ended(unit, &self.work(unit, &GONE));
                steps.extend(
                    own.map(|component| self.replacement(unit, Some(component), Vec::new())),
                );
                steps
            }
        }
    }

    fn of_application<R: OfApplication>(&self) -> R {
        R::of_application(&self.place.namespace, &self.place.application)
    }

    fn of_unit<R: OfUnit>(&self, unit: &str) -> R {
        R::of_unit(&self.place.namespace, &self.place.application, unit)
    }
}
