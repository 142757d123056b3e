//! The statuses of an application: with fast lookup by key, and in the order of their keys. A
//! report looks up one status among possibly many; only lists need the order.

// The hash map is only for lookups; iteration uses the sorted keys. Unlike the map of std, it finds
// the parts of a key without a copy of them.
#![allow(clippy::disallowed_types)]

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use indexmap::Equivalent;

use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::sorted::Sorted;
use crate::domain::model::status::{ByKey, KeyParts, Status, StatusKey};

/// The statuses of an application, by key and in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statuses {
    by_key: HashMap<Arc<StatusKey>, Arc<Status>, ByKey>,
    order: Sorted<Arc<StatusKey>>,
}

impl Statuses {
    /// Returns the number of statuses.
    pub(in crate::domain) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns one status.
    pub fn get(&self, key: &(impl Hash + Equivalent<Arc<StatusKey>>)) -> Option<&Arc<Status>> {
        self.by_key.get(key)
    }

    /// Returns one status with its key.
    pub(in crate::domain) fn find(
        &self,
        key: &KeyParts<'_>,
    ) -> Option<(&Arc<StatusKey>, &Arc<Status>)> {
        self.by_key.get_key_value(key)
    }

    /// Returns one status for a change.
    pub fn get_mut(&mut self, key: &StatusKey) -> Option<&mut Arc<Status>> {
        self.by_key.get_mut(key)
    }

    /// Adds a status, and returns the one that it replaces.
    pub fn insert(&mut self, key: &Arc<StatusKey>, status: Arc<Status>) -> Option<Arc<Status>> {
        if let Some(known) = self.by_key.get_mut(key) {
            return Some(std::mem::replace(known, status));
        }
        self.order.insert(key.clone());
        self.by_key.insert(key.clone(), status)
    }

    /// Removes a status.
    pub fn remove(&mut self, key: &StatusKey) -> Option<Arc<Status>> {
        self.order.remove(key);
        self.by_key.remove(key)
    }

    /// Returns all statuses, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<StatusKey>, &Arc<Status>)> {
        self.order.iter().filter_map(|key| Some((key, self.by_key.get(key)?)))
    }

    /// Changes each status independently, in no particular order.
    pub fn for_each_mut(&mut self, change: impl FnMut(&mut Arc<Status>)) {
        self.by_key.values_mut().for_each(change);
    }

    /// Returns the statuses from `first` on: by unit, component, key and kind.
    pub fn from<'s>(
        &'s self,
        first: &StatusKey,
    ) -> impl Iterator<Item = (&'s Arc<StatusKey>, &'s Arc<Status>)> + use<'s> {
        self.order.from(first).filter_map(|key| Some((key, self.by_key.get(key)?)))
    }

    /// Returns the statuses of one unit, or of one of its components, in the same order.
    pub fn of(
        &self,
        unit: &UnitName,
        component: Option<&PartName>,
    ) -> impl Iterator<Item = (&Arc<StatusKey>, &Arc<Status>)> {
        let first = StatusKey::first_in(unit, component.cloned().unwrap_or_default());
        let end = (unit.clone(), component.cloned());
        self.from(&first).take_while(move |(key, _)| {
            key.unit == end.0 && end.1.as_ref().is_none_or(|c| key.component == *c)
        })
    }
}
