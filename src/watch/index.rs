//! The index of one filter: its members, and a log that holds each application once, at the offset
//! of its last change.
//!
//! A read from an offset returns the newest state of every application that changed since. A newer
//! change removes the older entry of its application from the log, so the number of applications
//! bounds the log, not the number of changes.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use super::digest::Digest;
use super::entry::Entry;
use super::error::ResumeError;
use crate::domain::name::AppName;

/// An offset in the log of one filter: the number of changes that had entered the log by then, with
/// those that newer ones replaced before this process received them. The log has its own order,
/// independent of the orders of the store. Gaps are changes that newer ones replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Offset(pub(super) u64);

/// An update of one application.
#[derive(Debug, Clone)]
pub(super) enum SentState {
    /// Its newest state.
    Upserted(Arc<Entry>),
    /// The application was deleted or left the filter.
    Removed(AppName),
}

/// The members of a filter, and the log since its first watcher.
#[derive(Debug, Default)]
pub(super) struct Index {
    members: BTreeMap<AppName, Arc<Entry>>,
    log: BTreeMap<Offset, SentState>,
    /// The offset of each application in the log.
    offsets: BTreeMap<AppName, Offset>,
    /// The digest over the members.
    pub(super) digest: Digest,
    /// The offset after all updates.
    pub(super) end: Offset,
    /// The greatest offset of a removal that was pruned from the log.
    forgotten: Offset,
}

impl Index {
    /// Creates an index with these members, sorted by name, and an empty log.
    pub(super) fn new(members: Vec<Arc<Entry>>) -> Index {
        let mut digest = Digest::default();
        members.iter().for_each(|entry| digest.add(entry.mark));
        // Collecting builds the tree in one step: several times faster than single inserts.
        let members = members.into_iter().map(|e| (e.app.clone(), e)).collect();
        Index { members, digest, ..Index::default() }
    }

    /// Appends the newest state of an application, or its removal.
    pub(super) fn append(&mut self, entry: &Arc<Entry>, shown: bool) {
        let (before, sent) = if shown {
            self.digest.add(entry.mark);
            let before = self.members.insert(entry.app.clone(), entry.clone());
            (before, SentState::Upserted(entry.clone()))
        } else {
            (self.members.remove(&entry.app), SentState::Removed(entry.app.clone()))
        };
        if let Some(before) = before {
            self.digest.remove(before.mark);
        }
        self.end.0 += 1 + entry.replaced;
        if let Some(older) = self.offsets.insert(entry.app.clone(), self.end) {
            self.log.remove(&older);
        }
        self.log.insert(self.end, sent);
    }

    /// Returns the application as shown, if it is a member.
    pub(super) fn get(&self, app: &AppName) -> Option<&Arc<Entry>> {
        self.members.get(app)
    }

    /// Prunes the removal of an application whose tombstone was pruned.
    pub(super) fn forget(&mut self, app: &AppName) {
        if let Some(offset) = self.offsets.remove(app) {
            self.log.remove(&offset);
            self.forgotten = self.forgotten.max(offset);
        }
    }

    /// Returns up to `count` updates after an offset, in order.
    pub(super) fn after(
        &self,
        offset: Offset,
        count: usize,
    ) -> Result<impl Iterator<Item = (Offset, SentState)>, ResumeError> {
        self.check(offset)?;
        let later = self.log.range((Excluded(offset), Unbounded)).take(count);
        Ok(later.map(|(offset, sent)| (*offset, sent.clone())))
    }

    /// Returns up to `count` members by name, for a snapshot that began at offset `begin`.
    pub(super) fn members_after(
        &self,
        begin: Offset,
        name: Option<&AppName>,
        count: usize,
    ) -> Result<impl Iterator<Item = Arc<Entry>>, ResumeError> {
        self.check(begin)?;
        let after = name.map_or(Unbounded, Excluded);
        let members = self.members.range::<AppName, _>((after, Unbounded));
        Ok(members.take(count).map(|(_, entry)| entry.clone()))
    }

    /// Checks that no removal after this offset was pruned.
    fn check(&self, offset: Offset) -> Result<(), ResumeError> {
        if offset < self.forgotten { Err(ResumeError::Pruned) } else { Ok(()) }
    }

    /// Returns the number of members.
    pub(super) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// Returns the number of applications in the log, removals included.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.log.len()
    }
}
