//! The faults of a draft: the stored records, overlaid with those that the draft writes or removes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::model::fault::set::{Faults, second_of};
use crate::domain::model::fault::{Fault, FaultKey};
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::time::Timestamp;
use crate::domain::model::transition::Write;

/// The open faults after a draft.
pub struct FaultDraft<'a> {
    base: &'a Faults,
    written: BTreeMap<Arc<FaultKey>, Option<Arc<Fault>>>,
    /// Change in the number of planned retries, by their time.
    tries: BTreeMap<Timestamp, i64>,
}

impl<'a> FaultDraft<'a> {
    pub fn new(base: &'a Faults) -> FaultDraft<'a> {
        FaultDraft { base, written: BTreeMap::new(), tries: BTreeMap::new() }
    }

    pub fn get(&self, key: &FaultKey) -> Option<&Arc<Fault>> {
        match self.written.get(key) {
            Some(fault) => fault.as_ref(),
            None => self.base.get(key),
        }
    }

    /// Returns whether the draft writes or removes a fault.
    pub fn contains(&self, key: &FaultKey) -> bool {
        self.written.contains_key(key)
    }

    /// Returns whether no fault is stored, written or removed.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.base.is_empty()
    }

    /// Returns the faults of a unit, or of one of its components.
    pub fn of(
        &self,
        unit: &UnitName,
        component: Option<&PartName>,
    ) -> BTreeMap<Arc<FaultKey>, Arc<Fault>> {
        if self.is_empty() {
            return BTreeMap::new();
        }
        let belongs = |key: &FaultKey| component.is_none_or(|c| key.component == *c);
        let kept = self.base.of(unit, component).filter(|(key, _)| !self.contains(key));
        let new = self.written_of(unit).filter_map(|(key, fault)| Some((key, fault.as_ref()?)));
        let faults = kept.chain(new.filter(|(key, _)| belongs(key)));
        faults.map(|(key, fault)| (key.clone(), fault.clone())).collect()
    }

    /// Returns the faults of a unit that the draft writes or removes.
    pub fn written_of<'b>(
        &'b self,
        unit: &'b UnitName,
    ) -> impl Iterator<Item = (&'b Arc<FaultKey>, &'b Option<Arc<Fault>>)> {
        let first = FaultKey::first_of(unit, None);
        self.written.range::<FaultKey, _>(&first..).take_while(move |(key, _)| key.unit == *unit)
    }

    /// Returns the names of the units whose faults the draft writes or removes.
    pub fn units(&self) -> impl Iterator<Item = &UnitName> {
        self.written.keys().map(|key| &key.unit)
    }

    /// Returns what the draft writes or removes.
    pub fn drafted(&self) -> impl Iterator<Item = (&Arc<FaultKey>, Option<&Arc<Fault>>)> {
        self.written.iter().map(|(key, fault)| (key, fault.as_ref()))
    }

    /// Returns the faults that the draft writes.
    pub fn written(&self) -> impl Iterator<Item = &Fault> {
        self.written.values().flatten().map(|fault| &**fault)
    }

    /// Writes or removes a fault.
    pub fn put(&mut self, key: Arc<FaultKey>, fault: Option<Arc<Fault>>) {
        let old = self.get(&key).and_then(|old| old.next_try());
        let new = fault.as_ref().and_then(|fault| fault.next_try());
        for (at, step) in old.map(|at| (at, -1)).into_iter().chain(new.map(|at| (at, 1))) {
            *self.tries.entry(at).or_default() += step;
        }
        self.written.insert(key, fault);
    }

    /// Returns the earliest planned retry.
    pub fn next_retry(&self) -> Option<Timestamp> {
        let stored = self.base.tries();
        let left = |at: Timestamp| {
            let stored = stored.get(&at).copied().unwrap_or_default();
            i64::from(stored) + self.tries.get(&at).copied().unwrap_or_default()
        };
        let first_of_stored = stored.keys().find(|at| 0 < left(**at));
        let first_of_written = self.tries.keys().find(|at| 0 < left(**at));
        first_of_stored.into_iter().chain(first_of_written).min().copied()
    }

    /// Returns the first moment from `at` on whose second has less than `max` planned retries. The
    /// second of `own` counts one retry less.
    pub fn place(&self, at: Timestamp, own: Option<Timestamp>, max: u32) -> Timestamp {
        let max = i64::from(max.max(1));
        let taken = |at: Timestamp| {
            let second = second_of(at);
            let own = i64::from(own.is_some_and(|own| second.contains(&own)));
            let written: i64 = self.tries.range(second).map(|(_, change)| change).sum();
            i64::from(self.base.tries_in_second_of(at)) + written - own
        };
        let mut place = at;
        while max <= taken(place) {
            // Keeps the offset within the second, so that spread retries stay spread.
            place = Timestamp::new(place.millis() + 1000);
        }
        place
    }

    /// Returns the faults to write and to remove.
    pub fn into_writes(self) -> impl Iterator<Item = Write> {
        self.written.into_iter().map(|(key, fault)| Write::Fault(key, fault))
    }
}
