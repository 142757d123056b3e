//! Periodic work: questions to all workers, evaluation of lost sessions, and the chores that
//! changes in the store cause.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::domain::app::AppState;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;

use super::entry::Entry;
use super::handshake::holding;
use super::observer::Chore;
use super::{Inner, spread};

/// Interval of the periodic work.
const ROUND: Duration = Duration::from_millis(500);
/// The longest wait for a change that the store has reported. Other chores wait meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Sessions that are asserted concurrently.
const ASSERTS_MAX: usize = 64;

/// Does the periodic work until the sessions have closed.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut collects = Collects::default();
    // One timer for all rounds: frequent chores must not postpone a round.
    let mut rounds = interval_at(Instant::now() + ROUND, ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = rounds.tick() => {
                inner.judge_disconnects().await;
                inner.close_orphans().await;
                collects.round(&inner);
                inner.work_off().await;
            }
            () = inner.known.news.notified() => inner.work_off().await,
            () = inner.stopped.cancelled() => return,
        }
    }
}

/// The time of the next question to each application, by the liveness clock.
#[derive(Default)]
struct Collects(BTreeMap<AppName, Duration>);

impl Collects {
    fn round(&mut self, inner: &Inner) {
        let now = inner.liveness_clock.now();
        let mut next = BTreeMap::new();
        for app in inner.table.apps() {
            let Some(interval) = inner.known.collect_interval(&app) else {
                continue;
            };
            // A fifth earlier or later, so that applications are not asked at the same moment.
            let fifth = interval / 5;
            let after = now + interval - fifth + spread(fifth * 2);
            let due = match self.0.get(&app) {
                // A new session is asked when it opens. A shorter interval applies immediately.
                None => after,
                Some(due) if *due <= now => {
                    inner.table.of(&app).iter().for_each(|entry| inner.ask_newcomer(entry));
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
                Chore::AssertAll => {
                    let apps = self.table.apps();
                    let entries = apps.iter().flat_map(|app| self.table.of(app)).collect();
                    self.assert_all(entries).await;
                }
                Chore::Look(app, revision) => self.look(&app, revision).await,
                Chore::Ask(app, asker, question) => self.ask_for(&app, asker, &question),
            }
        }
        self.assert_all(asserts).await;
    }

    /// Asserts sessions and asks their workers, because the store may also have lost reports.
    async fn assert_all(&self, entries: Vec<Arc<Entry>>) {
        stream::iter(entries)
            .for_each_concurrent(ASSERTS_MAX, async |entry| {
                if self.assert_session(&entry).await {
                    self.ask_newcomer(&entry);
                }
            })
            .await;
    }

    /// Compares the sessions of an application with its state at this revision or later.
    async fn look(&self, app: &AppName, since: Revision) {
        let entries = self.table.of(app);
        let judge = |state: &AppState| {
            let revision = state.head().revision;
            for entry in &entries {
                self.judge(entry, state.unit(entry.unit()), revision);
                let holding = holding(state, entry.unit());
                entry.update(|updates| updates.holds.set(revision, holding));
                if !state.needs().is_empty() {
                    self.ringer.mark(entry, revision);
                }
            }
            for (name, unit) in state.units_after(None) {
                self.note_orphan(app, name, unit.session());
            }
        };
        // If the read fails, commands of a session that is over are refused nevertheless.
        let read = self.aggregator.read(app, since, judge);
        let _ = tokio::time::timeout(LOOK_MAX, read).await;
    }
}
