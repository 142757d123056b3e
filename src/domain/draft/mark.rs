//! The marks of a draft: the stored records, overlaid with those that the draft writes or removes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::model::mark::set::{Marks, planned_of};
use crate::domain::model::mark::{Cover, Mark, MarkId};
use crate::domain::model::transition::Write;

/// The marks after a draft.
pub struct MarkDraft<'a> {
    base: &'a Marks,
    written: BTreeMap<MarkId, Option<Arc<Mark>>>,
    /// What planned work covers, if the draft changed a mark.
    planned: Option<Vec<Cover>>,
}

impl<'a> MarkDraft<'a> {
    pub fn new(base: &'a Marks) -> MarkDraft<'a> {
        MarkDraft { base, written: BTreeMap::new(), planned: None }
    }

    pub fn get(&self, id: &str) -> Option<&Arc<Mark>> {
        match self.written.get(id) {
            Some(mark) => mark.as_ref(),
            None => self.base.get(id),
        }
    }

    /// Returns all marks.
    pub fn iter(&self) -> impl Iterator<Item = (&MarkId, &Arc<Mark>)> {
        let kept = self.base.iter().filter(|(id, _)| !self.written.contains_key(*id));
        kept.chain(self.written.iter().filter_map(|(id, mark)| Some((id, mark.as_ref()?))))
    }

    /// Returns whether no mark is stored, written or removed.
    pub fn is_empty(&self) -> bool {
        self.base.is_empty() && self.written.is_empty()
    }

    /// Returns whether the draft writes or removes a mark.
    pub fn contains(&self, id: &MarkId) -> bool {
        self.written.contains_key(id)
    }

    /// Returns what planned work covers.
    pub fn planned(&self) -> &[Cover] {
        self.planned.as_deref().unwrap_or_else(|| self.base.planned())
    }

    /// Returns whether planned work covers something else than before.
    pub fn replans(&self) -> bool {
        self.planned.as_deref().is_some_and(|planned| planned != self.base.planned())
    }

    pub(super) fn put(&mut self, id: MarkId, mark: Option<Arc<Mark>>) {
        let was_planned = self.get(&id).is_some_and(|mark| mark.is_planned());
        let is_planned = mark.as_ref().is_some_and(|mark| mark.is_planned());
        self.written.insert(id, mark);
        if was_planned || is_planned {
            let planned = planned_of(self.iter().map(|(_, mark)| mark));
            self.planned = Some(planned);
        }
    }

    /// Returns the records to write and to remove.
    pub fn into_writes(self) -> impl Iterator<Item = Write> {
        let base = self.base;
        // A mark that the same draft set and ended was never stored.
        let written = self.written.into_iter();
        let written = written.filter(|(id, mark)| mark.is_some() || base.get(id).is_some());
        written.map(|(id, mark)| Write::Mark(id, mark))
    }
}
