//! The index of needs after a transition: records that the transition wrote, and those of units
//! whose freshness it may have changed.

use std::collections::BTreeSet;

use crate::domain::model::app::AppState;
use crate::domain::model::stated::index::{NeedIndex, Needy, RecordKey};
use crate::domain::model::transition::{Transition, Write};

impl AppState {
    /// Takes over the needs of the records that a transition wrote.
    pub(super) fn restate(&mut self, transition: &Transition) {
        let mut sources: BTreeSet<RecordKey> = BTreeSet::new();
        for write in &transition.writes {
            match write {
                Write::Status(key, status) => {
                    let has = status.as_ref().is_some_and(|s| !s.report.needs().is_empty());
                    if has || !self.needs.is_empty() {
                        sources.insert(RecordKey::Status(key.clone()));
                    }
                }
                Write::Fault(key, fault) => {
                    let has = fault.as_ref().is_some_and(|f| !f.needs.is_empty());
                    if has || !self.needs.is_empty() {
                        sources.insert(RecordKey::Fault(key.clone()));
                    }
                }
                Write::Unit(name, _) if !self.needs.is_empty() => {
                    sources.extend(self.needs.of_unit(name).cloned());
                }
                _ => {}
            }
        }
        for source in sources {
            let needy = self.needy(&source);
            self.needs.put(source, needy);
        }
    }

    /// Takes over the needs of all records.
    pub(super) fn restate_all(&mut self) {
        self.needs = NeedIndex::default();
        let statuses = self.statuses.iter().filter(|(_, s)| !s.report.needs().is_empty());
        let statuses = statuses.map(|(key, _)| RecordKey::Status(key.clone()));
        let faults = self.faults.iter().filter(|(_, f)| !f.needs.is_empty());
        let faults = faults.map(|(key, _)| RecordKey::Fault(key.clone()));
        let sources: Vec<RecordKey> = statuses.chain(faults).collect();
        for source in sources {
            let needy = self.needy(&source);
            self.needs.put(source, needy);
        }
    }

    /// Returns the needs of a record, if it has any.
    fn needy(&self, source: &RecordKey) -> Option<Needy> {
        let unit = self.unit(source.unit());
        match source {
            RecordKey::Status(key) => {
                Needy::status(self.ranking(), unit, key, self.statuses.get(key)?)
            }
            RecordKey::Fault(key) => Needy::fault(self.ranking(), unit, key, self.faults.get(key)?),
        }
    }
}
