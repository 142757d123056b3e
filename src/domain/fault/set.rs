//! The stored faults of an application, and their contributions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fault, FaultKey};
use crate::domain::app::{AppState, Head, Unit};
use crate::domain::derive::Words;
use crate::domain::name::{PartName, UnitName};
use crate::domain::rank::{Origin, Rank};
use crate::domain::status::{Kind, Level, StatusKey};
use crate::domain::time::Timestamp;

/// The faults of an application, and the number of retries planned for each second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    records: BTreeMap<Arc<FaultKey>, Arc<Fault>>,
    /// Number of planned retries by second.
    tries: BTreeMap<u64, u32>,
}

/// Returns the second of a moment.
pub(super) fn second(at: Timestamp) -> u64 {
    at.0 / 1000
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
            let count = self.tries.entry(second(at)).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.tries.remove(&second(at));
            }
        }
        if let Some(at) = new {
            *self.tries.entry(second(at)).or_default() += 1;
        }
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

    /// Returns the number of retries planned for a second.
    pub(super) fn tries_in(&self, second: u64) -> u32 {
        self.tries.get(&second).copied().unwrap_or_default()
    }

    /// Moves deadlines that are before `earliest` to it: units were unable to report a success
    /// earlier.
    pub(in crate::domain) fn grant_grace(&mut self, earliest: Timestamp) {
        for fault in self.records.values_mut().filter(|fault| fault.stage_ends < Some(earliest)) {
            if fault.stage_ends.is_some() {
                Arc::make_mut(fault).stage_ends = Some(earliest);
            }
        }
    }
}

impl AppState {
    /// Returns the open faults.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the faults from `first` on, by unit, component and target.
    pub fn faults_from(
        &self,
        first: &FaultKey,
    ) -> impl Iterator<Item = (&Arc<FaultKey>, &Arc<Fault>)> {
        self.faults.records.range::<FaultKey, _>(first..)
    }

    /// Returns the rank of a fault, if it contributes.
    pub(in crate::domain) fn rank_of_fault(&self, key: &Arc<FaultKey>) -> Option<Rank> {
        let fault = self.faults.get(key)?;
        fault_rank(&self.head, self.units.get(&key.unit), key, fault)
    }

    /// Returns the held components of a unit, each with the fault that has held it longest.
    pub fn holds_of<'a>(
        &'a self,
        unit: &'a UnitName,
    ) -> BTreeMap<&'a PartName, (&'a FaultKey, &'a Fault)> {
        let mut holds: BTreeMap<&PartName, (&FaultKey, &Fault)> = BTreeMap::new();
        for (key, fault) in self.faults.of(unit, None).filter(|(_, f)| f.held_since.is_some()) {
            let hold = holds.entry(&key.component).or_insert((key, fault));
            if fault.held_since < hold.1.held_since {
                *hold = (key, fault);
            }
        }
        holds
    }
}

/// Returns the contribution of a fault. A fault of a lost or uncertain unit contributes only at
/// level error, because only final levels do.
pub(in crate::domain) fn fault_rank(
    head: &Head,
    unit: Option<&Unit>,
    key: &Arc<FaultKey>,
    fault: &Fault,
) -> Option<Rank> {
    let level = fault.level()?;
    if level != Level::Error && !unit.is_none_or(Unit::is_believed) {
        return None;
    }
    Some(Rank {
        precedence: 0,
        severity: head.config.policy.severity(level),
        priority: 0,
        leads: head.leader() == Some(&key.unit),
        key: Arc::new(StatusKey {
            unit: key.unit.clone(),
            component: key.component.clone(),
            key: PartName::default(),
            kind: Kind::Push,
        }),
        since: fault.since,
        origin: Origin::Fault,
        level,
        asks: !fault.action().is_empty(),
        flaps: false,
        fault: Some(key.clone()),
    })
}

/// Returns the texts of a fault.
pub(in crate::domain) fn fault_words(fault: &Fault) -> Words {
    Words {
        message: fault.shown.clone(),
        reason: fault.reason().into(),
        action: fault.action().into(),
        short_message: Box::default(),
    }
}
