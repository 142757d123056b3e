//! All groups, and the lookup of those that a change concerns.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use super::Limits;
use super::error::WatchError;
use super::filter::{Filter, Scope};
use super::group::Group;
use crate::domain::name::AppName;

/// Groups by filter, and by scope, so that a change finds the groups that it concerns directly.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_filter: HashMap<Filter, (Arc<Group>, usize)>,
    all: Vec<Arc<Group>>,
    by_namespace: HashMap<Arc<str>, Vec<Arc<Group>>>,
    by_application: HashMap<AppName, Vec<Arc<Group>>>,
    /// Number of watchers.
    pub(super) watchers: usize,
    /// Number of applications in the indexes of all groups at their creation.
    pub(super) indexed: usize,
}

impl Groups {
    /// Returns the group of a filter, if it has a watcher.
    pub(super) fn find(&self, filter: &Filter) -> Option<Arc<Group>> {
        self.by_filter.get(filter).map(|(group, _)| group.clone())
    }

    /// Returns all groups.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.by_filter.values().map(|(group, _)| group)
    }

    /// Returns the groups whose scope contains an application.
    pub(super) fn concerned(&self, app: &AppName) -> impl Iterator<Item = &Arc<Group>> {
        let of_namespace = self.by_namespace.get(app.namespace());
        let of_application = self.by_application.get(app);
        let named = of_namespace.into_iter().chain(of_application).flatten();
        self.all.iter().chain(named)
    }

    /// Checks the limits for one more group of this scope, created by this peer. Every change is
    /// compared with all groups of its scopes within the commit.
    pub(super) fn check_quota_of(
        &self,
        scope: &Scope,
        founder: Option<IpAddr>,
        limits: &Limits,
    ) -> Result<(), WatchError> {
        let fits = |groups: &[Arc<Group>]| {
            let max = limits.filters_per_scope_max;
            if max <= groups.len() {
                return Err(WatchError::TooManyFiltersOfScope(max));
            }
            let max = limits.filters_per_peer_max;
            let of_peer = groups.iter().filter(|g| founder.is_some() && g.founder == founder);
            match max <= of_peer.count() {
                true => Err(WatchError::TooManyFiltersOfPeer(max)),
                false => Ok(()),
            }
        };
        match scope {
            Scope::All => fits(&self.all),
            Scope::Namespace(name) => self.by_namespace.get(name).map_or(Ok(()), |g| fits(g)),
            Scope::Applications(apps) => {
                apps.iter().filter_map(|app| self.by_application.get(app)).try_for_each(|g| fits(g))
            }
        }
    }

    /// Adds a watcher, and its group if it is the first.
    pub(super) fn join(&mut self, group: &Arc<Group>) {
        self.watchers += 1;
        if let Some((_, watchers)) = self.by_filter.get_mut(&group.filter) {
            *watchers += 1;
            return;
        }
        self.indexed += group.indexed;
        self.change(&group.filter.scope, |groups| groups.push(group.clone()));
        self.by_filter.insert(group.filter.clone(), (group.clone(), 1));
    }

    /// Removes a watcher, and its group if it was the last.
    pub(super) fn leave(&mut self, group: &Arc<Group>) {
        let Some((_, watchers)) = self.by_filter.get_mut(&group.filter) else {
            return;
        };
        self.watchers -= 1;
        *watchers -= 1;
        if *watchers != 0 {
            return;
        }
        self.by_filter.remove(&group.filter);
        self.indexed -= group.indexed;
        self.change(&group.filter.scope, |groups| {
            if let Some(at) = groups.iter().position(|g| Arc::ptr_eq(g, group)) {
                groups.swap_remove(at);
            }
        });
    }

    /// Changes the groups of a scope: of each application, if it names applications.
    fn change(&mut self, scope: &Scope, change: impl Fn(&mut Vec<Arc<Group>>)) {
        match scope {
            Scope::All => change(&mut self.all),
            Scope::Namespace(name) => change_of(&mut self.by_namespace, name, &change),
            Scope::Applications(apps) => {
                apps.iter().for_each(|app| change_of(&mut self.by_application, app, &change));
            }
        }
    }
}

/// Changes the groups of one name, and keeps no empty list.
fn change_of<K: Hash + Eq + Clone>(
    by_name: &mut HashMap<K, Vec<Arc<Group>>>,
    name: &K,
    change: impl Fn(&mut Vec<Arc<Group>>),
) {
    let groups = by_name.entry(name.clone()).or_default();
    change(groups);
    if groups.is_empty() {
        by_name.remove(name);
    }
}
