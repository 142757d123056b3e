//! The group of all watchers with one filter: they share an index, its digest, and a notifier.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use super::cursors::Cursors;
use super::debounce::{Debounce, Pending};
use super::entry::Entry;
use super::error::ResumeError;
use super::filter::{Filter, Scope};
use super::index::{Index, Offset, SentState};
use super::notifier::Notifier;
use crate::domain::name::AppName;

/// The shared part of all watchers with one filter.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) filter: Filter,
    /// The address of the first watcher.
    pub(super) founder: Option<IpAddr>,
    /// Number of applications in scope at the start, at least the number that the filter names:
    /// these may appear later.
    pub(super) indexed: usize,
    state: Mutex<State>,
    /// Notified when there may be something to read.
    pub(super) notifier: Notifier,
}

#[derive(Debug)]
struct State {
    index: Index,
    debounce: Option<Debounce>,
}

/// The result of a read after an offset.
pub(super) enum Found {
    /// Updates in order; there may be more.
    SentState(VecDeque<(Offset, SentState)>),
    /// Nothing: the reader is current.
    Current(Current),
}

/// The state of a current reader.
pub(super) struct Current {
    /// Digest over the members.
    pub(super) digest: u64,
    /// Number of members.
    pub(super) member_count: usize,
    /// The cursors from which the reader can resume.
    pub(super) resume_at: Arc<Cursors>,
    /// The time of the next update that needs no change.
    pub(super) due: Option<Instant>,
}

impl Group {
    /// Creates a group from the entries and tombstones in scope, sorted by name.
    pub(super) fn new<'a>(
        filter: &Filter,
        founder: Option<IpAddr>,
        in_scope: impl Iterator<Item = &'a Arc<Entry>>,
        now: Instant,
    ) -> Group {
        let mut debounce = filter.stable_for.map(Debounce::new);
        let mut members = Vec::new();
        let mut indexed = 0;
        for entry in in_scope {
            indexed += 1;
            let settled = debounce.as_mut().is_none_or(|s| s.admit(entry, now));
            if settled && filter.shows_entry(entry) {
                members.push(entry.clone());
            }
        }
        let named = match &filter.scope {
            Scope::Applications(apps) => apps.len(),
            Scope::All | Scope::Namespace(_) => 1,
        };
        Group {
            filter: filter.clone(),
            founder,
            indexed: indexed.max(named),
            state: Mutex::new(State { index: Index::new(members), debounce }),
            notifier: Notifier::new(),
        }
    }

    /// Adds a change that is in scope.
    pub(super) fn changed(&self, entry: &Arc<Entry>, now: Instant) {
        if self.add(entry, now) {
            self.notifier.notify();
        }
    }

    /// Adds a change that is in scope. Returns whether the watchers must be notified.
    pub(super) fn add(&self, entry: &Arc<Entry>, now: Instant) -> bool {
        self.locked().changed(&self.filter, entry, now)
    }

    /// Prunes the tombstone of an application in scope.
    pub(super) fn forget(&self, app: &AppName) {
        self.locked().index.forget(app);
    }

    /// Returns the offset after all updates, and the cursors from which a reader can resume there.
    /// `cursors` are some up to which every change has reached the groups.
    pub(super) fn begin(&self, cursors: Arc<Cursors>) -> (Offset, Arc<Cursors>) {
        let state = self.locked();
        (state.index.end, state.resume_at(cursors))
    }

    /// Returns the offset of a reader that resumes from these cursors and receives the changes
    /// since then by [`missed`](Group::missed).
    pub(super) fn resume(&self, cursors: &Cursors, now: Instant) -> Offset {
        let mut state = self.locked();
        let settled = state.settle(&self.filter, now);
        let held = state.debounce.as_mut().map(|s| s.take_for(cursors));
        if state.send_pending(&self.filter, held.unwrap_or_default()) || settled {
            self.notifier.notify();
        }
        // The released changes follow the cursors, so `missed` sends them, or the reader knows
        // them.
        state.index.end
    }

    /// Returns the updates for a reader that has received everything up to `cursors` and is at
    /// `offset`, of entries in scope that changed since: the state that the filter shows, or a
    /// removal.
    pub(super) fn missed(
        &self,
        offset: Offset,
        cursors: &Cursors,
        entries: &[Arc<Entry>],
    ) -> VecDeque<(Offset, SentState)> {
        let state = self.locked();
        let sent = entries.iter().filter_map(|entry| match state.index.get(&entry.app) {
            // The newer change is debounced, and the reader knows the state that is shown.
            Some(shown) if cursors.cover(shown) => None,
            Some(shown) => Some(SentState::Upserted(shown.clone())),
            None => Some(SentState::Removed(entry.app.clone())),
        });
        sent.map(|sent| (offset, sent)).collect()
    }

    /// Returns the next members by name, for a snapshot that began at `begin`. Empty: the snapshot
    /// is complete.
    pub(super) fn members_after(
        &self,
        begin: Offset,
        name: Option<&AppName>,
        count: usize,
    ) -> Result<VecDeque<(Offset, SentState)>, ResumeError> {
        let state = self.locked();
        let members = state.index.members_after(begin, name, count)?;
        Ok(members.map(|e| (begin, SentState::Upserted(e))).collect())
    }

    /// Reads the updates after an offset. `cursors` are some up to which every change has reached
    /// the groups.
    pub(super) fn read(
        &self,
        after: Offset,
        cursors: Arc<Cursors>,
        count: usize,
        now: Instant,
    ) -> Result<Found, ResumeError> {
        let mut state = self.locked();
        if state.settle(&self.filter, now) {
            self.notifier.notify();
        }
        let sent: VecDeque<_> = state.index.after(after, count)?.collect();
        Ok(match sent.is_empty() {
            true => Found::Current(state.current(cursors)),
            false => Found::SentState(sent),
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
    /// Adds a change. Returns whether the watchers have something to read.
    fn changed(&mut self, filter: &Filter, entry: &Arc<Entry>, now: Instant) -> bool {
        let settled = self.settle(filter, now);
        let due = self.next_due();
        if self.debounce.as_mut().is_none_or(|debounce| debounce.admit(entry, now)) {
            return self.append(filter, entry) || settled;
        }
        // The alarms must be set again if this change is due before all others.
        settled || self.next_due() < due || due.is_none()
    }

    /// Adds the debounced changes whose level has held long enough.
    fn settle(&mut self, filter: &Filter, now: Instant) -> bool {
        let held = self.debounce.as_mut().map(|s| s.take_due(now));
        self.send_pending(filter, held.unwrap_or_default())
    }

    fn send_pending(&mut self, filter: &Filter, held: Vec<Pending>) -> bool {
        let append = |sent, held: Pending| self.append(filter, &held.entry) || sent;
        held.into_iter().fold(false, append)
    }

    /// Adds a state or removal. An application that was not shown and is not shown is skipped.
    fn append(&mut self, filter: &Filter, entry: &Arc<Entry>) -> bool {
        let shown = filter.shows_entry(entry);
        let concerns = shown || self.index.get(&entry.app).is_some();
        if concerns {
            self.index.append(entry, shown);
        }
        concerns
    }

    fn current(&self, cursors: Arc<Cursors>) -> Current {
        Current {
            digest: self.index.digest.value(),
            member_count: self.index.member_count(),
            resume_at: self.resume_at(cursors),
            due: self.next_due(),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.debounce.as_ref().and_then(Debounce::next_due)
    }

    /// Returns cursors before all debounced changes, so that a reader that resumes there receives
    /// them.
    fn resume_at(&self, cursors: Arc<Cursors>) -> Arc<Cursors> {
        match &self.debounce {
            Some(debounce) if debounce.holds() => Arc::new(debounce.before_held(&cursors)),
            _ => cursors,
        }
    }
}
