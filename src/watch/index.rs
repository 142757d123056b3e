//! What the readers of one filter are told: each application once, at the place of its last change.
//!
//! Reading on from a place gives the newest state of whatever changed since. A newer change takes
//! its application away from the older place, so the index is bounded by applications, never by
//! changes.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use super::digest::Digest;
use super::entry::Entry;
use super::error::Expired;
use crate::domain::name::AppName;

/// A place in the order in which the readers of one filter are told: how many changes had been told
/// by then. This order is the index's own, whatever orders the store has. Gaps are changes that
/// newer ones replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place(pub(super) u64);

/// What is told of one application.
#[derive(Debug, Clone)]
pub(super) enum Told {
    /// Its newest state.
    Upserted(Arc<Entry>),
    /// It is gone, or has left the filter.
    Removed(AppName),
}

/// The members of a filter, and what was told of it since somebody watches.
#[derive(Debug, Default)]
pub(super) struct Index {
    members: BTreeMap<AppName, Arc<Entry>>,
    log: BTreeMap<Place, Told>,
    /// Where in the log each application stands.
    places: BTreeMap<AppName, Place>,
    digest: Digest,
    end: Place,
    /// The last place at which a removal stood that is no longer told.
    forgotten: Place,
}

impl Index {
    /// With these members, in order of names. Nothing was told yet.
    pub(super) fn new(members: Vec<Arc<Entry>>) -> Index {
        let mut digest = Digest::default();
        members.iter().for_each(|entry| digest.add(entry.mark));
        // Collecting builds the tree at once: several times quicker than inserting.
        let members = members.into_iter().map(|e| (e.app.clone(), e)).collect();
        Index { members, digest, ..Index::default() }
    }

    /// Tells the newest state of an application, or that it is not there.
    pub(super) fn tell(&mut self, entry: &Arc<Entry>, shown: bool) {
        let before = match shown {
            true => self.members.insert(entry.app.clone(), entry.clone()),
            false => self.members.remove(&entry.app),
        };
        if let Some(before) = before {
            self.digest.remove(before.mark);
        }
        let told = if shown {
            self.digest.add(entry.mark);
            Told::Upserted(entry.clone())
        } else {
            Told::Removed(entry.app.clone())
        };
        self.end.0 += 1;
        if let Some(older) = self.places.insert(entry.app.clone(), self.end) {
            self.log.remove(&older);
        }
        self.log.insert(self.end, told);
    }

    /// The application as it is shown, if it is.
    pub(super) fn get(&self, app: &AppName) -> Option<&Arc<Entry>> {
        self.members.get(app)
    }

    /// The tombstone of an application is forgotten: its removal is told no longer.
    pub(super) fn forget(&mut self, app: &AppName) {
        if let Some(place) = self.places.remove(app) {
            self.log.remove(&place);
            self.forgotten = self.forgotten.max(place);
        }
    }

    /// Up to `count` things told after a place, in order.
    pub(super) fn after(
        &self,
        place: Place,
        count: usize,
    ) -> Result<impl Iterator<Item = (Place, Told)>, Expired> {
        self.check(place)?;
        let later = self.log.range((Excluded(place), Unbounded)).take(count);
        Ok(later.map(|(place, told)| (*place, told.clone())))
    }

    /// Up to `count` members by name, for a reader whose snapshot began at `begin`.
    pub(super) fn members_after(
        &self,
        begin: Place,
        name: Option<&AppName>,
        count: usize,
    ) -> Result<impl Iterator<Item = Arc<Entry>>, Expired> {
        self.check(begin)?;
        let after = name.map_or(Unbounded, Excluded);
        let members = self.members.range::<AppName, _>((after, Unbounded));
        Ok(members.take(count).map(|(_, entry)| entry.clone()))
    }

    /// Who has taken nothing after `place` must have missed no removal.
    fn check(&self, place: Place) -> Result<(), Expired> {
        match place < self.forgotten {
            true => Err(Expired),
            false => Ok(()),
        }
    }

    /// The place after everything.
    pub(super) fn end(&self) -> Place {
        self.end
    }

    /// Digest over the members.
    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// How many members there are.
    pub(super) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// How many applications it was told of, those removed too.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.log.len()
    }
}
