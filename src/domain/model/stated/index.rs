//! The records of an application that have needs, and for each need those that state it: a report
//! costs as many steps as the application has different needs, however many units state them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::model::fault::FaultKey;
use crate::domain::model::name::UnitName;
use crate::domain::model::need::{Need, Needs};
use crate::domain::model::rank::Rank;
use crate::domain::model::status::StatusKey;

/// A record with needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    /// A status.
    Status(Arc<StatusKey>),
    /// An open fault.
    Fault(Arc<FaultKey>),
}

impl RecordKey {
    /// Returns the record that a contribution comes from.
    pub(in crate::domain) fn of(rank: &Rank) -> RecordKey {
        match &rank.fault {
            Some(key) => RecordKey::Fault(key.clone()),
            None => RecordKey::Status(rank.key.clone()),
        }
    }

    /// Returns the unit of the record.
    pub fn unit(&self) -> &UnitName {
        match self {
            RecordKey::Status(key) => &key.unit,
            RecordKey::Fault(key) => &key.unit,
        }
    }
}

/// A record with needs, as it is or as a draft leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needy {
    /// What it needs.
    pub needs: Needs,
    /// Its rank; `None` while it does not state the needs.
    pub rank: Option<Rank>,
}

/// The records with needs of one application.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NeedIndex {
    records: BTreeMap<RecordKey, Needy>,
    /// The ranks of those that state a need. No set is empty.
    stating: BTreeMap<Need, BTreeSet<Rank>>,
}

impl NeedIndex {
    /// Returns whether no record has needs.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns whether a record had needs when it was last put.
    pub fn contains(&self, source: &RecordKey) -> bool {
        self.records.contains_key(source)
    }

    /// Returns the records with needs.
    pub fn sources(&self) -> impl Iterator<Item = &RecordKey> {
        self.records.keys()
    }

    /// Returns the records of one unit.
    pub fn of_unit<'a>(&'a self, unit: &'a UnitName) -> impl Iterator<Item = &'a RecordKey> {
        let first_status = RecordKey::Status(Arc::new(StatusKey::first_of(unit)));
        let first_fault = RecordKey::Fault(Arc::new(FaultKey::first_of(unit, None)));
        [first_status, first_fault].into_iter().flat_map(move |first| {
            let is_fault = matches!(first, RecordKey::Fault(_));
            let from = self.records.range(first..).map(|(source, _)| source);
            from.take_while(move |source| {
                source.unit() == unit && matches!(source, RecordKey::Fault(_)) == is_fault
            })
        })
    }

    /// Returns the records of one unit that state their needs.
    pub fn stating_of<'a>(
        &'a self,
        unit: &'a UnitName,
    ) -> impl Iterator<Item = (&'a RecordKey, &'a Needs)> {
        let of_unit = self.of_unit(unit).filter_map(|source| self.records.get_key_value(source));
        let stating = of_unit.filter(|(_, needy)| needy.rank.is_some());
        stating.map(|(source, needy)| (source, &needy.needs))
    }

    /// Takes over a record; `None` if it has no needs, or is gone.
    pub(in crate::domain) fn put(&mut self, source: RecordKey, needy: Option<Needy>) {
        // Most writes of a unit leave its records with needs as they are.
        if self.records.get(&source) == needy.as_ref() {
            return;
        }
        if let Some(Needy { needs, rank: Some(rank) }) = self.records.remove(&source) {
            for need in needs.iter() {
                let Some(ranks) = self.stating.get_mut(need) else { continue };
                ranks.remove(&rank);
                if ranks.is_empty() {
                    self.stating.remove(need);
                }
            }
        }
        let Some(needy) = needy else { return };
        if let Some(rank) = &needy.rank {
            for need in needy.needs.iter() {
                self.stating.entry(need.clone()).or_default().insert(rank.clone());
            }
        }
        self.records.insert(source, needy);
    }

    /// Returns each need that is stated, with the strongest contribution that states it. Records
    /// in `changed` count as they are there.
    pub(in crate::domain) fn stated<'a>(
        &'a self,
        changed: &'a BTreeMap<RecordKey, Option<Needy>>,
    ) -> BTreeMap<&'a Need, &'a Rank> {
        let mut stated: BTreeMap<&Need, &Rank> = BTreeMap::new();
        for (need, ranks) in &self.stating {
            let kept = ranks.iter().find(|rank| !changed.contains_key(&RecordKey::of(rank)));
            stated.extend(kept.map(|rank| (need, rank)));
        }
        for needy in changed.values().flatten() {
            let Some(rank) = &needy.rank else { continue };
            for need in needy.needs.iter() {
                let strongest = stated.entry(need).or_insert(rank);
                *strongest = rank.min(*strongest);
            }
        }
        stated
    }
}
