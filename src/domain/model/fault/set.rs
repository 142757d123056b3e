//! The stored faults of an application, and the retries that they plan.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::domain::model::fault::{Fault, FaultKey};
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::time::Timestamp;

/// The faults of an application, and the number of retries planned for each moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    records: BTreeMap<Arc<FaultKey>, Arc<Fault>>,
    /// Number of planned retries by their time.
    tries: BTreeMap<Timestamp, u32>,
}

/// Returns the moments of the second of `at`.
pub(in crate::domain) fn second_of(at: Timestamp) -> RangeInclusive<Timestamp> {
    let start = at.millis() / 1000 * 1000;
    Timestamp::new(start)..=Timestamp::new(start.saturating_add(999))
}

impl Faults {
    /// Writes or removes a fault.
    pub(in crate::domain) fn put(&mut self, key: Arc<FaultKey>, fault: Option<Arc<Fault>>) {
        let new = fault.as_ref().and_then(|fault| fault.next_try());
        let old = match fault {
            Some(fault) => self.records.insert(key, fault),
            None => self.records.remove(&key),
        };
        if let Some(at) = old.and_then(|old| old.next_try()) {
            let count = self.tries.entry(at).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.tries.remove(&at);
            }
        }
        if let Some(at) = new {
            *self.tries.entry(at).or_default() += 1;
        }
    }

    /// Returns whether there is no fault.
    pub(in crate::domain) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns one fault.
    pub fn get(&self, key: &FaultKey) -> Option<&Arc<Fault>> {
        self.records.get(key)
    }

    /// Returns all faults, by unit, component and target.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<FaultKey>, &Arc<Fault>)> {
        self.records.iter()
    }

    /// Returns the faults of one unit, or of one of its components.
    pub fn of<'a>(
        &'a self,
        unit: &'a UnitName,
        component: Option<&'a PartName>,
    ) -> impl Iterator<Item = (&'a Arc<FaultKey>, &'a Arc<Fault>)> {
        let first = FaultKey::first_of(unit, component);
        self.records.range::<FaultKey, _>(&first..).take_while(move |(key, _)| {
            key.unit == *unit && component.is_none_or(|c| key.component == *c)
        })
    }

    /// Returns the faults from `first` on, by unit, component and target.
    pub fn from<'s>(
        &'s self,
        first: &FaultKey,
    ) -> impl Iterator<Item = (&'s Arc<FaultKey>, &'s Arc<Fault>)> + use<'s> {
        self.records.range::<FaultKey, _>(first..)
    }

    /// Returns the number of retries planned for the second of a moment.
    pub(in crate::domain) fn tries_in_second_of(&self, at: Timestamp) -> u32 {
        self.tries.range(second_of(at)).map(|(_, count)| count).sum()
    }

    /// Returns the planned retries by their time.
    pub(in crate::domain) fn tries(&self) -> &BTreeMap<Timestamp, u32> {
        &self.tries
    }
}
