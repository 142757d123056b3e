//! The reports that the facts of a document become: those of a unit, and those of an application.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::command::import::facts::{
    ApplicationFacts, ImportFacts, Leader, Meaning, Placed, SetFacts, UnitFacts,
};
use crate::cli::command::import::juju::account::{self, Counts};
use crate::cli::command::import::juju::document::{self, Document, Offer, Unit, UnitStatuses};
use crate::cli::command::import::juju::status::{Reading, Status};
use crate::cli::command::import::juju::surroundings::{Machine, Stored};
use crate::cli::command::import::juju::word::{self, Part, with_word};
use crate::cli::command::import::work::WorkFacts;
use crate::cli::render::counted;
use crate::proto::v1::{Level, StatusReport};

/// Longest value of a label in bytes.
const LABEL_VALUE_BYTES_MAX: usize = 63;

/// Returns the facts of a document.
pub fn of(document: &Document) -> ImportFacts {
    let mut around = Surrounding::new(document);
    let applications = document.applications.iter().map(|(name, application)| {
        let units = application.units.iter().map(|unit| around.of_unit(unit)).collect();
        let own = around.of_application(name, application);
        let leader = application.units.iter().find(|unit| unit.leader);
        let leader = match (leader, &application.unreadable) {
            (Some(unit), _) => Leader::Unit(unit.name.clone()),
            (None, Some(_)) => Leader::Unreadable,
            (None, None) => Leader::Nobody,
        };
        let keeps_others = application.unreadable.is_some();
        (name.clone(), ApplicationFacts { units, keeps_others, leader, own })
    });
    let applications = Placed::Together(Some(document.model.clone()), applications.collect());
    let unshown = account::sentence(&around.unshown);
    ImportFacts { applications, notes: around.notes, unshown, ..ImportFacts::default() }
}

/// What the units of a document run on, and the facts that no status shows.
#[derive(Debug, Default)]
struct Surrounding {
    /// The statuses of each machine that are news.
    machines: BTreeMap<String, Vec<StatusReport>>,
    /// The statuses of the storage of each unit that are news.
    storage: BTreeMap<String, Vec<StatusReport>>,
    /// Facts that concern no unit, in words.
    notes: Vec<String>,
    /// Number of facts that no status shows.
    unshown: Counts,
}

impl Surrounding {
    /// Collects what surrounds the units of a document.
    fn new(document: &Document) -> Surrounding {
        let mut facts = Surrounding { unshown: document.unread.clone(), ..Surrounding::default() };
        facts.take_model(document.status.as_ref());
        let units = || document.applications.values().flat_map(|a| &a.units);
        let machines: BTreeSet<&str> = units().flat_map(hosts).collect();
        for (id, machine) in &document.machines {
            facts.take_machine(id, machine, machines.contains(id.as_str()));
        }
        let names: BTreeSet<&str> = units().map(|unit| unit.name.as_str()).collect();
        for stored in &document.storage {
            facts.take_stored(stored, &names);
        }
        for (name, offer) in &document.offers {
            facts.notes.push(note_offer(name, offer));
        }
        facts
    }

    fn of_unit(&mut self, unit: &Unit) -> UnitFacts {
        let (component, statuses) = match &unit.statuses {
            // Only the workload is replaced; the other statuses stay.
            Err(text) => (Some("workload"), vec![word::unreadable("unit", text).of("workload")]),
            Ok(statuses) => (None, self.of_readable_unit(unit, statuses)),
        };
        let set = SetFacts { component, statuses };
        UnitFacts { name: unit.name.clone(), set, work: WorkFacts::default() }
    }

    fn of_readable_unit(&mut self, unit: &Unit, statuses: &UnitStatuses) -> Vec<StatusReport> {
        let mut reports = Vec::new();
        if let Some(workload) = &statuses.workload {
            reports.extend(self.report("unit", "workload", workload, Part::Workload));
        }
        let mut aside = Vec::new();
        for (component, status, part) in
            [("agent", &statuses.agent, Part::Agent), ("meter", &statuses.meter, Part::Meter)]
        {
            let status = status.as_ref();
            aside.extend(status.and_then(|status| self.report("unit", component, status, part)));
        }
        aside.extend(statuses.life.as_deref().map(|life| ending("unit", &unit.name, life)));
        let machines = hosts(unit).filter_map(|id| self.machines.get(id));
        aside.extend(machines.flatten().cloned());
        aside.extend(self.storage.get(&unit.name).into_iter().flatten().cloned());
        for report in &mut aside {
            report.priority = word::ASIDE;
        }
        reports.extend(aside);
        if reports.is_empty() {
            // An agent that is alive says nothing about the workload.
            let meaning =
                Meaning::new(Level::Unknown, "StatusMissing", "no status of the workload");
            reports.push(meaning.of("workload"));
        }
        let machine = &statuses.machine;
        if !machine.is_empty() && machine.len() <= LABEL_VALUE_BYTES_MAX {
            let label = || ("machine".to_string(), machine.clone());
            reports.iter_mut().for_each(|report| report.labels.extend([label()]));
        }
        reports
    }

    /// Returns the statuses of the application itself.
    fn of_application(&mut self, name: &str, application: &document::Application) -> SetFacts {
        let unreadable = match (&application.unreadable, &application.status) {
            (Some(text), _) | (None, Some(Err(text))) => Some(text),
            _ => None,
        };
        let mut reports = Vec::new();
        if let Some(text) = unreadable {
            reports.push(word::unreadable("application", text).of(""));
        } else if let Some(status) = &application.status {
            reports.extend(self.report("application", "", status, Part::Workload));
        }
        reports.extend(application.life.as_deref().map(|life| ending("application", name, life)));
        reports.extend(application.scale.and_then(|scale| self.scale(application, scale)));
        let component = application.unreadable.as_ref().map(|_| "");
        SetFacts { component, statuses: reports }
    }

    /// Returns a report on units that are missing, or that are too many.
    fn scale(&mut self, application: &document::Application, wanted: u64) -> Option<StatusReport> {
        let present = application.units.len() as u64;
        let level = match present.cmp(&wanted) {
            std::cmp::Ordering::Less => Level::Waiting,
            std::cmp::Ordering::Greater => Level::Maintenance,
            std::cmp::Ordering::Equal => {
                self.count("application scale", 1);
                return None;
            }
        };
        let message =
            format!("scale {wanted}: {} there", counted(present as usize, "unit", "units"));
        Some(Meaning::new(level, "ScaleDiffers", &message).of("scale"))
    }

    /// Returns a status as a report, or counts it if it only says that its object is alive.
    fn report(
        &mut self,
        kind: &str,
        component: &str,
        reading: &Reading<Status>,
        part: Part,
    ) -> Option<StatusReport> {
        let report = word::report(component, reading, part);
        if report.is_none() {
            let facts = reading.as_ref().map_or(0, Status::fact_count);
            self.count(&format!("{kind} {}", part.field()), facts);
        }
        report
    }

    fn take_model(&mut self, status: Option<&Reading<Status>>) {
        match status {
            None => {}
            Some(Err(text)) => self.notes.push(format!("juju could not read the model: {text}")),
            Some(Ok(status)) if status.current == "available" => {
                self.count("model model-status", status.fact_count());
            }
            Some(Ok(status)) => self.notes.push(format!("the model: {}", with_word(status))),
        }
    }

    /// Takes the news about a machine: for its units if it has some, else as notes.
    fn take_machine(&mut self, id: &str, machine: &Reading<Machine>, has_units: bool) {
        let mut reports = Vec::new();
        match machine {
            Err(text) => {
                if !has_units {
                    self.notes.push(format!("juju could not read machine {id}: {text}"));
                }
                reports.push(StatusReport {
                    key: id.to_string(),
                    ..word::unreadable("machine", text).of("machine")
                });
            }
            Ok(machine) => {
                for (part, status) in &machine.statuses {
                    let report = self.report("machine", "machine", status, *part);
                    let what = format!("machine {id}");
                    let key = match part {
                        Part::MachineAgent => format!("{id}/agent"),
                        Part::Modification => format!("{id}/modification"),
                        _ => id.to_string(),
                    };
                    reports.extend(report.map(|report| about(&what, &key, status, report)));
                }
                let life = machine.life.as_deref();
                reports.extend(life.map(|life| StatusReport {
                    key: format!("{id}/life"),
                    component: "machine".to_string(),
                    ..ending("machine", id, life)
                }));
                if !has_units {
                    self.notes.extend(reports.iter().map(note));
                }
            }
        }
        self.machines.insert(id.to_string(), reports);
    }

    /// Takes the news about storage: for the units that it is attached to, else as notes.
    fn take_stored(&mut self, stored: &Stored, units: &BTreeSet<&str>) {
        let Stored { kind, name, status, life, .. } = stored;
        let key = if *kind == "storage" { name.clone() } else { format!("{kind}/{name}") };
        let what = format!("{kind} {name}");
        let mut reports = Vec::new();
        if let Some(status) = status {
            let report = self.report("storage", "storage", status, Part::Storage);
            reports.extend(report.map(|report| about(&what, &key, status, report)));
        }
        reports.extend(life.as_deref().map(|life| StatusReport {
            key: format!("{key}/life"),
            component: "storage".to_string(),
            ..ending(kind, name, life)
        }));
        let mut is_shown = false;
        for unit in stored.units.iter().filter(|unit| units.contains(unit.as_str())) {
            is_shown = true;
            self.storage.entry(unit.clone()).or_default().extend(reports.iter().cloned());
        }
        if !is_shown {
            self.notes.extend(reports.iter().map(note));
        }
    }

    fn count(&mut self, name: &str, facts: usize) {
        *self.unshown.entry(name.to_string()).or_default() += facts;
    }
}

/// Returns the ids of the machine of a unit: those of its container and of all that contain it.
fn hosts(unit: &Unit) -> impl Iterator<Item = &str> {
    let id = unit.statuses.as_ref().map_or("", |statuses| statuses.machine.as_str());
    // `4/lxd/0` is the container 0 of type lxd on machine 4.
    let outer = id.match_indices('/').step_by(2).map(move |(end, _)| &id[..end]);
    outer.chain((!id.is_empty()).then_some(id))
}

/// Names the object in the message of a report, and in its key.
fn about(what: &str, key: &str, status: &Reading<Status>, report: StatusReport) -> StatusReport {
    let said = status.as_ref().map_or_else(|_| report.message.clone(), with_word);
    let message = Meaning::new(Level::Unknown, "", &format!("{what}: {said}")).message;
    StatusReport { key: key.to_string(), message, ..report }
}

/// Returns a report on an object that is being removed.
fn ending(kind: &str, name: &str, life: &str) -> StatusReport {
    let message = format!("{kind} {name} is {life}");
    Meaning::new(Level::Maintenance, "BeingRemoved", &message).of("life")
}

fn note(report: &StatusReport) -> String {
    report.message.clone()
}

/// Returns a note on an offer, which has no status: its counts say that something is connected.
fn note_offer(name: &str, offer: &Reading<Offer>) -> String {
    match offer {
        Err(text) => format!("juju could not read offer {name}: {text}"),
        Ok(Offer { application, total_connected: total, active_connected: active }) => {
            let of = if application.is_empty() { "?" } else { application };
            format!("offer {name}: {active} of {total} connected (application {of})")
        }
    }
}
