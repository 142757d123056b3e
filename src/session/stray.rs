//! Sessions of ours that the store knows and we do not: their begin was committed although we were
//! told that it was not, or only after their end. Nobody hears those units, so nobody else would
//! ever say that they are gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::aggregator::Error;
use crate::domain::command::{Command, Request};
use crate::domain::name::{AppName, UnitName};
use crate::domain::session::SessionId;

use super::{Inner, lock};

/// Every session is one between its commit and our noting it: this is longer than that takes.
const OPENING_MAX: Duration = Duration::from_secs(5);

/// Those that may be strays: the session, and since when by the clock of attention.
#[derive(Default)]
pub(super) struct Strays(Mutex<BTreeMap<(AppName, UnitName), (SessionId, Duration)>>);

impl Inner {
    /// The store knows that a unit holds this session, or none.
    pub(super) fn note_stray(&self, app: &AppName, unit: &UnitName, session: Option<SessionId>) {
        let Some(session) = session.filter(|session| session.replica == self.replica) else {
            return;
        };
        if !self.is_here(app, unit, session) {
            let since = self.attention.now();
            let mut strays = lock(&self.known.strays.0);
            strays.insert((app.clone(), unit.clone()), (session, since));
        }
    }

    /// A session is known here from now on.
    pub(super) fn is_no_stray(&self, app: &AppName, unit: &UnitName, session: SessionId) {
        let mut strays = lock(&self.known.strays.0);
        let key = (app.clone(), unit.clone());
        if strays.get(&key).is_some_and(|(stray, _)| *stray == session) {
            strays.remove(&key);
        }
    }

    fn is_here(&self, app: &AppName, unit: &UnitName, session: SessionId) -> bool {
        self.table.get(app, unit).is_some_and(|entry| entry.session == session)
    }

    /// Ends those that are not here in spite of the time they had.
    pub(super) async fn end_strays(&self) {
        let now = self.attention.now();
        let mut ended: BTreeMap<AppName, Vec<(UnitName, SessionId)>> = BTreeMap::new();
        lock(&self.known.strays.0).retain(|(app, unit), (session, since)| {
            let is_due = OPENING_MAX <= now.saturating_sub(*since);
            let is_known =
                || self.is_here(app, unit, *session) || self.vanished.holds(app, *session);
            if is_due && !is_known() {
                ended.entry(app.clone()).or_default().push((unit.clone(), *session));
            }
            !is_due
        });
        let ttl = self.session_ttl();
        for (app, strays) in ended {
            let requests = strays.iter().cloned().map(|(unit, session)| {
                let command = Command::Disconnect { unit, session, ttl, silent: false };
                Request { id: None, command }
            });
            let ended = self.aggregator.apply_all(&app, Arc::new(requests.collect())).await;
            let all =
                |outcome: &Result<_, Error>| matches!(outcome, Ok(_) | Err(Error::Rejected(_)));
            if !ended.is_ok_and(|outcomes| outcomes.iter().all(all)) {
                strays.iter().for_each(|(unit, id)| self.note_stray(&app, unit, Some(*id)));
            }
        }
    }
}
