//! Numbers of keys by unit and component, cached so that a batch of new statuses does not count
//! them repeatedly.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::status::StatusKey;

/// The cached numbers of keys after a draft.
#[derive(Default)]
pub struct KeyCounts(RefCell<BTreeMap<(UnitName, PartName), usize>>);

impl KeyCounts {
    /// Returns the number of statuses of a component; `count` is called for the first time.
    pub fn get(
        &self,
        unit: &UnitName,
        component: &PartName,
        count: impl FnOnce() -> usize,
    ) -> usize {
        let mut counts = self.0.borrow_mut();
        *counts.entry((unit.clone(), component.clone())).or_insert_with(count)
    }

    /// Updates the number when a status is written or removed.
    pub(in crate::domain) fn change(&mut self, key: &StatusKey, was: bool, is: bool) {
        let counts = self.0.get_mut();
        if was == is || counts.is_empty() {
            return;
        }
        if let Some(count) = counts.get_mut(&(key.unit.clone(), key.component.clone())) {
            *count = *count + usize::from(is) - usize::from(was);
        }
    }
}
