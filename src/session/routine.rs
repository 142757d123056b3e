//! What is done now and then: asking everybody how they are, judging who vanished, and what the
//! store's news ask for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use crate::domain::app::AppState;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;

use super::entry::Entry;
use super::hook::Chore;
use super::open::holding;
use super::{Inner, spread};

/// How often we look around.
const ROUND: Duration = Duration::from_millis(500);
/// How long the news of a change may come before the change itself: others' chores wait meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Sessions that are said again together.
const ASSERTS_MAX: usize = 64;

/// Looks around until the sessions have ended.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut collects = Collects::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(ROUND) => {
                inner.judge_vanished().await;
                inner.end_strays().await;
                collects.round(&inner);
                inner.work_off().await;
            }
            () = inner.known.news.notified() => inner.work_off().await,
            () = inner.stopped.cancelled() => return,
        }
    }
}

/// When each application is asked next, by the clock of attention.
#[derive(Default)]
struct Collects(BTreeMap<AppName, Duration>);

impl Collects {
    fn round(&mut self, inner: &Inner) {
        let now = inner.attention.now();
        let mut next = BTreeMap::new();
        for app in inner.table.apps() {
            let Some(interval) = inner.known.collect_interval(&app) else {
                continue;
            };
            // A fifth earlier or later, so that not all are asked at once.
            let fifth = interval / 5;
            let after = now + interval - fifth + spread(fifth * 2);
            let due = match self.0.get(&app) {
                // Who is new was asked when it came; a shorter interval holds at once.
                None => after,
                Some(due) if *due <= now => {
                    inner.ask_all(&app);
                    after
                }
                Some(due) => (*due).min(now + interval + fifth),
            };
            next.insert(app, due);
        }
        self.0 = next;
    }
}

impl Inner {
    async fn work_off(self: &Arc<Inner>) {
        let mut asserts = Vec::new();
        for chore in self.known.take() {
            match chore {
                Chore::Assert(entry) => asserts.push(entry),
                Chore::AssertAll { by_force } => {
                    let apps = self.table.apps();
                    let entries = apps.iter().flat_map(|app| self.table.of(app)).collect();
                    self.assert_all(entries, by_force).await;
                }
                Chore::Look(app, revision) => self.look(&app, revision).await,
                Chore::Ask(app, asker, question) => self.ask_for(&app, asker, &question),
            }
        }
        self.assert_all(asserts, false).await;
    }

    /// Says again that sessions are here, and asks: what was said may be lost as well.
    async fn assert_all(&self, entries: Vec<Arc<Entry>>, by_force: bool) {
        stream::iter(entries)
            .for_each_concurrent(ASSERTS_MAX, async |entry| {
                if self.assert_session(&entry, by_force).await {
                    self.ask_newcomer(&entry);
                }
            })
            .await;
    }

    /// As things stand at this revision or later.
    async fn look(&self, app: &AppName, since: Revision) {
        let entries = self.table.of(app);
        let judge = |state: &AppState| {
            let revision = state.head().revision;
            for entry in &entries {
                self.judge(entry, state.unit(entry.unit()), revision);
                entry.set_holds(revision, holding(state, entry.unit()));
            }
            for (name, unit) in state.units_after(None) {
                self.note_stray(app, name, unit.session());
            }
        };
        // If it cannot be read, what a session that is over sends is refused all the same.
        let read = self.aggregator.read(app, since, judge);
        let _ = tokio::time::timeout(LOOK_MAX, read).await;
    }
}
