//! The needs that the contributions of an application state after a draft.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::stated::StatedNeeds;
use crate::domain::model::stated::index::{Needy, RecordKey};

impl Draft<'_> {
    /// Returns what the contributions need after the draft. Costs nothing where no record has
    /// needs, before or after.
    pub(in crate::domain) fn stated_needs(&self) -> Option<Arc<StatedNeeds>> {
        let changed = self.changed_needs();
        let before = self.head.base().needs.as_ref();
        if changed.is_empty() {
            return before.cloned();
        }
        let stated = self.base.needs.stated(&changed);
        StatedNeeds::list(stated, before.map(|before| &**before), self.now)
    }

    /// Returns the records with needs that the draft may change, as it leaves them.
    fn changed_needs(&self) -> BTreeMap<RecordKey, Option<Needy>> {
        let index = &self.base.needs;
        let mut changed = BTreeMap::new();
        let statuses = self.statuses.drafted().filter(|(key, drafted)| {
            let has = drafted.after.as_ref().is_some_and(|s| !s.report.needs().is_empty());
            has || !index.is_empty() && index.contains(&RecordKey::Status((*key).clone()))
        });
        let faults = self.faults.drafted().filter(|(key, fault)| {
            let has = fault.as_ref().is_some_and(|fault| !fault.needs.is_empty());
            has || !index.is_empty() && index.contains(&RecordKey::Fault((*key).clone()))
        });
        let written = statuses.map(|(key, _)| RecordKey::Status(key.clone()));
        let written = written.chain(faults.map(|(key, _)| RecordKey::Fault(key.clone())));
        changed.extend(written.map(|source| (source.clone(), self.needy(&source))));
        if index.is_empty() {
            return changed;
        }
        let reranks = self.reranks();
        let of_units = self.units.names().flat_map(|unit| index.of_unit(unit));
        let all = reranks.then(|| index.sources()).into_iter().flatten();
        for source in of_units.chain(all) {
            if !changed.contains_key(source) {
                changed.insert(source.clone(), self.needy(source));
            }
        }
        changed
    }

    /// Returns the needs of a record after the draft, if it has any.
    fn needy(&self, source: &RecordKey) -> Option<Needy> {
        let unit = self.unit(source.unit());
        match source {
            RecordKey::Status(key) => Needy::status(self.ranking(), unit, key, self.status(key)?),
            RecordKey::Fault(key) => Needy::fault(self.ranking(), unit, key, self.faults.get(key)?),
        }
    }
}
