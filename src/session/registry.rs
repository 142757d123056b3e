//! The sessions of this replica: the newest one of each unit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::domain::name::{AppName, UnitName};
use crate::domain::unit::presence::SessionId;

use super::entry::Entry;
use super::{ByUnit, lock};

/// Sessions by application and unit.
#[derive(Default)]
pub(super) struct Registry {
    by_app: Mutex<BTreeMap<AppName, ByUnit<Arc<Entry>>>>,
    /// Number of open sessions, including those that a newer session has replaced in the map.
    open: AtomicUsize,
}

/// A permit within the limit of open sessions; returned when dropped.
pub(super) struct Permit(Arc<super::Inner>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.table.open.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.sessions(-1);
    }
}

impl Registry {
    /// Returns a permit if the limit is not reached.
    pub(super) fn place(inner: &Arc<super::Inner>) -> Option<Permit> {
        let max = inner.options.sessions_max;
        let before = inner.table.open.fetch_add(1, Ordering::Relaxed);
        inner.metrics.sessions(1);
        let place = Permit(inner.clone());
        (before < max).then_some(place)
    }

    pub(super) fn len(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Sets the newest session of a unit and returns the one before it.
    pub(super) fn insert(&self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let mut by_app = lock(&self.by_app);
        let units = by_app.entry(entry.app.clone()).or_default();
        units.insert(entry.unit().clone(), entry)
    }

    /// Removes a session that has ended.
    pub(super) fn remove(&self, app: &AppName, unit: &UnitName, session: SessionId) {
        let mut by_app = lock(&self.by_app);
        let Some(units) = by_app.get_mut(app) else {
            return;
        };
        if units.get(unit).is_some_and(|entry| entry.session == session) {
            units.remove(unit);
        }
        if units.is_empty() {
            by_app.remove(app);
        }
    }

    pub(super) fn get(&self, app: &AppName, unit: &UnitName) -> Option<Arc<Entry>> {
        lock(&self.by_app).get(app)?.get(unit).cloned()
    }

    /// Returns whether this is the newest session of its unit here.
    pub(super) fn holds(&self, entry: &Entry) -> bool {
        self.get(&entry.app, entry.unit()).is_some_and(|held| held.session == entry.session)
    }

    /// Returns the sessions of an application here.
    pub(super) fn of(&self, app: &AppName) -> Vec<Arc<Entry>> {
        let by_app = lock(&self.by_app);
        by_app.get(app).into_iter().flat_map(|units| units.values().cloned()).collect()
    }

    /// Returns the number of sessions that an application has here.
    pub(super) fn count(&self, app: &AppName) -> usize {
        lock(&self.by_app).get(app).map_or(0, BTreeMap::len)
    }

    /// Returns the applications with a session here.
    pub(super) fn apps(&self) -> Vec<AppName> {
        lock(&self.by_app).keys().cloned().collect()
    }
}
