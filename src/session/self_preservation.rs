//! Self-preservation, for sessions that ended without a goodbye. A single one means that a worker
//! died. If a large share of an application's units disconnect at about the same time, this replica
//! may itself be cut off: it does not commit their disconnection before the session TTL has passed.
//! After that it always does, so this state ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::domain::command::{Command, Request};
use crate::domain::name::AppName;
use crate::domain::unit::presence::SessionId;
use crate::sync::lock;

use super::entry::Entry;
use super::{Inner, is_decided};

/// Sessions that end within this time after the first one count as lost together: a network fault
/// does not break all connections at the same moment.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// Lost sessions whose disconnection is not committed.
#[derive(Default)]
pub(super) struct SelfPreservation {
    by_app: Mutex<BTreeMap<AppName, Group>>,
}

/// The lost sessions of one application.
struct Group {
    since: Duration,
    suspect: bool,
    gone: Vec<Gone>,
}

struct Gone {
    entry: Arc<Entry>,
    at: Duration,
    silent: bool,
}

impl Gone {
    fn is(&self, session: SessionId) -> bool {
        self.entry.session == session
    }
}

impl SelfPreservation {
    /// Returns whether self-preservation is active for an application.
    pub(super) fn is_suspect(&self, app: &AppName) -> bool {
        lock(&self.by_app).get(app).is_some_and(|group| group.suspect)
    }

    /// Returns the number of applications with active self-preservation.
    pub(super) fn suspects(&self) -> usize {
        lock(&self.by_app).values().filter(|group| group.suspect).count()
    }

    /// Returns whether the disconnection of a session is pending.
    pub(super) fn holds(&self, app: &AppName, session: SessionId) -> bool {
        let by_app = lock(&self.by_app);
        by_app.get(app).is_some_and(|group| group.gone.iter().any(|gone| gone.is(session)))
    }

    fn add(&self, entry: &Arc<Entry>, at: Duration, silent: bool) {
        let mut by_app = lock(&self.by_app);
        let fresh = || Group { since: at, suspect: false, gone: Vec::new() };
        let group = by_app.entry(entry.app.clone()).or_insert_with(fresh);
        group.gone.push(Gone { entry: entry.clone(), at, silent });
    }

    /// Removes and returns the sessions to disconnect now: those of groups that waited and did not
    /// start self-preservation, and those of groups whose TTL has passed.
    fn due(
        &self,
        now: Duration,
        ttl: Duration,
        percent_max: u32,
        here: impl Fn(&AppName) -> usize,
    ) -> Vec<Gone> {
        let mut by_app = lock(&self.by_app);
        let mut due = Vec::new();
        by_app.retain(|app, group| {
            let waited = now.saturating_sub(group.since);
            if waited < LOOK_AROUND {
                return true;
            }
            if !group.suspect {
                let gone = group.gone.len();
                group.suspect = percent_max as usize * (gone + here(app)) < 100 * gone;
            }
            if group.suspect && waited < ttl {
                return true;
            }
            due.append(&mut group.gone);
            false
        });
        due
    }
}

impl Inner {
    /// Records a session that ended without a goodbye.
    pub(super) fn lose_sight(&self, entry: &Arc<Entry>, silent: bool) {
        self.vanished.add(entry, self.liveness_clock.now(), silent);
    }

    /// Commits the disconnection of lost sessions that are due.
    pub(super) async fn judge_disconnects(&self) {
        let (now, ttl) = (self.liveness_clock.now(), self.session_ttl());
        let percent_max = self.options.vanish_percent_max;
        let due = self.vanished.due(now, ttl, percent_max, |app| self.table.count(app));
        let mut by_app: BTreeMap<AppName, Vec<Gone>> = BTreeMap::new();
        for gone in due {
            by_app.entry(gone.entry.app.clone()).or_default().push(gone);
        }
        for (app, group) in by_app {
            let silent = |gone: &Gone| gone.silent || ttl <= now.saturating_sub(gone.at);
            let requests = group.iter().map(|gone| Request {
                id: None,
                command: disconnection(&gone.entry, ttl, silent(gone)),
            });
            let outcomes = self.apply_all(&app, &Arc::new(requests.collect())).await;
            for (gone, outcome) in group.into_iter().zip(outcomes) {
                if !is_decided(&outcome) {
                    // The store is unavailable. No other replica commits this disconnection.
                    self.vanished.add(&gone.entry, gone.at, gone.silent);
                }
            }
        }
        self.metrics.observer_suspects(self.vanished.suspects());
    }

    /// Commits the end of a session.
    pub(super) async fn disconnect(&self, entry: &Arc<Entry>, silent: bool) {
        let command = disconnection(entry, self.session_ttl(), silent);
        if !is_decided(&self.apply(&entry.app, command).await) {
            self.lose_sight(entry, silent);
        }
    }
}

fn disconnection(entry: &Entry, ttl: Duration, silent: bool) -> Command {
    let ttl = ttl.max(entry.ttl);
    let (unit, session) = (entry.unit().clone(), entry.session);
    Command::Disconnect { unit, session, ttl, silent }
}
