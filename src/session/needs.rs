//! Needs that are met: a worker whose status needs other applications is notified once all of them
//! have been well for a moment, so that it checks again.
//!
//! ```text
//!  store --change of a needed application--> Ringer: since when it stands as it does
//!        --change of a status with needs---> mark: the needs of the unit are read again
//!  task:  all needs of a record met for 1 s --> Outbound::NeedsMet, once each time
//! ```
//!
//! The state of a needed application is read from the hub, which has every application. A worker
//! is notified only of applications that it may read: a need with each level in turn would read the
//! level of any other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::domain::app::{AppState, Head};
use crate::domain::level::Level;
use crate::domain::met::{is_met, is_silent};
use crate::domain::name::{AppName, UnitName};
use crate::domain::need::{Need, Needs};
use crate::domain::revision::Revision;
use crate::domain::stated::index::RecordKey;
use crate::domain::transition::{Transition, Write};
use crate::domain::unit::presence::SessionId;
use crate::sync::lock;
use crate::watch::Hub;

use super::Inner;
use super::entry::Entry;

/// How long needs must be met: an application that is well for a moment releases no worker.
const MET_FOR: Duration = Duration::from_secs(1);

/// The longest wait for a state that the store has announced; the task tries again after it.
const READ_MAX: Duration = Duration::from_secs(1);

/// Pause after a read that failed.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// States that are read at once.
const READS_MAX: usize = 64;

/// The sessions that wait for other applications.
pub(super) struct Ringer {
    hub: Arc<Hub>,
    state: Mutex<State>,
    /// Number of needed applications, so that other changes take no lock.
    needed: AtomicUsize,
    news: Notify,
}

#[derive(Default)]
struct State {
    needed: BTreeMap<AppName, Needed>,
    waiting: BTreeMap<SessionId, Waiter>,
    /// Sessions whose needs must be read again, at this revision or later.
    marks: BTreeMap<SessionId, (Arc<Entry>, Revision)>,
    /// Sessions that must be judged again.
    dirty: BTreeSet<SessionId>,
    /// When sessions must be judged although nothing changes.
    due: BTreeSet<(Instant, SessionId)>,
}

/// An application that sessions wait for.
struct Needed {
    judged: Option<Judged>,
    /// Since when it stands like this, or since when it is needed.
    since: Instant,
    sessions: BTreeSet<SessionId>,
}

/// The part of an application that decides whether a need is met.
type Judged = (Level, bool);

/// A session whose unit has needs.
struct Waiter {
    entry: Arc<Entry>,
    needs: BTreeMap<RecordKey, Needs>,
    /// The records whose worker was notified, with the time since which the needs were met.
    rung: BTreeMap<RecordKey, Instant>,
    due: Option<Instant>,
}

fn judged_by(head: &Head) -> Option<Judged> {
    (!head.deleted).then(|| (head.summary.level, is_silent(head)))
}

impl Ringer {
    pub(super) fn new(hub: Arc<Hub>) -> Ringer {
        let (state, needed) = (Mutex::default(), AtomicUsize::new(0));
        Ringer { hub, state, needed, news: Notify::new() }
    }

    /// Notes a change of an application that sessions may wait for.
    pub(super) fn changed(&self, app: &AppName, head: &Head) {
        if self.needed.load(Ordering::Acquire) == 0 {
            return;
        }
        let state = &mut *self.locked();
        let Some(needed) = state.needed.get_mut(app) else { return };
        let judged = judged_by(head);
        if needed.judged != judged {
            (needed.judged, needed.since) = (judged, Instant::now());
            state.dirty.extend(&needed.sessions);
            self.news.notify_one();
        }
    }

    /// Causes the needs of a unit to be read again, at this revision or later.
    pub(super) fn mark(&self, entry: &Arc<Entry>, revision: Revision) {
        self.locked().marks.insert(entry.session, (entry.clone(), revision));
        self.news.notify_one();
    }

    /// Like [`mark`](Ringer::mark), after a read that failed: an immediate retry would fail again.
    /// A newer mark stays.
    fn mark_again(&self, entry: &Arc<Entry>, revision: Revision) {
        self.locked().marks.entry(entry.session).or_insert_with(|| (entry.clone(), revision));
    }

    /// Returns whether a session waits for other applications.
    fn waits(&self, session: SessionId) -> bool {
        let state = self.locked();
        state.waiting.contains_key(&session) || state.marks.contains_key(&session)
    }

    /// Forgets a session that has ended.
    pub(super) fn forget(&self, session: SessionId) {
        let state = &mut *self.locked();
        state.marks.remove(&session);
        state.dirty.remove(&session);
        state.set_needs(session, None, &self.hub);
        self.needed.store(state.needed.len(), Ordering::Release);
    }

    /// Takes over the needs of a unit.
    fn set_needs(&self, entry: &Arc<Entry>, needs: BTreeMap<RecordKey, Needs>) {
        let state = &mut *self.locked();
        let session = entry.session;
        let needs = (!needs.is_empty()).then_some(needs);
        state.set_needs(session, needs.map(|needs| (entry.clone(), needs)), &self.hub);
        state.dirty.insert(session);
        self.needed.store(state.needed.len(), Ordering::Release);
    }

    /// Notifies the workers whose needs are met, of the sessions that must be judged.
    fn ring(&self) {
        let now = Instant::now();
        let state = &mut *self.locked();
        let mut judged = std::mem::take(&mut state.dirty);
        judged.extend(state.due.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id));
        for session in judged {
            state.judge(session, now, &self.hub);
        }
    }

    /// Returns whether nothing is kept of any session.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let State { needed, waiting, marks, dirty: _, due } = &*self.locked();
        needed.is_empty() && waiting.is_empty() && marks.is_empty() && due.is_empty()
    }

    /// Returns when there is something to do although nothing changes.
    fn next_due(&self) -> Option<Instant> {
        let state = self.locked();
        let retry = (!state.marks.is_empty()).then(|| Instant::now() + RETRY_AFTER);
        state.due.first().map(|(at, _)| *at).into_iter().chain(retry).min()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn set_needs(
        &mut self,
        session: SessionId,
        new: Option<(Arc<Entry>, BTreeMap<RecordKey, Needs>)>,
        hub: &Hub,
    ) {
        let old = self.waiting.remove(&session);
        if let Some(due) = old.as_ref().and_then(|old| old.due) {
            self.due.remove(&(due, session));
        }
        if let Some((entry, needs)) = new {
            for app in apps(&needs) {
                let needed = self.needed.entry(app.clone()).or_insert_with(|| Needed {
                    judged: hub.get(app).and_then(|entry| judged_by(&entry.head())),
                    since: Instant::now(),
                    sessions: BTreeSet::new(),
                });
                needed.sessions.insert(session);
            }
            // Other needs of the same record are a new reason to notify.
            let mut rung = old.as_ref().map(|old| old.rung.clone()).unwrap_or_default();
            let before = |source: &RecordKey| old.as_ref().and_then(|old| old.needs.get(source));
            rung.retain(|source, _| {
                needs.get(source).is_some_and(|needs| before(source) == Some(needs))
            });
            let waiting = Waiter { entry, needs, rung, due: None };
            self.waiting.insert(session, waiting);
        }
        let kept = self.waiting.get(&session);
        let is_kept = |app: &AppName| kept.is_some_and(|kept| apps(&kept.needs).any(|a| a == app));
        for app in old.iter().flat_map(|old| apps(&old.needs)).filter(|app| !is_kept(app)) {
            if let Some(needed) = self.needed.get_mut(app) {
                needed.sessions.remove(&session);
                if needed.sessions.is_empty() {
                    self.needed.remove(app);
                }
            }
        }
    }

    /// Notifies the worker of a session of the records whose needs are met for long enough.
    fn judge(&mut self, session: SessionId, now: Instant, hub: &Hub) {
        let Some(waiting) = self.waiting.get_mut(&session) else { return };
        if let Some(due) = waiting.due.take() {
            self.due.remove(&(due, session));
        }
        for (source, needs) in &waiting.needs {
            let Some(since) = met_since(needs, &waiting.entry, &self.needed, hub) else {
                waiting.rung.remove(source);
                continue;
            };
            let is_new = waiting.rung.get(source) != Some(&since);
            if is_new && since + MET_FOR <= now {
                waiting.rung.insert(source.clone(), since);
                waiting.entry.update(|updates| updates.rings.insert(source.clone()));
            } else if is_new {
                let at = since + MET_FOR;
                waiting.due = Some(waiting.due.map_or(at, |due| due.min(at)));
            }
        }
        self.due.extend(waiting.due.map(|due| (due, session)));
    }
}

/// Returns since when all needs of a record are met, as far as its worker may read.
fn met_since(
    needs: &Needs,
    entry: &Entry,
    needed: &BTreeMap<AppName, Needed>,
    hub: &Hub,
) -> Option<Instant> {
    let since = needs.iter().map(|need| {
        let Need::Application(app, levels) = need else { return None };
        let known = hub.get(app).filter(|_| (entry.may_read)(app))?;
        is_met(Some(&known.head()), levels).then(|| needed.get(app).map(|needed| needed.since))?
    });
    since.collect::<Option<Vec<Instant>>>()?.into_iter().max()
}

/// Returns the applications of needs.
fn apps(needs: &BTreeMap<RecordKey, Needs>) -> impl Iterator<Item = &AppName> {
    needs.values().flat_map(Needs::iter).filter_map(Need::app)
}

/// Returns the needs of a unit, of the records that state them.
fn needs_of(state: &AppState, unit: &UnitName) -> BTreeMap<RecordKey, Needs> {
    let stating = state.needs().stating_of(unit);
    stating.map(|(source, needs)| (source.clone(), needs.clone())).collect()
}

impl Inner {
    /// Marks the sessions whose needs a transition may change.
    pub(super) fn note_needs(&self, app: &AppName, revision: Revision, transition: &Transition) {
        for write in &transition.writes {
            let (unit, has_needs) = match write {
                Write::Status(key, status) => {
                    (&key.unit, status.as_ref().is_some_and(|s| !s.report.needs().is_empty()))
                }
                Write::Fault(key, fault) => {
                    (&key.unit, fault.as_ref().is_some_and(|f| !f.needs.is_empty()))
                }
                _ => continue,
            };
            if !has_needs && self.ringer.needed.load(Ordering::Acquire) == 0 {
                continue;
            }
            let Some(entry) = self.table.get(app, unit) else { continue };
            if has_needs || self.ringer.waits(entry.session) {
                self.ringer.mark(&entry, revision);
            }
        }
    }

    /// Reads the needs of marked sessions again, several at once: a read may wait for the store.
    async fn read_marked(&self) {
        let marks = std::mem::take(&mut self.ringer.locked().marks);
        stream::iter(marks.into_values())
            .for_each_concurrent(READS_MAX, async |(entry, revision)| {
                self.read_needs(&entry, revision).await;
            })
            .await;
    }

    /// Reads the needs of the unit of a session, at this revision or later.
    async fn read_needs(&self, entry: &Arc<Entry>, revision: Revision) {
        let is_open = || self.table.holds(&entry.app, entry.unit(), entry.session);
        if !is_open() {
            return;
        }
        let read = |state: &AppState| needs_of(state, entry.unit());
        let read = self.aggregator.read(&entry.app, revision, read);
        match tokio::time::timeout(READ_MAX, read).await {
            Ok(Ok(needs)) => self.ringer.set_needs(entry, needs),
            Ok(Err(_)) | Err(_) => self.ringer.mark_again(entry, revision),
        }
        // The session may have ended meanwhile, and was forgotten before.
        if !is_open() {
            self.ringer.forget(entry.session);
        }
    }
}

/// Notifies workers until the sessions have closed.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        let due = inner.ringer.next_due();
        let due = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = inner.ringer.news.notified() => {}
            () = due => {}
            () = inner.stopped.cancelled() => return,
        }
        if inner.stopped.run_until_cancelled(inner.read_marked()).await.is_none() {
            return;
        }
        inner.ringer.ring();
    }
}
