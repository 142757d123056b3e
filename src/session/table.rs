//! Who is connected here: the newest session of each unit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::domain::name::{AppName, UnitName};
use crate::domain::session::SessionId;

use super::entry::Entry;
use super::{ByUnit, lock};

/// See the module.
#[derive(Default)]
pub(super) struct Table {
    by_app: Mutex<BTreeMap<AppName, ByUnit<Arc<Entry>>>>,
    /// Those that are open, also if a newer one stands here.
    open: AtomicUsize,
}

/// A place among the open sessions; given back when dropped.
pub(super) struct Place(Arc<super::Inner>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.table.open.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.sessions(-1);
    }
}

impl Table {
    /// A place, if there is one.
    pub(super) fn place(inner: &Arc<super::Inner>) -> Option<Place> {
        let max = inner.options.sessions_max;
        let before = inner.table.open.fetch_add(1, Ordering::Relaxed);
        inner.metrics.sessions(1);
        let place = Place(inner.clone());
        (before < max).then_some(place)
    }

    pub(super) fn len(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The newest session of a unit here is this one; the one before it is answered.
    pub(super) fn insert(&self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let mut by_app = lock(&self.by_app);
        let units = by_app.entry(entry.app.clone()).or_default();
        units.insert(entry.unit().clone(), entry)
    }

    /// A session has ended.
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

    /// Whether this is the newest session of its unit here.
    pub(super) fn holds(&self, entry: &Entry) -> bool {
        self.get(&entry.app, entry.unit()).is_some_and(|held| held.session == entry.session)
    }

    /// The sessions of an application.
    pub(super) fn of(&self, app: &AppName) -> Vec<Arc<Entry>> {
        let by_app = lock(&self.by_app);
        by_app.get(app).into_iter().flat_map(|units| units.values().cloned()).collect()
    }

    /// How many sessions an application has here.
    pub(super) fn count(&self, app: &AppName) -> usize {
        lock(&self.by_app).get(app).map_or(0, BTreeMap::len)
    }

    /// The applications with a session here.
    pub(super) fn apps(&self) -> Vec<AppName> {
        lock(&self.by_app).keys().cloned().collect()
    }
}
