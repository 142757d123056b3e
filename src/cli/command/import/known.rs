//! The current state of the server, as far as an import compares with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::command::import::facts::ApplicationFacts;
use crate::cli::command::import::origin::Origin;
use crate::cli::command::import::work::IMPORTED_OPERATION;
use crate::proto::v1::{Application, Freshness, Operation, StatusKind, StatusRecord, StatusReport};

/// The server's current state of one application.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownApplication {
    /// The unit that leads by an external decision; absent if the server decides leadership.
    pub external_leader: Option<String>,
    /// Units with a status.
    pub units: BTreeMap<String, KnownUnit>,
    /// Whether every status in it was imported.
    pub is_imported: bool,
    /// Whether the application has a status as a whole that an earlier version imported.
    pub has_status: bool,
    /// Whether the application has imported statuses of its own.
    pub has_own: bool,
    /// Its operations, if a unit has work that an import records.
    pub operations: Vec<Operation>,
}

/// The server's current state of one unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownUnit {
    /// The statuses of an earlier import.
    pub imported: Vec<KnownStatus>,
    /// The components whose pull set has a status of a worker, or of another import.
    pub reported: BTreeSet<String>,
    /// Whether the unit has any status of those.
    pub has_others: bool,
}

/// A status of an earlier import.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownStatus {
    /// The report as it is compared.
    report: StatusReport,
    /// Whether it is fresh, and its last report is what it shows.
    is_plain: bool,
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
        let is_led = leader.is_some() && origin.decides_leaders;
        let mut units: BTreeMap<String, KnownUnit> = BTreeMap::new();
        for record in statuses.iter().filter(|record| !record.unit.is_empty()) {
            units.entry(record.unit.clone()).or_default().take(record, origin);
        }
        let has_any = units.values().any(|unit| !unit.imported.is_empty());
        let all_marked = units.values().all(|unit| !unit.has_others);
        let is_own = |r: &&StatusRecord| r.unit.is_empty();
        let mut own = statuses.iter().filter(is_own);
        KnownApplication {
            external_leader: leader.map(|leader| leader.unit.clone()),
            is_imported: is_led || (has_any && all_marked),
            units,
            has_status: own.clone().any(|r| !is_pull(r)),
            has_own: own.any(|r| is_pull(r) && origin.has_marked(r)),
            operations: Vec::new(),
        }
    }

    /// Returns the number of units with a status of an earlier import.
    pub fn imported_unit_count(&self) -> usize {
        self.units.values().filter(|unit| !unit.imported.is_empty()).count()
    }

    /// Returns the imported units that the document lacks. Those of an application that could not
    /// be read are unknown.
    pub fn units_missing(&self, application: Option<&ApplicationFacts>) -> Vec<&String> {
        if application.is_some_and(|application| application.keeps_others) {
            return Vec::new();
        }
        let units = application.map_or(&[][..], |application| &application.units);
        let there: BTreeSet<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
        let imported = self.units.iter().filter(|(_, unit)| !unit.imported.is_empty());
        imported.map(|(name, _)| name).filter(|name| !there.contains(name.as_str())).collect()
    }
}

impl KnownUnit {
    fn take(&mut self, record: &StatusRecord, origin: &Origin) {
        let Some(report) = &record.report else { return };
        if !origin.has_marked(record) {
            self.has_others = true;
            if is_pull(record) {
                self.reported.insert(report.component.clone());
            }
            return;
        }
        let is_plain = record.held.is_none() && record.freshness() == Freshness::Fresh;
        self.imported.push(KnownStatus { report: comparable(report), is_plain });
    }

    /// Returns the label of the operation that an earlier import has begun.
    pub fn recorded(&self) -> Option<&str> {
        let label =
            self.imported.iter().find_map(|known| known.report.labels.get(IMPORTED_OPERATION));
        label.map(String::as_str)
    }

    /// Returns whether the server already has exactly this set. One with a ttl has to be repeated.
    pub fn shows(&self, statuses: &[StatusReport]) -> bool {
        self.reported.is_empty() && are_shown(self.imported.iter(), statuses)
    }

    /// Returns the same for the set of one component.
    pub fn shows_component(&self, component: &str, statuses: &[StatusReport]) -> bool {
        are_shown(self.imported.iter().filter(|k| k.report.component == component), statuses)
    }

    /// Returns the components with imported statuses.
    pub fn imported_components(&self) -> BTreeSet<String> {
        self.imported.iter().map(|known| known.report.component.clone()).collect()
    }

    /// Divides a set by component. A component that was imported before has a set, if an empty one.
    pub fn by_component(&self, statuses: Vec<StatusReport>) -> BTreeMap<String, Vec<StatusReport>> {
        let mut sets: BTreeMap<String, Vec<StatusReport>> = BTreeMap::new();
        for component in self.imported_components() {
            sets.entry(component).or_default();
        }
        for status in statuses {
            sets.entry(status.component.clone()).or_default().push(status);
        }
        sets
    }
}

fn are_shown<'a>(known: impl Iterator<Item = &'a KnownStatus>, new: &'a [StatusReport]) -> bool {
    let place = |report: &'a StatusReport| (report.component.as_str(), report.key.as_str());
    let mut known: BTreeMap<_, _> = known.map(|known| (place(&known.report), known)).collect();
    for status in new {
        let there = known.remove(&place(status));
        let is_equal = |known: &KnownStatus| known.is_plain && known.report == comparable(status);
        if status.ttl.is_some() || !there.is_some_and(is_equal) {
            return false;
        }
    }
    known.is_empty()
}

/// Returns a report without what does not tell two of them apart: the kind, which is pull for all,
/// and the time of the observation, which counts only when the level begins.
fn comparable(report: &StatusReport) -> StatusReport {
    StatusReport { kind: StatusKind::Pull.into(), observe_time: None, ..report.clone() }
}

fn is_pull(record: &StatusRecord) -> bool {
    record.report.as_ref().is_some_and(|report| report.kind() == StatusKind::Pull)
}
