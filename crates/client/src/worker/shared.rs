//! The state that the handle of a worker and its task share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast, watch};

use crate::proto::v1::StatusReport;
use crate::worker::acknowledged::Acknowledged;
use crate::worker::error::Error;
use crate::worker::event::{Event, Events, KEPT_MAX};
use crate::worker::outbox::{Content, Key, Outbox};

/// The phase of a worker.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// No session yet.
    New,
    /// At least one session, with this incarnation.
    Begun(u64),
    /// No further session.
    Over(Error),
}

/// The shared state.
#[derive(Debug)]
pub(super) struct Shared {
    outbox: Mutex<Outbox>,
    /// Notified when there may be something to send.
    pub(super) changed: Notify,
    /// Whether the unit wants to lead.
    pub(super) wants_to_lead: AtomicBool,
    /// Whether the last leadership message to a server was a claim.
    pub(super) has_claimed: AtomicBool,
    /// Epoch of the unit's lease, from the last leadership message.
    lease_epoch: Mutex<Option<u64>>,
    pub(super) phase: watch::Sender<Phase>,
    retained: Mutex<Vec<StatusReport>>,
    /// `None` once the worker has ended, so that readers see the end.
    events: Mutex<Option<broadcast::Sender<Event>>>,
    /// Keeps the events before the first reader.
    first_events: Mutex<Option<broadcast::Receiver<Event>>>,
}

impl Shared {
    pub(super) fn new() -> Shared {
        let (events, first_events) = broadcast::channel(KEPT_MAX);
        Shared {
            outbox: Mutex::default(),
            changed: Notify::new(),
            wants_to_lead: AtomicBool::new(false),
            has_claimed: AtomicBool::new(false),
            lease_epoch: Mutex::default(),
            phase: watch::Sender::new(Phase::New),
            retained: Mutex::default(),
            events: Mutex::new(Some(events)),
            first_events: Mutex::new(Some(first_events)),
        }
    }

    /// Queues reports.
    pub(super) fn put(&self, items: Vec<(Key, Content)>) -> Acknowledged {
        let mut outcomes = Vec::with_capacity(items.len());
        let mut outbox = self.outbox();
        // Checked under the lock, so that nothing is queued after the end.
        if let Phase::Over(error) = &*self.phase.borrow() {
            return Acknowledged(Err(error.clone()));
        }
        for (key, content) in items {
            match outbox.put(key, content) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => return Acknowledged(Err(error)),
            }
        }
        drop(outbox);
        self.changed.notify_one();
        Acknowledged(Ok(outcomes))
    }

    /// Returns the outbox.
    pub(super) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        lock(&self.outbox)
    }

    pub(super) fn tell(&self, event: Event) {
        if let Some(events) = &*lock(&self.events) {
            // There may be no reader.
            let _ = events.send(event);
        }
    }

    pub(super) fn events(&self) -> Events {
        if let Some(first) = lock(&self.first_events).take() {
            return Events(first);
        }
        let events = lock(&self.events);
        Events(match &*events {
            Some(events) => events.subscribe(),
            None => broadcast::channel(1).1,
        })
    }

    pub(super) fn retained(&self) -> Vec<StatusReport> {
        lock(&self.retained).clone()
    }

    /// Sets whether the unit wants to lead.
    pub(super) fn want_to_lead(&self, wants: bool) {
        self.wants_to_lead.store(wants, Ordering::Relaxed);
        self.changed.notify_one();
    }

    pub(super) fn lease_epoch(&self) -> Option<u64> {
        *lock(&self.lease_epoch)
    }

    pub(super) fn set_lease_epoch(&self, epoch: Option<u64>) {
        *lock(&self.lease_epoch) = epoch;
    }

    /// Records a new session and the statuses that the server has. Returns the number of lost ones.
    pub(super) fn begin(&self, incarnation: u64, retained: Vec<StatusReport>) -> usize {
        let healed = self.outbox().heal(&retained);
        *lock(&self.retained) = retained;
        self.phase.send_replace(Phase::Begun(incarnation));
        healed
    }

    /// Ends the worker. Returns the number of unacknowledged reports.
    pub(super) fn end(&self, error: &Error) -> usize {
        let mut outbox = self.outbox();
        let count = outbox.len();
        self.phase.send_replace(Phase::Over(error.clone()));
        outbox.fail(error);
        lock(&self.events).take();
        count
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The content is consistent at any point where a panic can happen.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
