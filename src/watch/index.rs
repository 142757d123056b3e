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
use crate::store::Position;

/// A place in the order in which the readers of one filter are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place {
    /// Up to where the changes of the store were known when this was told.
    pub(super) position: Position,
    /// How many changes had been told by then. Gaps are changes that newer ones replaced.
    pub(super) number: u64,
}

/// What is told of one application.
#[derive(Debug, Clone)]
pub(super) enum Told {
    /// Its newest state.
    Upserted(Arc<Entry>),
    /// It is gone, or has left the filter.
    Removed(AppName),
}

/// The members of a filter, and what to tell whoever has not seen them yet.
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
    /// All that is in scope, tombstones too: `members` in order of names, `others` in any. Whoever
    /// goes on from before a change of one of the others is told that it is not there.
    pub(super) fn new(
        members: Vec<Arc<Entry>>,
        others: Vec<Arc<Entry>>,
        position: Position,
    ) -> Index {
        let place = |entry: &Arc<Entry>| Place { position: entry.position, number: 0 };
        let mut digest = Digest::default();
        members.iter().for_each(|entry| digest.add(entry.mark));
        // Collecting sorts and builds each tree at once: several times quicker than inserting.
        let upserted = members.iter().map(|e| (place(e), Told::Upserted(e.clone())));
        let removed = others.iter().map(|e| (place(e), Told::Removed(e.app.clone())));
        Index {
            log: upserted.chain(removed).collect(),
            places: members.iter().chain(&others).map(|e| (e.app.clone(), place(e))).collect(),
            members: members.into_iter().map(|e| (e.app.clone(), e)).collect(),
            digest,
            end: Place { position, number: 0 },
            forgotten: Place::default(),
        }
    }

    /// The changes of the store are known up to here.
    pub(super) fn advance(&mut self, position: Position) {
        self.end.position = self.end.position.max(position);
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
        self.end.number += 1;
        if let Some(older) = self.places.insert(entry.app.clone(), self.end) {
            self.log.remove(&older);
        }
        self.log.insert(self.end, told);
    }

    /// Whether the application is shown.
    pub(super) fn has(&self, app: &AppName) -> bool {
        self.members.contains_key(app)
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

    /// The place of a reader who was told of all changes up to a position.
    pub(super) fn place_of(&self, position: Position) -> Place {
        let told = Place { position, number: u64::MAX };
        let next = self.log.range((Excluded(told), Unbounded)).next();
        // As if it had taken the change before the next: what came in between is not its loss.
        let number = next.map_or(self.end.number, |(next, _)| next.number.saturating_sub(1));
        Place { position, number }
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

    /// How many applications stand in the index, those removed too.
    pub(super) fn len(&self) -> usize {
        self.log.len()
    }
}
