//! The revisions that answers of this process rely on before its reader has read them. Nothing else
//! shows that a failover has lost such a revision: no process may have read it.

use std::collections::BTreeMap;

use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::store::heads::Heads;

use super::entry::EntryId;

/// The revisions of one bucket.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(BTreeMap<AppName, Confirmed>);

/// A revision that a master has confirmed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confirmed {
    pub(super) revision: Revision,
    /// The epoch floor of the master.
    pub(super) epoch_floor: u64,
    /// The last entry of its log at that time. No other history has the same.
    pub(super) entry: EntryId,
}

impl Unread {
    /// Adds a revision, unless it has been read.
    pub(super) fn rely_on(&mut self, app: &AppName, confirmed: Confirmed, read: &Heads) {
        if read.head(app).revision < confirmed.revision {
            self.0.insert(app.clone(), confirmed);
        }
    }

    /// Removes the revision of an application that has been read at this one.
    pub(super) fn remove_read(&mut self, app: &AppName, revision: Revision) {
        if self.0.get(app).is_some_and(|unread| unread.revision <= revision) {
            self.0.remove(app);
        }
    }

    /// Removes what has been read since, and what the master with this floor does not have.
    pub(super) fn settle(&mut self, epoch_floor: u64, read: &Heads) {
        self.0.retain(|app, unread| {
            epoch_floor <= unread.epoch_floor && read.head(app).revision < unread.revision
        });
    }

    /// Returns the last entry that the log of the master with this floor must have, if former
    /// masters have confirmed anything.
    pub(super) fn last_before(&self, epoch_floor: u64) -> Option<EntryId> {
        let former = self.0.values().filter(|unread| unread.epoch_floor < epoch_floor);
        former.map(|unread| unread.entry).max()
    }

    /// Records that the master with this floor has everything.
    pub(super) fn confirm(&mut self, epoch_floor: u64) {
        for unread in self.0.values_mut() {
            unread.epoch_floor = unread.epoch_floor.max(epoch_floor);
        }
    }

    /// Returns the revisions that the master with this floor may lack.
    pub(super) fn before(&self, epoch_floor: u64) -> impl Iterator<Item = (&AppName, Revision)> {
        let former = self.0.iter().filter(move |(_, unread)| unread.epoch_floor < epoch_floor);
        former.map(|(app, unread)| (app, unread.revision))
    }
}
