//! The marks of one application.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::model::deadline::Deadlines;
use crate::domain::model::mark::{Cover, Mark, MarkId, WELL_FOR};
use crate::domain::model::status::StatusKey;
use crate::domain::model::time::Timestamp;

/// The marks of an application. Most applications have none, and pay one pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks(Option<Box<Kept>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Kept {
    records: BTreeMap<MarkId, Arc<Mark>>,
    /// What the planned marks in force cover.
    planned: Vec<Cover>,
}

impl Marks {
    /// Returns whether there is no mark.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns one mark.
    pub fn get(&self, id: &str) -> Option<&Arc<Mark>> {
        self.0.as_ref()?.records.get(id)
    }

    /// Returns all marks, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&MarkId, &Arc<Mark>)> {
        self.0.iter().flat_map(|kept| kept.records.iter())
    }

    /// Returns the mark in force that covers a contribution, a planned one before others.
    pub fn covering(&self, place: &StatusKey) -> Option<&MarkId> {
        let covering = || self.iter().filter(|(_, mark)| mark.begun && mark.cover.has(place));
        let planned = covering().find(|(_, mark)| mark.is_planned());
        planned.or_else(|| covering().next()).map(|(id, _)| id)
    }

    /// Returns what the planned marks in force cover.
    pub(in crate::domain) fn planned(&self) -> &[Cover] {
        self.0.as_ref().map_or(&[], |kept| &kept.planned)
    }

    /// Writes or removes a mark.
    pub(in crate::domain) fn put(&mut self, id: &MarkId, mark: Option<Arc<Mark>>) {
        let kept = self.0.get_or_insert_default();
        let is_planned = mark.as_ref().is_some_and(|mark| mark.is_planned());
        let before = match mark {
            Some(mark) => kept.records.insert(id.clone(), mark),
            None => kept.records.remove(id),
        };
        if is_planned || before.is_some_and(|before| before.is_planned()) {
            kept.planned = planned_of(kept.records.values());
        }
        if kept.records.is_empty() {
            self.0 = None;
        }
    }
}

/// Returns what the planned marks in force among these cover, in an order of its own: equal sets
/// are equal.
pub(in crate::domain) fn planned_of<'a>(marks: impl Iterator<Item = &'a Arc<Mark>>) -> Vec<Cover> {
    let planned = marks.filter(|mark| mark.is_planned()).map(|mark| mark.cover.clone());
    let mut planned: Vec<Cover> = planned.collect();
    planned.sort();
    planned.dedup();
    planned
}

impl Deadlines<'_> {
    /// Returns when everything that a mark covers has been well for long enough to end it.
    pub(in crate::domain) fn of_well(self, mark: &Mark) -> Option<Timestamp> {
        let since = mark.well_since.filter(|_| mark.begun)?;
        Some(self.outages.moved(since.after(WELL_FOR), WELL_FOR))
    }

    /// Returns when time alone changes a mark: it begins, or it ends.
    pub(in crate::domain) fn of_mark(self, mark: &Mark) -> Timestamp {
        match mark.begun {
            true => self.of_well(mark).map_or(mark.end, |well| well.min(mark.end)),
            false => mark.start,
        }
    }
}
