//! Self-preservation: which sessions that ended without a goodbye are committed as ended, and when.
//!
//! If few units of an application disconnect, their workers died, and the replica commits that
//! after [`WINDOW`]. If a large share disconnects within that time, the network of this replica may
//! be cut off instead: self-preservation starts. The replica then waits until the session ttl has
//! passed since the first of them, so that the workers can connect to another replica. Then it
//! commits those that did not, and self-preservation is over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::domain::command::{Command, Request};
use crate::domain::name::AppName;
use crate::domain::unit::presence::SessionId;
use crate::sync::lock;

use super::entry::Entry;
use super::{Inner, is_decided};

/// Sessions of an application that end within this time after the first one count as lost together:
/// a network fault does not break all connections at the same moment.
const WINDOW: Duration = Duration::from_secs(1);

/// Lost sessions whose disconnection is not committed.
#[derive(Default)]
pub(super) struct SelfPreservation(Mutex<BTreeMap<AppName, Group>>);

/// The lost sessions of one application. Times are by the liveness clock.
struct Group {
    /// The end of the first one.
    since: Duration,
    /// Whether self-preservation is active.
    suspect: bool,
    gone: Vec<Gone>,
}

struct Gone {
    entry: Arc<Entry>,
    /// The end of the session.
    at: Duration,
    /// Whether its worker was silent. Otherwise its stream ended.
    silent: bool,
}

impl SelfPreservation {
    /// Returns whether self-preservation is active for an application.
    pub(super) fn is_suspect(&self, app: &AppName) -> bool {
        lock(&self.0).get(app).is_some_and(|group| group.suspect)
    }

    /// Returns the number of applications with active self-preservation.
    pub(super) fn suspects(&self) -> usize {
        lock(&self.0).values().filter(|group| group.suspect).count()
    }

    /// Returns whether the disconnection of a session is pending.
    pub(super) fn holds(&self, app: &AppName, session: SessionId) -> bool {
        let by_app = lock(&self.0);
        let group = by_app.get(app);
        group.is_some_and(|group| group.gone.iter().any(|gone| gone.entry.session == session))
    }

    fn add(&self, entry: &Arc<Entry>, at: Duration, silent: bool) {
        let mut by_app = lock(&self.0);
        let fresh = || Group { since: at, suspect: false, gone: Vec::new() };
        let group = by_app.entry(entry.app.clone()).or_insert_with(fresh);
        group.gone.push(Gone { entry: entry.clone(), at, silent });
    }

    /// Removes and returns the groups to disconnect now: after [`WINDOW`] without
    /// self-preservation, after `ttl` with it. A group starts self-preservation if it has more than
    /// `percent_max` of the sessions of its application: its own, and those that `here` counts.
    fn due(
        &self,
        now: Duration,
        ttl: Duration,
        percent_max: u32,
        here: impl Fn(&AppName) -> usize,
    ) -> BTreeMap<AppName, Group> {
        let is_due = |app: &AppName, group: &mut Group| {
            let waited = now.saturating_sub(group.since);
            if WINDOW <= waited && !group.suspect {
                let gone = group.gone.len();
                group.suspect = percent_max as usize * (gone + here(app)) < 100 * gone;
            }
            WINDOW <= waited && (!group.suspect || ttl <= waited)
        };
        lock(&self.0).extract_if(.., is_due).collect()
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
        for (app, Group { gone: group, .. }) in due {
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
