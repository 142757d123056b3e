//! The revisions that answers of this process rely on before its reader has read them. Nothing else
//! shows that a failover has lost such a revision: no process may have read it.

use std::collections::BTreeMap;

use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::store::heads::Heads;
use crate::store::redis::record::entry::EntryId;

/// The revisions of one bucket.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unread(BTreeMap<AppName, Confirmed>);

/// A revision that a master has confirmed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Confirmed {
    pub(crate) revision: Revision,
    /// The epoch floor of the master.
    pub(crate) epoch_floor: u64,
    /// The last entry of its log at that time. No other history has the same.
    pub(crate) entry: EntryId,
}

impl Unread {
    /// Adds a revision, unless it has been read.
    pub(crate) fn rely_on(&mut self, app: &AppName, confirmed: Confirmed, read: &Heads) {
        if read.revision(app) < confirmed.revision {
            self.0.insert(app.clone(), confirmed);
        }
    }

    /// Removes the revision of an application that has been read at this one.
    pub(crate) fn remove_read(&mut self, app: &AppName, revision: Revision) {
        if self.0.get(app).is_some_and(|unread| unread.revision <= revision) {
            self.0.remove(app);
        }
    }

    /// Removes what has been read since, and what the master with this floor does not have.
    pub(crate) fn settle(&mut self, epoch_floor: u64, read: &Heads) {
        self.0.retain(|app, unread| {
            epoch_floor <= unread.epoch_floor && read.revision(app) < unread.revision
        });
    }

    /// Returns the last entry that the log of the master with this floor must have, if former
    /// masters have confirmed anything.
    pub(crate) fn last_before(&self, epoch_floor: u64) -> Option<EntryId> {
        let former = self.0.values().filter(|unread| unread.epoch_floor < epoch_floor);
        former.map(|unread| unread.entry).max()
    }

    /// Records that the master with this floor has everything.
    pub(crate) fn confirm(&mut self, epoch_floor: u64) {
        for unread in self.0.values_mut() {
            unread.epoch_floor = unread.epoch_floor.max(epoch_floor);
        }
    }

    /// Returns the revisions that the master with this floor may lack.
    pub(crate) fn before(&self, epoch_floor: u64) -> impl Iterator<Item = (&AppName, Revision)> {
        let former = self.0.iter().filter(move |(_, unread)| unread.epoch_floor < epoch_floor);
        former.map(|(app, unread)| (app, unread.revision))
    }
}

#[cfg(test)]
mod tests {
    use crate::store::redis::log::view::{BucketView, View};
    use crate::store::{Bucket, Epoch};

    use super::*;

    /// The answer of a former master arrives after the reader has met the next one.
    #[test]
    fn no_answer_relies_on_a_former_master() {
        let (bucket, app) = (Bucket(0), AppName::new("test", "web").unwrap());
        let view = View::new(1, Epoch { store_id: 7, losses: 0 });
        view.meet_master(bucket, 0, Vec::new());
        let confirmed = |epoch_floor| {
            let entry = EntryId(9, 0);
            view.rely_on(bucket, &app, Confirmed { revision: Revision(1), epoch_floor, entry })
        };
        assert!(confirmed(0));
        assert_eq!(view.last_unread_entry(bucket, 0), None, "its master still serves");
        view.meet_master(bucket, 1, Vec::new());
        assert_eq!(view.last_unread_entry(bucket, 1), Some(EntryId(9, 0)));
        assert!(!confirmed(0));
        // The next master has it, and the one after that does not.
        view.confirm_unread(bucket, 1);
        assert_eq!(view.last_unread_entry(bucket, 1), None);
        view.meet_master(bucket, 2, Vec::new());
        assert_eq!(view.last_unread_entry(bucket, 2), Some(EntryId(9, 0)));
        view.replace(bucket, view.bucket(bucket));
        assert_eq!(view.last_unread_entry(bucket, 2), None);
    }

    /// The ids of entries are times, so those of the next master follow the id of a lost entry.
    #[tokio::test]
    async fn an_entry_of_the_next_master_is_no_proof_of_a_lost_one() {
        let bucket = Bucket(0);
        let view = View::new(1, Epoch { store_id: 7, losses: 0 });
        let reads = |id| BucketView { cursor: EntryId(id, 0), ..view.bucket(bucket) };
        view.meet_master(bucket, 0, Vec::new());
        view.replace(bucket, reads(5));
        view.until_notified(bucket, EntryId(5, 0)).await;
        assert_eq!(view.reader_floor(bucket), 0);
        // Entry 6 is lost with its master; the next one has entry 7.
        view.meet_master(bucket, 1 << 20, Vec::new());
        view.replace(bucket, reads(7));
        view.until_notified(bucket, EntryId(6, 0)).await;
        assert_eq!(view.reader_floor(bucket), 1 << 20, "entry 6 was never read");
    }
}
