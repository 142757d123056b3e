//! Whether there is room: what is new is counted beside what is there and does not leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::command::Rejected;
use super::draft::Draft;
use super::name::{PartName, UnitName};
use super::status::StatusKey;

impl Draft<'_> {
    /// Whether statuses of a unit fit beside what is there and does not leave. Counts what would
    /// be new.
    pub(super) fn has_room(
        &self,
        unit: &UnitName,
        keys: impl IntoIterator<Item = StatusKey>,
        leaving: &BTreeSet<Arc<StatusKey>>,
    ) -> Result<(), Rejected> {
        let known = self.unit(unit);
        if known.is_none() {
            let what = || "units of the application".to_string();
            within("units_max", self.limits.units_max, self.unit_count() + 1, what)?;
        }
        let new = keys.into_iter().filter(|key| self.status(key).is_none());
        let added: BTreeSet<StatusKey> = new.collect();
        if added.is_empty() {
            return Ok(());
        }
        let kept = known.map_or(0, |u| u.status_count as usize) - leaving.len();
        let what = || format!("statuses of unit {unit}");
        let max = self.limits.statuses_per_unit_max;
        within("statuses_per_unit_max", max, kept + added.len(), what)?;
        if kept + added.len() <= self.limits.keys_per_component_max {
            // No component can have more than its unit.
            return Ok(());
        }
        let components: BTreeSet<&PartName> = added.iter().map(|new| &new.component).collect();
        for component in components {
            let leaving = leaving.iter().filter(|key| key.component == *component).count();
            let kept = self.count_of(unit, component) - leaving;
            let more = added.iter().filter(|new| new.component == *component).count();
            let what = || format!("statuses of component {component:?} of unit {unit}");
            let max = self.limits.keys_per_component_max;
            within("keys_per_component_max", max, kept + more, what)?;
        }
        Ok(())
    }

    /// Statuses of one component. Counted once for a draft: a batch of new ones is not counted over
    /// and over.
    fn count_of(&self, unit: &UnitName, component: &PartName) -> usize {
        let mut counts = self.key_counts.borrow_mut();
        let count = || self.keys_of(unit, Some(component)).len();
        *counts.entry((unit.clone(), component.clone())).or_insert_with(count)
    }

    /// Keeps the counts while a status is put or removed.
    pub(super) fn count_key(&mut self, key: &StatusKey, was: bool, is: bool) {
        let counts = self.key_counts.get_mut();
        if was == is || counts.is_empty() {
            return;
        }
        if let Some(count) = counts.get_mut(&(key.unit.clone(), key.component.clone())) {
            *count = *count + usize::from(is) - usize::from(was);
        }
    }
}

/// Refuses a count over its bound.
pub(super) fn within(
    limit: &'static str,
    max: usize,
    count: usize,
    what: impl Fn() -> String,
) -> Result<(), Rejected> {
    if count <= max {
        return Ok(());
    }
    let what = what();
    Err(Rejected::LimitExceeded { limit, what, max })
}
