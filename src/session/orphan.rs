//! Orphaned sessions: the store says that this replica holds them, but it does not, because the
//! opening commit was reported as failed or landed after the session ended. No replica listens to
//! these units, so no other replica would report them as disconnected.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::domain::command::{Command, Request};
use crate::domain::name::{AppName, UnitName};
use crate::domain::unit::presence::SessionId;
use crate::sync::lock;

use super::{Inner, is_decided};

/// Every session looks orphaned between its commit and its entry in the table. This limit is
/// longer.
const OPENING_MAX: Duration = Duration::from_secs(5);

/// Sessions that may be orphaned, each with the time of detection by the liveness clock.
#[derive(Default)]
pub(super) struct Orphans(Mutex<BTreeMap<(AppName, UnitName), (SessionId, Duration)>>);

impl Inner {
    /// Records a session that the store assigns to this replica and that is not in the table.
    pub(super) fn note_orphan(&self, app: &AppName, unit: &UnitName, session: Option<SessionId>) {
        let Some(session) = session.filter(|session| session.replica == self.replica) else {
            return;
        };
        if !self.table.holds(app, unit, session) {
            let since = self.liveness_clock.now();
            let mut orphans = lock(&self.known.orphans.0);
            orphans.insert((app.clone(), unit.clone()), (session, since));
        }
    }

    /// Removes a session that is now in the table.
    pub(super) fn forget_orphan(&self, app: &AppName, unit: &UnitName, session: SessionId) {
        let mut orphans = lock(&self.known.orphans.0);
        let key = (app.clone(), unit.clone());
        if orphans.get(&key).is_some_and(|(stray, _)| *stray == session) {
            orphans.remove(&key);
        }
    }

    /// Disconnects the sessions that are still not in the table after the limit.
    pub(super) async fn close_orphans(&self) {
        let now = self.liveness_clock.now();
        let mut ended: BTreeMap<AppName, Vec<(UnitName, SessionId)>> = BTreeMap::new();
        lock(&self.known.orphans.0).retain(|(app, unit), (session, since)| {
            let is_due = OPENING_MAX <= now.saturating_sub(*since);
            let is_known =
                || self.table.holds(app, unit, *session) || self.vanished.holds(app, *session);
            if is_due && !is_known() {
                ended.entry(app.clone()).or_default().push((unit.clone(), *session));
            }
            !is_due
        });
        let ttl = self.session_ttl();
        for (app, orphans) in ended {
            let requests = orphans.iter().cloned().map(|(unit, session)| {
                let command = Command::Disconnect { unit, session, ttl, silent: false };
                Request { id: None, command }
            });
            let ended = self.apply_all(&app, &Arc::new(requests.collect())).await;
            if !ended.iter().all(is_decided) {
                orphans.iter().for_each(|(unit, id)| self.note_orphan(&app, unit, Some(*id)));
            }
        }
    }
}
