//! The sessions of this replica: the newest one of each unit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::domain::name::{AppName, UnitName};
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::SessionId;
use crate::sync::lock;

use super::entry::{ASKS_MAX, Asker, Entry};
use super::message::{OpenError, Question};

/// Sessions by application and unit.
#[derive(Default)]
pub(super) struct Registry {
    by_app: Mutex<BTreeMap<AppName, BTreeMap<UnitName, Arc<Entry>>>>,
    /// Sessions between the start of their commit and their place in `by_app`.
    opening: Mutex<BTreeMap<SessionId, Expected>>,
    /// Number of open sessions, including those that a newer session has replaced in the map.
    open: AtomicUsize,
}

/// A session that is not in the map yet, with the questions to its worker. Its commit shows the
/// unit as connected before the commit returns, so a question can arrive here.
struct Expected {
    app: AppName,
    questions: Vec<(Question, Asker)>,
}

impl Expected {
    /// Keeps a question. Returns whether there was room: the queue of the session must hold all of
    /// them beside that to every newcomer.
    fn keep(&mut self, question: Question, asker: Asker) -> bool {
        let has_room = self.questions.len() + 1 < ASKS_MAX;
        if has_room {
            self.questions.push((question, asker));
        }
        has_room
    }
}

/// The opening of a session, which fails when dropped.
pub(super) struct Opening {
    inner: Arc<super::Inner>,
    session: SessionId,
}

impl Opening {
    /// Announces a session, before the commit that opens it.
    pub(super) fn begin(inner: &Arc<super::Inner>, app: &AppName, session: SessionId) -> Opening {
        let expected = Expected { app: app.clone(), questions: Vec::new() };
        lock(&inner.table.opening).insert(session, expected);
        Opening { inner: inner.clone(), session }
    }

    /// Sets the session as the newest one of its unit, asks it what was asked meanwhile, and
    /// returns the session before it.
    pub(super) fn complete(self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let table = &self.inner.table;
        let older = table.insert(entry.clone());
        // After the insertion: a question finds the session in one of the two at any time.
        let expected = lock(&table.opening).remove(&self.session);
        for (question, asker) in expected.into_iter().flat_map(|expected| expected.questions) {
            entry.ask(question, Some(asker), self.inner.store.now());
        }
        older
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        lock(&self.inner.table.opening).remove(&self.session);
    }
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
    pub(super) fn place(inner: &Arc<super::Inner>) -> Result<Permit, OpenError> {
        let max = inner.options.sessions_max;
        let before = inner.table.open.fetch_add(1, Ordering::Relaxed);
        inner.metrics.sessions(1);
        let place = Permit(inner.clone());
        if before < max { Ok(place) } else { Err(OpenError::TooMany(max)) }
    }

    pub(super) fn len(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Asks the worker of a session here for a call. Returns whether it is asked.
    pub(super) fn ask(
        &self,
        (app, unit): (&AppName, &UnitName),
        session: SessionId,
        (question, asker): (Question, Asker),
        now: Timestamp,
    ) -> bool {
        if let Some(expected) = lock(&self.opening).get_mut(&session) {
            return expected.keep(question, asker);
        }
        let entry = self.get(app, unit);
        entry.is_some_and(|entry| entry.ask(question, Some(asker), now))
    }

    /// Keeps a question for each session of an application that is being opened. Each has a number
    /// of its own.
    pub(super) fn expect(
        &self,
        app: &AppName,
        asker: Asker,
        mut question: impl FnMut() -> Question,
    ) {
        for expected in lock(&self.opening).values_mut().filter(|expected| expected.app == *app) {
            expected.keep(question(), asker);
        }
    }

    /// Sets the newest session of a unit and returns the one before it.
    fn insert(&self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
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

    /// Returns whether this is the newest session of a unit here.
    pub(super) fn holds(&self, app: &AppName, unit: &UnitName, session: SessionId) -> bool {
        self.get(app, unit).is_some_and(|entry| entry.session == session)
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
