//! The changes of a draft that are kept in memory only: contacts, moved deadlines, and results of
//! damped statuses without a level change.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::draft::status::StatusDraft;
use crate::domain::draft::unit::UnitDraft;
use crate::domain::model::name::UnitName;
use crate::domain::model::status::StatusKey;
use crate::domain::model::status::flapping::Swings;
use crate::domain::model::time::Timestamp;
use crate::domain::model::transition::MemoryOnly;

/// The in-memory changes of a draft.
#[derive(Default)]
pub struct Contacts {
    memory_only: MemoryOnly,
    /// Results without a level change, for statuses that the draft does not write.
    swings: BTreeMap<Arc<StatusKey>, Swings>,
}

impl Contacts {
    /// Adds a contact of a unit.
    pub fn add(&mut self, unit: &UnitName) {
        if self.memory_only.units.last() != Some(unit) {
            self.memory_only.units.push(unit.clone());
        }
    }

    /// Records that a unit answered a pull of all its statuses.
    pub fn answered(&mut self, unit: &UnitName) {
        if self.memory_only.answers.last() != Some(unit) {
            self.memory_only.answers.push(unit.clone());
        }
    }

    /// Removes the mark that a unit answered: the unit is removed, and a later one has not
    /// answered.
    pub fn unanswered(&mut self, unit: &UnitName) {
        self.memory_only.answers.retain(|name| name != unit);
    }

    pub(in crate::domain) fn move_deadline(&mut self, key: &Arc<StatusKey>, until: Timestamp) {
        self.memory_only.deadlines.push((key.clone(), until));
    }

    /// Returns the last deadline that a status got in this draft, usually the last one of all.
    pub fn deadline(&self, key: &StatusKey) -> Option<Timestamp> {
        let moved = self.memory_only.deadlines.iter().rev();
        moved.filter(|(moved, _)| **moved == *key).map(|(_, until)| *until).next()
    }

    pub fn swings(&self, key: &StatusKey) -> Option<Swings> {
        self.swings.get(key).copied()
    }

    pub fn put_swings(&mut self, key: &Arc<StatusKey>, swings: Swings) {
        self.swings.insert(key.clone(), swings);
    }

    pub fn remove_swings(&mut self, key: &StatusKey) {
        self.swings.remove(key);
    }

    /// Returns the changes for records that the draft does not write. A written record itself
    /// carries the deadline and the last contact.
    pub(in crate::domain) fn settle(
        mut self,
        statuses: &StatusDraft,
        units: &mut UnitDraft<'_>,
        now: Timestamp,
    ) -> MemoryOnly {
        let is_written = |key: &Arc<StatusKey>| statuses.contains(key);
        self.memory_only.deadlines.retain(|(key, _)| !is_written(key));
        self.memory_only.swings =
            self.swings.into_iter().filter(|(key, _)| !is_written(key)).collect();
        for name in &self.memory_only.units {
            units.written_mut(name).into_iter().for_each(|unit| unit.last_seen = now);
        }
        for name in &self.memory_only.answers {
            units.written_mut(name).into_iter().for_each(|unit| unit.last_answer = now);
        }
        self.memory_only
    }
}
