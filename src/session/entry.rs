//! One session as the rest of the process reaches it: it can be asked, and it can be ended.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};

use crate::domain::name::{AppName, UnitName};
use crate::domain::rejected::Rejected;
use crate::domain::revision::Revision;
use crate::domain::stated::index::RecordKey;
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::{ReplicaId, SessionId};
use crate::domain::unit::refused::IdentityError;
use crate::domain::unit::{Callback, Callbacks, Newcomer, Reporter, Topic};
use crate::sync::lock;

use super::holds::Holds;
use super::message::{MayRead, Outbound, Question};
use super::news::{Leads, News};

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
    /// The incarnation of a newer session that took over.
    superseded: watch::Sender<Option<u64>>,
    /// Whether the worker may read an application.
    pub(super) may_read: MayRead,
    asks: mpsc::Sender<Question>,
    open: Mutex<Vec<Open>>,
    updates: Mutex<Updates>,
    updated: Notify,
    /// Time of the last message of the worker, by the liveness clock, in milliseconds.
    last_contact: AtomicU64,
}

/// The updates that the worker was sent, and those that are pending.
#[derive(Default)]
pub(super) struct Updates {
    pub(super) calls: Calls,
    pub(super) holds: Holds,
    /// Leadership and data, and the worker's requests to lead.
    pub(super) news: News,
    /// Records whose needs are met, and of which the worker was not notified yet.
    pub(super) rings: BTreeSet<RecordKey>,
}

/// Callbacks of the unit that are due, and those that the worker was sent.
#[derive(Default)]
pub(super) struct Calls {
    /// Revision of the application at which `due` was read.
    revision: Revision,
    due: Callbacks,
    sent: Callbacks,
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

impl Calls {
    /// Sets the callbacks that are due in the unit's record as of a revision.
    pub(super) fn set<'a>(
        &mut self,
        revision: Revision,
        due: impl Iterator<Item = (&'a Topic, &'a Callback)>,
    ) {
        if revision < self.revision {
            return;
        }
        self.revision = revision;
        self.due = due.map(|(topic, callback)| (topic.clone(), callback.clone())).collect();
        self.sent.retain(|topic, callback| self.due.get(topic) == Some(callback));
    }

    /// Returns a due callback that the worker was not sent in this session.
    fn next<R>(&mut self) -> Option<Outbound<R>> {
        let (topic, callback) =
            self.due.iter().find(|(topic, _)| !self.sent.contains_key(*topic))?;
        self.sent.insert(topic.clone(), callback.clone());
        Some(match &callback.request {
            None => {
                let operation_id = callback.operation_id.clone();
                Outbound::RetryDue { topic: topic.clone(), operation_id }
            }
            Some(request) => {
                Outbound::CallbackDue { topic: topic.clone(), request: request.clone() }
            }
        })
    }
}

impl Entry {
    pub(super) fn new(
        app: AppName,
        who: Newcomer,
        session: SessionId,
        (incarnation, revision): (u64, Revision),
        (ttl, may_read): (Duration, MayRead),
    ) -> (Entry, mpsc::Receiver<Question>) {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        let who = Newcomer { incarnation: Some(incarnation), ..who };
        let entry = Entry {
            app,
            who,
            session,
            incarnation,
            revision,
            ttl,
            superseded: watch::Sender::default(),
            may_read,
            asks,
            open: Mutex::default(),
            updates: Mutex::default(),
            updated: Notify::new(),
            last_contact: AtomicU64::new(0),
        };
        (entry, asked)
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

    /// Returns whether the unit leads, in the incarnation of the session.
    pub(super) fn is_leader(&self, leads: &Leads) -> bool {
        leads.leader.as_ref() == Some(self.unit())
            && leads.incarnation.is_none_or(|incarnation| incarnation == self.incarnation)
    }

    /// Changes the updates for the worker.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Updates) -> T) -> T {
        let changed = change(&mut lock(&self.updates));
        self.updated.notify_one();
        changed
    }

    /// Waits for an update that the worker was not sent.
    pub(super) async fn next_update<R>(&self) -> Outbound<R> {
        loop {
            if let Some(update) = self.take_update() {
                return update;
            }
            self.updated.notified().await;
        }
    }

    fn take_update<R>(&self) -> Option<Outbound<R>> {
        let Updates { calls, holds, news, rings } = &mut *lock(&self.updates);
        let update = calls.next().or_else(|| holds.next());
        let update = update.or_else(|| rings.pop_first().map(Outbound::NeedsMet));
        update.or_else(|| news.next(|leads| self.is_leader(leads)))
    }

    /// Returns the incarnation of the session that took over, if this replica knows it.
    pub(super) fn superseded(&self) -> Option<u64> {
        *self.superseded.borrow()
    }

    /// Waits for a session that takes over, and returns its incarnation. The number and not a guard
    /// of it: a reader that holds one and reads again deadlocks with [`end`](Entry::end), which may
    /// be called more than once.
    pub(super) async fn taken_over(&self) -> u64 {
        let mut superseded = self.superseded.subscribe();
        match superseded.wait_for(Option::is_some).await.map(|incarnation| *incarnation) {
            Ok(Some(incarnation)) => incarnation,
            // The sender lives as long as this entry.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Returns the refusal of the session's commands, once a session of `current` took over.
    pub(super) fn refused_after(&self, current: u64) -> IdentityError {
        let (unit, given) = (self.unit().clone(), self.incarnation);
        match given < current {
            true => IdentityError::StaleIncarnation { unit, given, current },
            // The same incarnation connected again.
            false => IdentityError::SessionOver { unit },
        }
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
        let place = open.iter().position(|o| o.question.id == id);
        place.map(|place| open.remove(place).askers).unwrap_or_default()
    }
}

/// Time limit of a question that no call waits for.
pub(super) const QUESTION_TTL: Duration = Duration::from_secs(30);
