//! The start of a watch: its token is checked, and the group of its filter found or indexed.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::Instant;

use super::error::WatchError;
use super::filter::{Filter, Scope};
use super::group::Group;
use super::hub::{Hub, State};
use super::resume::Verdict;
use super::token::Token;
use super::watcher::{Seat, Start, Watcher};

impl Hub {
    /// Watches with a filter. Must be called within a runtime.
    pub fn watch(self: &Arc<Self>, filter: Filter, start: Start) -> Result<Watcher, WatchError> {
        self.watch_from(None, filter, start)
    }

    /// Watches for a reader at this address.
    pub fn watch_from(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
        filter: Filter,
        start: Start,
    ) -> Result<Watcher, WatchError> {
        let now = Instant::now();
        // Tokens of earlier versions have the fingerprint of the filter before rounding.
        let asked = filter.fingerprint();
        let filter = filter.of_group();
        let fingerprint = filter.fingerprint();
        let mut state = self.locked();
        if let Start::Resume(token) = &start {
            self.admit(token, [asked, fingerprint])?;
        }
        let max = self.limits.watchers_max;
        if max <= state.groups.watchers {
            return Err(WatchError::TooManyWatchers(max));
        }
        let group = match state.groups.find(&filter) {
            Some(group) => group,
            None => Arc::new(self.new_group(&state, filter, peer, now)?),
        };
        state.groups.join(&group);
        let known = self.cursors();
        drop(state);
        let hub = self.clone();
        Ok(Watcher::new(Seat { hub, group, fingerprint }, start, known, now))
    }

    /// Checks whether a reader can resume here, now or after a wait, with one of these filters.
    fn admit(&self, token: &Token, fingerprints: [u64; 2]) -> Result<(), WatchError> {
        match self.judge(token) {
            Verdict::Refuse(why) => Err(why.into()),
            _ if fingerprints.contains(&token.filter) => Ok(()),
            Verdict::Continue | Verdict::Wait => Err(WatchError::OtherFilters),
        }
    }

    /// Creates a group. The caller holds the hub's lock while the scope is indexed: milliseconds
    /// for 10,000 applications.
    fn new_group(
        &self,
        state: &State,
        filter: Filter,
        peer: Option<IpAddr>,
        now: Instant,
    ) -> Result<Group, WatchError> {
        state.groups.check_quota_of(&filter.scope, peer, &self.limits)?;
        let group = match &filter.scope {
            Scope::All => Group::new(&filter, peer, state.range(None, None), now),
            Scope::Namespace(name) => Group::new(&filter, peer, state.range(Some(name), None), now),
            Scope::Applications(apps) => {
                let entries = apps.iter().filter_map(|app| state.entries.get(app));
                Group::new(&filter, peer, entries, now)
            }
        };
        let max = self.limits.indexed_max;
        if max < state.groups.indexed + group.indexed {
            return Err(WatchError::TooManyFilters(max));
        }
        Ok(group)
    }
}
