//! All watchers with one filter: they share an index, its digest, and what wakes them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use super::bell::Bell;
use super::cursors::Cursors;
use super::entry::Entry;
use super::error::Expired;
use super::filter::{Filter, Scope};
use super::index::{Index, Place, Told};
use super::settle::{Held, Settling};
use crate::domain::name::AppName;

/// What is shared by all watchers with one filter.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) filter: Filter,
    /// The peer whose watch was the first.
    pub(super) founder: Option<IpAddr>,
    /// Applications in scope when it was made, and at least those that the filter names: what is
    /// not there may come.
    pub(super) indexed: usize,
    state: Mutex<State>,
    /// Rung when there may be something to look at.
    pub(super) bell: Bell,
}

#[derive(Debug)]
struct State {
    index: Index,
    settling: Option<Settling>,
}

/// What a reader finds after its place.
pub(super) enum Found {
    /// This, in order; perhaps more after it.
    Told(VecDeque<(Place, Told)>),
    /// Nothing: it has been told everything.
    Current(Current),
}

/// What a reader who has been told everything knows.
pub(super) struct Current {
    /// Digest over the members.
    pub(super) digest: u64,
    /// How many members there are.
    pub(super) member_count: usize,
    /// Where to go on from.
    pub(super) resume_at: Arc<Cursors>,
    /// When there may be more without a change.
    pub(super) due: Option<Instant>,
}

impl Group {
    /// Of what is in scope, tombstones too, in order of names.
    pub(super) fn new<'a>(
        filter: Filter,
        founder: Option<IpAddr>,
        in_scope: impl Iterator<Item = &'a Arc<Entry>>,
        now: Instant,
    ) -> Group {
        let mut settling = filter.stable_for.map(Settling::new);
        let mut members = Vec::new();
        let mut indexed = 0;
        for entry in in_scope {
            indexed += 1;
            let settled = settling.as_mut().is_none_or(|s| s.admit_first(entry, now));
            if settled && filter.shows(&entry.head) {
                members.push(entry.clone());
            }
        }
        let named = match &filter.scope {
            Scope::Applications(apps) => apps.len(),
            Scope::All | Scope::Namespace(_) => 1,
        };
        Group {
            filter,
            founder,
            indexed: indexed.max(named),
            state: Mutex::new(State { index: Index::new(members), settling }),
            bell: Bell::new(),
        }
    }

    /// Takes in a change that is in scope.
    pub(super) fn changed(&self, entry: &Arc<Entry>, now: Instant) {
        if self.locked().changed(&self.filter, entry, now) {
            self.bell.ring();
        }
    }

    /// The tombstone of an application in scope is forgotten.
    pub(super) fn forget(&self, app: &AppName) {
        self.locked().index.forget(app);
    }

    /// The place after everything, and where to go on from for who has been told all before it.
    /// `cursors` are some up to which every change has reached the groups.
    pub(super) fn begin(&self, cursors: Arc<Cursors>) -> (Place, Arc<Cursors>) {
        let state = self.locked();
        (state.index.end(), state.resume_at(cursors))
    }

    /// The place of a reader who goes on from these cursors, and is told by
    /// [`missed`](Group::missed) what changed since.
    pub(super) fn resume(&self, cursors: &Cursors, now: Instant) -> Place {
        let mut state = self.locked();
        let settled = state.settle(&self.filter, now);
        let held = state.settling.as_mut().map(|s| s.take_for(cursors));
        if state.tell_held(&self.filter, held.unwrap_or_default()) || settled {
            self.bell.ring();
        }
        // What was let go changed after the cursors, or is what the reader knows.
        state.index.end()
    }

    /// What to tell a reader who was told everything up to `cursors` and is at `place`, of entries
    /// in scope that changed since: that it is as this filter shows it, or that it is not there.
    pub(super) fn missed(
        &self,
        place: Place,
        cursors: &Cursors,
        entries: &[Arc<Entry>],
    ) -> VecDeque<(Place, Told)> {
        let state = self.locked();
        let told = entries.iter().filter_map(|entry| match state.index.get(&entry.app) {
            // Its change is held back, and the reader knows what was shown before.
            Some(shown) if cursors.cover(shown) => None,
            Some(shown) => Some(Told::Upserted(shown.clone())),
            None => Some(Told::Removed(entry.app.clone())),
        });
        told.map(|told| (place, told)).collect()
    }

    /// The next members by name, for a snapshot that began at `begin`. None: that was all.
    pub(super) fn members_after(
        &self,
        begin: Place,
        name: Option<&AppName>,
        count: usize,
    ) -> Result<VecDeque<(Place, Told)>, Expired> {
        let state = self.locked();
        let members = state.index.members_after(begin, name, count)?;
        Ok(members.map(|e| (begin, Told::Upserted(e))).collect())
    }

    /// What is told after a place. `cursors` are some up to which every change has reached the
    /// groups.
    pub(super) fn read(
        &self,
        after: Place,
        cursors: Arc<Cursors>,
        count: usize,
        now: Instant,
    ) -> Result<Found, Expired> {
        let mut state = self.locked();
        if state.settle(&self.filter, now) {
            self.bell.ring();
        }
        let told: VecDeque<_> = state.index.after(after, count)?.collect();
        Ok(match told.is_empty() {
            true => Found::Current(state.current(cursors)),
            false => Found::Told(told),
        })
    }

    #[cfg(test)]
    pub(super) fn index_len(&self) -> usize {
        self.locked().index.len()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it is held")
    }
}

impl State {
    /// Takes in a change. Whether the watchers have something to look at.
    fn changed(&mut self, filter: &Filter, entry: &Arc<Entry>, now: Instant) -> bool {
        let settled = self.settle(filter, now);
        let due = self.next_due();
        let admitted = match &mut self.settling {
            Some(settling) => settling.admit(entry, now),
            None => true,
        };
        if admitted {
            return self.tell(filter, entry) || settled;
        }
        // Their timers must be set anew if this is due before all the rest.
        settled || self.next_due() < due || due.is_none()
    }

    /// Tells what has held long enough by now.
    fn settle(&mut self, filter: &Filter, now: Instant) -> bool {
        let held = self.settling.as_mut().map(|s| s.take_due(now));
        self.tell_held(filter, held.unwrap_or_default())
    }

    fn tell_held(&mut self, filter: &Filter, held: Vec<Held>) -> bool {
        let tell = |told, held: Held| self.tell(filter, &held.entry) || told;
        held.into_iter().fold(false, tell)
    }

    /// Nothing is told of what was not shown and still is not.
    fn tell(&mut self, filter: &Filter, entry: &Arc<Entry>) -> bool {
        let shown = filter.shows(&entry.head);
        let concerns = shown || self.index.get(&entry.app).is_some();
        if concerns {
            self.index.tell(entry, shown);
        }
        concerns
    }

    fn current(&self, cursors: Arc<Cursors>) -> Current {
        Current {
            digest: self.index.digest().value(),
            member_count: self.index.member_count(),
            resume_at: self.resume_at(cursors),
            due: self.next_due(),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.settling.as_ref().and_then(Settling::next_due)
    }

    /// Before what is held back, so that it is told to whoever goes on from there.
    fn resume_at(&self, cursors: Arc<Cursors>) -> Arc<Cursors> {
        match &self.settling {
            Some(settling) if settling.holds() => Arc::new(settling.before_held(&cursors)),
            _ => cursors,
        }
    }
}
