//! The statuses that a draft writes or removes: with fast lookup by key, grouped by unit, in a
//! deterministic order.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use indexmap::map::Entry;

use crate::domain::name::UnitName;
use crate::domain::status::{ByKey, Status, StatusKey};

/// A status that the draft writes or removes.
pub(in crate::domain) struct Drafted {
    /// The value before the draft.
    pub(in crate::domain) before: Option<Arc<Status>>,
    /// The value after the draft.
    pub(in crate::domain) after: Option<Arc<Status>>,
}

type OfUnit = IndexMap<Arc<StatusKey>, Drafted, ByKey>;

/// The drafted statuses, by unit and key.
#[derive(Default)]
pub(in crate::domain) struct StatusDraft {
    units: BTreeMap<UnitName, OfUnit>,
}

impl StatusDraft {
    pub(in crate::domain) fn get(&self, key: &StatusKey) -> Option<&Drafted> {
        self.units.get(&key.unit)?.get(key)
    }

    /// Returns a status that the draft writes.
    pub(in crate::domain) fn written_mut(&mut self, key: &StatusKey) -> Option<&mut Arc<Status>> {
        self.units.get_mut(&key.unit)?.get_mut(key)?.after.as_mut()
    }

    pub(in crate::domain) fn contains(&self, key: &StatusKey) -> bool {
        self.get(key).is_some()
    }

    /// Writes or removes a status; `old` is its value in the draft so far.
    pub(in crate::domain) fn put(
        &mut self,
        key: Arc<StatusKey>,
        old: Option<Arc<Status>>,
        after: Option<Arc<Status>>,
    ) {
        let of_unit = match self.units.get_mut(&key.unit) {
            Some(of_unit) => of_unit,
            None => self.units.entry(key.unit.clone()).or_default(),
        };
        match of_unit.entry(key) {
            Entry::Vacant(place) => drop(place.insert(Drafted { before: old, after })),
            Entry::Occupied(mut place) => place.get_mut().after = after,
        }
    }

    /// Returns the units with drafted statuses.
    pub(in crate::domain) fn units(&self) -> impl Iterator<Item = &UnitName> {
        self.units.keys()
    }

    /// Returns the drafted statuses of one unit.
    pub(in crate::domain) fn of(
        &self,
        unit: &UnitName,
    ) -> impl Iterator<Item = (&Arc<StatusKey>, &Drafted)> {
        self.units.get(unit).into_iter().flatten()
    }

    /// Returns the statuses that are written, with their new values.
    pub(in crate::domain) fn written(
        &self,
    ) -> impl Iterator<Item = (&Arc<StatusKey>, &Arc<Status>)> {
        let all = self.units.values().flatten();
        all.filter_map(|(key, drafted)| Some((key, drafted.after.as_ref()?)))
    }

    pub(in crate::domain) fn into_writes(
        self,
    ) -> impl Iterator<Item = (Arc<StatusKey>, Option<Arc<Status>>)> {
        self.units.into_values().flatten().map(|(key, drafted)| (key, drafted.after))
    }
}
