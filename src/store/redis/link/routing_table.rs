//! The routing table: which link serves which slots, and which tasks want to know about changes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};

use crate::sync::lock;

use super::error::LinkError;
use super::master::Master;
use super::single::{LinkObserver, MasterLink};
use super::slot::SLOTS;

/// The current routes. No task awaits anything while they are locked.
#[derive(Default)]
pub(super) struct RoutingTable {
    routes: Mutex<Routes>,
    /// A number that grows when a link or a route changes.
    pub(super) changes: watch::Sender<u64>,
    /// Requests a new look at the slots of a cluster.
    pub(super) remap: Notify,
}

#[derive(Default)]
struct Routes {
    routes: Vec<Route>,
    /// Why there may be no routes.
    failure: Option<LinkError>,
    followed: BTreeMap<u16, watch::Sender<Option<Master>>>,
}

/// A range of slots that one link serves.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) slots: RangeInclusive<u16>,
    pub(super) link: Arc<MasterLink>,
}

impl RoutingTable {
    /// Returns the link that serves a slot, or why there is none.
    pub(super) fn link(&self, slot: u16) -> Result<Arc<MasterLink>, LinkError> {
        let routes = lock(&self.routes);
        let reason = || format!("no master has slot {slot} of the cluster");
        routes.link(slot).cloned().ok_or_else(|| routes.reason(reason))
    }

    /// Returns all links, each once.
    pub(super) fn links(&self) -> Vec<Arc<MasterLink>> {
        let mut links: Vec<Arc<MasterLink>> = Vec::new();
        for route in &lock(&self.routes).routes {
            if !links.iter().any(|link| Arc::ptr_eq(link, &route.link)) {
                links.push(route.link.clone());
            }
        }
        links
    }

    /// Returns why slots are without a link, if any are.
    pub(super) fn gap(&self) -> Option<LinkError> {
        let routes = lock(&self.routes);
        let served: usize = routes.routes.iter().map(|route| route.slots.len()).sum();
        let missing = usize::from(SLOTS).saturating_sub(served);
        let reason = || format!("{missing} of {SLOTS} slots of the cluster have no master");
        (missing != 0).then(|| routes.reason(reason))
    }

    /// Replaces all routes.
    pub(super) fn set_routes(&self, new: Vec<Route>) {
        let mut routes = lock(&self.routes);
        routes.routes = new;
        routes.failure = None;
        drop(routes);
        self.publish();
    }

    /// Sets why there are no new routes. The old ones stay.
    pub(super) fn set_failure(&self, failure: LinkError) {
        lock(&self.routes).failure = Some(failure);
        self.publish();
    }

    /// Returns the master of a slot, with a notification of each change.
    pub(super) fn follow(&self, slot: u16) -> watch::Receiver<Option<Master>> {
        let mut routes = lock(&self.routes);
        let now = routes.master(slot);
        routes.followed.entry(slot).or_insert_with(|| watch::Sender::new(now)).subscribe()
    }

    /// Notifies the receivers of the slots whose master changed.
    fn publish(&self) {
        let routes = lock(&self.routes);
        for (slot, observer) in &routes.followed {
            let now = routes.master(*slot);
            observer.send_if_modified(|known| {
                let is_news = *known != now;
                *known = now;
                is_news
            });
        }
        // Still locked: a task that sees the new number also sees the routes that caused it.
        self.changes.send_modify(|number| *number += 1);
    }
}

impl LinkObserver for RoutingTable {
    fn changed(&self) {
        self.publish();
    }

    fn misrouted(&self) {
        self.remap.notify_one();
    }
}

impl Routes {
    fn link(&self, slot: u16) -> Option<&Arc<MasterLink>> {
        let route = self.routes.iter().find(|route| route.slots.contains(&slot))?;
        Some(&route.link)
    }

    /// Returns why there is no route.
    fn reason(&self, without_failure: impl FnOnce() -> String) -> LinkError {
        self.failure.clone().unwrap_or_else(|| LinkError::away(without_failure()))
    }

    fn master(&self, slot: u16) -> Option<Master> {
        self.link(slot)?.master()
    }
}
