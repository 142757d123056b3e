//! Questions to workers for their statuses: directly for sessions here, by broadcast for sessions
//! on other replicas.
//!
//! Concurrent calls with the same question share one answer, because a worker is not asked again
//! while a question is open.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::unconstrained;

use crate::aggregator;
use crate::domain::app::AppState;
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::revision::Revision;
use crate::domain::unit::presence::SessionId;
use crate::store::{Broadcast, BroadcastKind};
use crate::sync::lock;

use super::entry::{Asker, Entry, QUESTION_TTL};
use super::message::Question;
use super::{Inner, Sessions};

/// Answers for other replicas are gathered for this long, so that 1,000 answers cost few
/// broadcasts.
const GATHER: Duration = Duration::from_millis(5);

/// Answers that calls on other replicas wait for.
type Outgoing = BTreeMap<(AppName, Asker), Vec<(UnitName, Revision)>>;

/// Open calls, and answers for other replicas.
#[derive(Default)]
pub(super) struct Collects {
    last_id: AtomicU64,
    open: Mutex<HashMap<u64, mpsc::Sender<(UnitName, Revision)>>>,
    outgoing: Mutex<Outgoing>,
    gathered: Notify,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// Number of units that were asked.
    pub asked: usize,
    /// The units that answered in time.
    pub answered: Answered,
}

/// Units that answered, each with the revision at which its answer is in force.
pub type Answered = BTreeMap<UnitName, Revision>;

impl Sessions {
    /// Asks every connected unit of an application, here and on other replicas, and waits for the
    /// answers for at most `wait`.
    pub async fn collect(
        &self,
        app: &AppName,
        component: Option<PartName>,
        recompute: bool,
        wait: Duration,
    ) -> Result<Collected, aggregator::Error> {
        let inner = &self.inner;
        let until = tokio::time::Instant::now() + wait;
        let connected = |state: &AppState| {
            let units = state.units_after(None);
            let held = units.filter_map(|(name, unit)| Some((name.clone(), unit.session()?)));
            held.collect::<Vec<(UnitName, SessionId)>>()
        };
        let connected = inner.aggregator.read(app, Revision::default(), connected).await?;
        let id = inner.collects.next_id();
        let deadline = inner.store.now().after(wait);
        let question = Question { id, component, recompute, deadline };
        let mut missing: BTreeSet<_> = connected.iter().map(|(name, _)| name.clone()).collect();
        // A unit that moves to another replica meanwhile may be asked, and answer, twice.
        let (answers, mut received) = mpsc::channel(1 + 2 * missing.len());
        let _open = Open::new(&inner.collects, id, answers);
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            connected.into_iter().partition(|(_, session)| session.replica == inner.replica);
        let asker = Asker { replica: inner.replica, id };
        for (name, session) in here {
            let asks = (question.clone(), asker);
            if !inner.table.ask((app, &name), session, asks, inner.store.now()) {
                missing.remove(&name);
            }
        }
        if !elsewhere.is_empty() {
            let Question { id, component, recompute, deadline } = question;
            let word = BroadcastKind::Collect { id, component, recompute, deadline };
            let notice = Broadcast { app: app.clone(), from: inner.replica, word };
            let announced = tokio::time::timeout_at(until, inner.store.broadcast(notice)).await;
            if !matches!(announced, Ok(Ok(()))) {
                for (name, _) in &elsewhere {
                    missing.remove(name);
                }
            }
        }
        let mut answered = Answered::new();
        let receive = async {
            while !missing.is_empty()
                && let Some((unit, revision)) = received.recv().await
            {
                if missing.remove(&unit) {
                    answered.insert(unit, revision);
                }
            }
        };
        // Unconstrained: answers that arrived before the deadline count, however many they are.
        let _in_time = tokio::time::timeout_at(until, unconstrained(receive)).await;
        Ok(Collected { asked: answered.len() + missing.len(), answered })
    }
}

impl Collects {
    fn next_id(&self) -> u64 {
        1 + self.last_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Records answers for a call of this replica.
    pub(super) fn answered(&self, id: u64, units: &[(UnitName, Revision)]) {
        if let Some(call) = lock(&self.open).get(&id) {
            for answer in units {
                // The call may have ended meanwhile.
                let _ = call.try_send(answer.clone());
            }
        }
    }
}

/// A call in the set of open calls, until it is dropped.
struct Open<'a> {
    collects: &'a Collects,
    id: u64,
}

impl<'a> Open<'a> {
    fn new(collects: &'a Collects, id: u64, answers: mpsc::Sender<(UnitName, Revision)>) -> Self {
        lock(&collects.open).insert(id, answers);
        Open { collects, id }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        lock(&self.collects.open).remove(&self.id);
    }
}

impl Inner {
    /// Passes the answer of a worker to the calls that wait for it, here or on other replicas.
    pub(super) fn answered(&self, entry: &Entry, question: u64, revision: Revision) {
        let answer = (entry.unit().clone(), revision);
        for asker in entry.answered(question) {
            if asker.replica == self.replica {
                self.collects.answered(asker.id, std::slice::from_ref(&answer));
                continue;
            }
            let mut outgoing = lock(&self.collects.outgoing);
            outgoing.entry((entry.app.clone(), asker)).or_default().push(answer.clone());
            self.collects.gathered.notify_one();
        }
    }

    /// Asks the workers here, for a call on another replica.
    pub(super) fn ask_for(&self, app: &AppName, asker: Asker, question: &Question) {
        let now = self.store.now();
        if question.deadline <= now {
            return;
        }
        // A question to a worker here needs a number of this replica.
        let numbered = || Question { id: self.collects.next_id(), ..question.clone() };
        self.table.expect(app, asker, numbered);
        for entry in self.table.of(app) {
            entry.ask(numbered(), Some(asker), now);
        }
    }

    /// Asks one worker. No call waits for the answer.
    pub(super) fn ask_newcomer(&self, entry: &Entry) {
        let (now, id) = (self.store.now(), self.collects.next_id());
        let deadline = now.after(QUESTION_TTL);
        let question = Question { id, component: None, recompute: false, deadline };
        entry.ask(question, None, now);
    }
}

/// Sends the gathered answers to the replicas that wait, until the sessions have closed.
pub(super) async fn forward(inner: Arc<Inner>) {
    loop {
        tokio::select! {
            () = inner.collects.gathered.notified() => {}
            () = inner.stopped.cancelled() => return,
        }
        tokio::time::sleep(GATHER).await;
        let outgoing = std::mem::take(&mut *lock(&inner.collects.outgoing));
        for ((app, asker), units) in outgoing {
            let word = BroadcastKind::Collected { id: asker.id, to: asker.replica, units };
            let notice = Broadcast { app, from: inner.replica, word };
            // Lost answers only let the call wait until its deadline.
            let _ = inner.store.broadcast(notice).await;
        }
    }
}
