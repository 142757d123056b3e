//! One session as the rest of the process reaches it: it can be asked, and it can be ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};

use crate::domain::fault::{Fault, FaultKey};
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::rejected::Rejected;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::{ReplicaId, SessionId};
use crate::domain::unit::refused::IdentityError;
use crate::domain::unit::{Callback, Callbacks, Newcomer, Reporter, Topic};
use crate::sync::lock;

use super::found;
use super::holds::{Holds, Moved};
use super::message::Outbound;
use super::news::News;

/// Questions to one worker that are open together: one for each component that is asked often.
/// Beyond that the oldest is dropped.
const QUESTIONS_MAX: usize = 16;

/// Questions in the queue of one session.
pub(super) const ASKS_MAX: usize = 4;

/// A session in the table.
pub(super) struct Entry {
    pub(super) app: AppName,
    pub(super) who: Newcomer,
    pub(super) session: SessionId,
    pub(super) incarnation: u64,
    /// Revision of the commit that opened the session.
    pub(super) revision: Revision,
    /// How long its worker may be silent. Fixed at the welcome: a later change of the heartbeat
    /// interval does not apply.
    pub(super) ttl: Duration,
    superseded: watch::Sender<Option<u64>>,
    asks: mpsc::Sender<Question>,
    open: Mutex<Vec<Open>>,
    calls: Mutex<Calls>,
    called: Notify,
    holds: Mutex<Holds>,
    holds_moved: Notify,
    /// Leadership and data updates for the worker, and its requests to lead.
    pub(super) news: News,
    /// Time of the last message of the worker, by the liveness clock, in milliseconds.
    last_contact: AtomicU64,
}

/// Callbacks of the unit that are due, and those that the worker was sent.
#[derive(Default)]
struct Calls {
    /// Revision of the application at which `due` was read.
    revision: Revision,
    due: Callbacks,
    sent: Callbacks,
}

/// A question to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) id: u64,
    pub(super) component: Option<PartName>,
    pub(super) recompute: bool,
    pub(super) deadline: Timestamp,
}

/// The call that waits for the answer of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asker {
    pub(super) replica: ReplicaId,
    /// Number of the collect call on that replica.
    pub(super) id: u64,
}

/// A question without an answer.
struct Open {
    question: Question,
    askers: Vec<Asker>,
}

/// The receiving ends of an entry, owned by the session.
pub(super) struct Ends {
    /// The incarnation of a newer session that took over.
    pub(super) superseded: watch::Receiver<Option<u64>>,
    pub(super) asks: mpsc::Receiver<Question>,
}

impl Entry {
    pub(super) fn new(
        app: AppName,
        who: Newcomer,
        session: SessionId,
        (incarnation, revision): (u64, Revision),
        ttl: Duration,
    ) -> (Entry, Ends) {
        let (superseded, is_superseded) = watch::channel(None);
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        let news = News::new(who.unit.clone(), incarnation);
        let who = Newcomer { incarnation: Some(incarnation), ..who };
        let open = Mutex::default();
        let entry = Entry {
            app,
            who,
            session,
            incarnation,
            revision,
            ttl,
            superseded,
            asks,
            open,
            calls: Mutex::default(),
            called: Notify::new(),
            holds: Mutex::default(),
            holds_moved: Notify::new(),
            news,
            last_contact: AtomicU64::new(0),
        };
        (entry, Ends { superseded: is_superseded, asks: asked })
    }

    pub(super) fn unit(&self) -> &UnitName {
        &self.who.unit
    }

    /// Returns the author of commands in this session. They are refused once the unit holds a newer
    /// session.
    pub(super) fn reporter(&self) -> Reporter {
        Reporter {
            unit: self.who.unit.clone(),
            incarnation: Some(self.incarnation),
            session: Some(self.session),
        }
    }

    /// Returns the time of the worker's last message, by the liveness clock.
    pub(super) fn last_contact(&self) -> Duration {
        Duration::from_millis(self.last_contact.load(Ordering::Relaxed))
    }

    /// Records a message of the worker.
    pub(super) fn note_contact(&self, now: Duration) {
        let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.last_contact.store(millis, Ordering::Relaxed);
    }

    /// Ends the session, because a session of this incarnation took over.
    pub(super) fn end(&self, incarnation: u64) {
        self.superseded.send_replace(Some(incarnation));
    }

    /// Sets the callbacks that are due in the unit's record as of a revision.
    pub(super) fn call<'a>(
        &self,
        revision: Revision,
        due: impl Iterator<Item = (&'a Topic, &'a Callback)>,
    ) {
        let mut calls = lock(&self.calls);
        if revision < calls.revision {
            return;
        }
        calls.revision = revision;
        calls.due = due.map(|(topic, callback)| (topic.clone(), callback.clone())).collect();
        let Calls { due, sent, .. } = &mut *calls;
        sent.retain(|topic, callback| due.get(topic) == Some(callback));
        self.called.notify_one();
    }

    /// Waits for a due callback that the worker was not sent in this session.
    pub(super) async fn next_call<R>(&self) -> Outbound<R> {
        found(&self.called, || self.take_call()).await
    }

    fn take_call<R>(&self) -> Option<Outbound<R>> {
        let Calls { due, sent, .. } = &mut *lock(&self.calls);
        let (topic, callback) = due.iter().find(|(topic, _)| !sent.contains_key(*topic))?;
        sent.insert(topic.clone(), callback.clone());
        let operation_id = callback.operation_id.clone();
        Some(Outbound::RetryDue { topic: topic.clone(), operation_id })
    }

    /// Sets all faults that hold components of the unit, as of a revision.
    pub(super) fn set_holds(
        &self,
        revision: Revision,
        holding: impl Iterator<Item = (Arc<FaultKey>, Arc<Fault>)>,
    ) {
        lock(&self.holds).set(revision, holding);
        self.holds_moved.notify_one();
    }

    /// Records changes of the unit's faults at a revision.
    pub(super) fn note_holds(&self, revision: Revision, changes: Vec<Moved>) {
        lock(&self.holds).note(revision, changes);
        self.holds_moved.notify_one();
    }

    /// Returns the holds for the welcome, and marks them as sent.
    pub(super) fn holds_at_welcome(&self) -> Vec<(Arc<FaultKey>, Arc<Fault>)> {
        lock(&self.holds).all_sent()
    }

    /// Waits for a hold or a release that the worker was not sent.
    pub(super) async fn next_hold<R>(&self) -> Outbound<R> {
        found(&self.holds_moved, || lock(&self.holds).next()).await
    }

    /// Returns the incarnation of the session that took over, if this replica knows it.
    pub(super) fn superseded(&self) -> Option<u64> {
        *self.superseded.borrow()
    }

    /// Ends the session because one of its commands was rejected.
    pub(super) fn end_because(&self, rejected: &Rejected) {
        self.end(match rejected {
            Rejected::Identity(IdentityError::StaleIncarnation { current, .. }) => *current,
            _ => self.incarnation,
        });
    }

    /// Asks the worker. If an open question covers this one, the asker shares the answer. Returns
    /// false if the worker does not take questions.
    pub(super) fn ask(&self, question: Question, asker: Option<Asker>, now: Timestamp) -> bool {
        let mut open = lock(&self.open);
        open.retain(|o| now < o.question.deadline);
        let same = open.iter_mut().find(|o| {
            o.question.component == question.component && question.recompute <= o.question.recompute
        });
        if let Some(same) = same {
            same.askers.extend(asker);
            same.question.deadline = same.question.deadline.max(question.deadline);
            return true;
        }
        if self.asks.try_send(question.clone()).is_err() {
            return false;
        }
        if QUESTIONS_MAX <= open.len() {
            open.remove(0);
        }
        open.push(Open { question, askers: asker.into_iter().collect() });
        true
    }

    /// Closes a question that the worker answered and returns the calls that wait for it.
    pub(super) fn answered(&self, id: u64) -> Vec<Asker> {
        let mut open = lock(&self.open);
        match open.iter().position(|o| o.question.id == id) {
            Some(place) => open.remove(place).askers,
            None => Vec::new(),
        }
    }
}

/// Time limit of a question that no call waits for.
pub(super) const QUESTION_TTL: Duration = Duration::from_secs(30);
