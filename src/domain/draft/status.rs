//! The statuses that a draft writes or removes: with fast lookup by key and by unit, in the order
//! of the reports.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use indexmap::map::Entry;
use indexmap::{Equivalent, IndexMap};

use crate::domain::model::name::UnitName;
use crate::domain::model::status::{ByKey, KeyParts, Status, StatusKey};
use crate::domain::model::transition::Write;

/// A status that the draft writes or removes.
pub struct Drafted {
    /// The value before the draft.
    pub before: Option<Arc<Status>>,
    /// The value after the draft.
    pub after: Option<Arc<Status>>,
}

/// The drafted statuses in the order of the first change. One map for all units, because a batch
/// often has one report of each of many units.
#[derive(Default)]
pub struct StatusDraft {
    drafted: IndexMap<Arc<StatusKey>, Drafted, ByKey>,
    /// The places of a unit's statuses in `drafted`.
    units: BTreeMap<UnitName, Vec<usize>>,
}

impl StatusDraft {
    pub fn get(&self, key: &(impl Hash + Equivalent<Arc<StatusKey>>)) -> Option<&Drafted> {
        self.drafted.get(key)
    }

    /// Returns a drafted status with its key.
    pub fn find(&self, key: &KeyParts<'_>) -> Option<(&Arc<StatusKey>, &Drafted)> {
        self.drafted.get_key_value(key)
    }

    /// Returns a status that the draft writes.
    pub fn written_mut(&mut self, key: &StatusKey) -> Option<&mut Arc<Status>> {
        self.drafted.get_mut(key)?.after.as_mut()
    }

    pub fn contains(&self, key: &StatusKey) -> bool {
        self.get(key).is_some()
    }

    /// Writes or removes a status; `old` is its value in the draft so far.
    pub fn put(
        &mut self,
        key: Arc<StatusKey>,
        old: Option<Arc<Status>>,
        after: Option<Arc<Status>>,
    ) {
        match self.drafted.entry(key) {
            Entry::Occupied(mut place) => place.get_mut().after = after,
            Entry::Vacant(place) => {
                let (unit, index) = (&place.key().unit, place.index());
                match self.units.get_mut(unit) {
                    Some(of_unit) => of_unit.push(index),
                    None => drop(self.units.insert(unit.clone(), vec![index])),
                }
                place.insert(Drafted { before: old, after });
            }
        }
    }

    /// Returns the units with drafted statuses.
    pub fn units(&self) -> impl Iterator<Item = &UnitName> {
        self.units.keys()
    }

    /// Returns the drafted statuses of one unit.
    pub fn of(&self, unit: &UnitName) -> impl Iterator<Item = (&Arc<StatusKey>, &Drafted)> {
        let places = self.units.get(unit).into_iter().flatten();
        places.filter_map(|place| self.drafted.get_index(*place))
    }

    /// Returns what the draft writes or removes.
    pub fn drafted(&self) -> impl Iterator<Item = (&Arc<StatusKey>, &Drafted)> {
        self.drafted.iter()
    }

    /// Returns the statuses that are written, with their new values.
    pub fn written(&self) -> impl Iterator<Item = (&Arc<StatusKey>, &Arc<Status>)> {
        self.drafted.iter().filter_map(|(key, drafted)| Some((key, drafted.after.as_ref()?)))
    }

    pub fn into_writes(self) -> impl Iterator<Item = Write> {
        self.drafted.into_iter().map(|(key, drafted)| Write::Status(key, drafted.after))
    }
}
