//! Sessions that ended without a word. One is a worker that died. If a large share of an
//! application's units vanish at once, it may be us who cannot hear: judgement is held until their
//! time is up anyway, so that this state ends by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::aggregator::Error;
use crate::domain::command::{Command, Request};
use crate::domain::name::AppName;
use crate::domain::session::SessionId;

use super::entry::Entry;
use super::{Inner, lock};

/// How long after the first one others count as having vanished at once: what cuts us off does not
/// show on all connections in the same moment.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Vanished {
    by_app: Mutex<BTreeMap<AppName, Group>>,
}

/// Those of one application that are not judged yet.
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

impl Vanished {
    /// Whether judgement is held for an application.
    pub(super) fn is_suspect(&self, app: &AppName) -> bool {
        lock(&self.by_app).get(app).is_some_and(|group| group.suspect)
    }

    /// Applications for which judgement is held.
    pub(super) fn suspects(&self) -> usize {
        lock(&self.by_app).values().filter(|group| group.suspect).count()
    }

    /// Whether a session waits for its judgement.
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

    /// What is to be judged now: groups that had their look around and are no suspects, and those
    /// whose time is up.
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
    /// A session ended without a word.
    pub(super) fn vanish(&self, entry: &Arc<Entry>, silent: bool) {
        self.vanished.add(entry, self.attention.now(), silent);
    }

    /// Judges those that vanished, once it is clear that it is they who are gone.
    pub(super) async fn judge_vanished(&self) {
        let (now, ttl) = (self.attention.now(), self.session_ttl());
        let percent_max = self.options.vanish_percent_max;
        let due = self.vanished.due(now, ttl, percent_max, |app| self.table.count(app));
        let mut by_app: BTreeMap<AppName, Vec<Gone>> = BTreeMap::new();
        for gone in due {
            by_app.entry(gone.entry.app.clone()).or_default().push(gone);
        }
        for (app, group) in by_app {
            let silent = |gone: &Gone| gone.silent || ttl <= now.saturating_sub(gone.at);
            let requests = group.iter().map(|gone| disconnection(&gone.entry, ttl, silent(gone)));
            let outcomes = self.aggregator.apply_all(&app, Arc::new(requests.collect())).await;
            let outcomes = outcomes.unwrap_or_default().into_iter();
            let outcomes = outcomes.map(Some).chain(std::iter::repeat_with(|| None));
            for (gone, outcome) in group.into_iter().zip(outcomes) {
                if !matches!(outcome, Some(Ok(_) | Err(Error::Rejected(_)))) {
                    // The store is away. Nobody else will say it for us.
                    self.vanished.add(&gone.entry, gone.at, gone.silent);
                }
            }
        }
        self.metrics.observer_suspects(self.vanished.suspects());
    }

    /// Makes the end of a session known.
    pub(super) async fn disconnect(&self, entry: &Arc<Entry>, silent: bool) {
        let request = disconnection(entry, self.session_ttl(), silent);
        match self.aggregator.apply(&entry.app, request).await {
            Ok(_) | Err(Error::Rejected(_)) => {}
            Err(_) => self.vanish(entry, silent),
        }
    }
}

fn disconnection(entry: &Entry, ttl: Duration, silent: bool) -> Request {
    let ttl = ttl.max(entry.ttl);
    let (unit, session) = (entry.unit().clone(), entry.session);
    Request { id: None, command: Command::Disconnect { unit, session, ttl, silent } }
}
