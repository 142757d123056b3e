//! The notifier of a group: wakes its watchers on a task of the group, not on the caller's thread.
//!
//! To wake 10,000 tasks takes milliseconds, too long for the thread of the store: it notifies once,
//! and the task wakes the watchers. Changes that arrive meanwhile cause one more round.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Waker};

use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Notifies all watchers of a group. Its task ends when it is dropped.
#[derive(Debug)]
pub(super) struct Notifier {
    notified: Arc<Notify>,
    listeners: Arc<Listeners>,
    _task: AbortOnDropHandle<()>,
}

impl Notifier {
    /// Starts the task. Must be called within a runtime.
    pub(super) fn new() -> Notifier {
        let notified = Arc::new(Notify::new());
        let listeners = Arc::new(Listeners::default());
        let task = tokio::spawn(notify(notified.clone(), listeners.clone()));
        Notifier { notified, listeners, _task: AbortOnDropHandle::new(task) }
    }

    /// Wakes all listeners soon, without blocking.
    pub(super) fn notify(&self) {
        self.notified.notify_one();
    }

    /// Adds a listener.
    pub(super) fn listen(&self) -> Listener {
        Listener::new(&self.listeners)
    }
}

async fn notify(notified: Arc<Notify>, listeners: Arc<Listeners>) {
    loop {
        notified.notified().await;
        listeners.wake();
    }
}

/// Wakers that are taken under the lock in one step, to be woken without it.
const WOKEN_AT_ONCE: usize = 128;

/// Tasks that are woken together. Each has a fixed slot, so a repeated wait only compares it.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    places: Mutex<Places>,
    /// Number of wake rounds. Changed under the lock.
    rounds: AtomicU64,
}

#[derive(Debug, Default)]
struct Places {
    /// For each slot the round at which a task started to wait, and its waker.
    waiting: Vec<Option<(u64, Waker)>>,
    free: Vec<u32>,
}

impl Listeners {
    /// Wakes all waiting tasks.
    pub(super) fn wake(&self) {
        let mut places = self.locked();
        let round = 1 + self.rounds.fetch_add(1, Ordering::AcqRel);
        let mut from = 0;
        while let Some(rest) = places.waiting.get_mut(from..).filter(|rest| !rest.is_empty()) {
            let some = rest.iter_mut().take(WOKEN_AT_ONCE);
            // Tasks that started to wait during this round have seen its cause: they are not woken.
            let woken: Vec<_> =
                some.filter_map(|place| place.take_if(|(since, _)| *since < round)).collect();
            drop(places);
            woken.into_iter().for_each(|(_, waker)| waker.wake());
            from += WOKEN_AT_ONCE;
            places = self.locked();
        }
    }

    fn locked(&self) -> MutexGuard<'_, Places> {
        self.places.lock().expect("nothing panics while it is held")
    }
}

/// A slot among the listeners, freed when dropped.
#[derive(Debug)]
pub(super) struct Listener {
    listeners: Arc<Listeners>,
    place: u32,
    /// The content of the slot, valid until the round is over.
    waiting: Option<(u64, Waker)>,
}

impl Listener {
    pub(super) fn new(listeners: &Arc<Listeners>) -> Listener {
        let mut places = listeners.locked();
        let place = places.free.pop().unwrap_or_else(|| {
            places.waiting.push(None);
            // More slots do not fit into memory.
            u32::try_from(places.waiting.len() - 1).unwrap_or(u32::MAX)
        });
        Listener { listeners: listeners.clone(), place, waiting: None }
    }

    /// Returns whether this task waits already and no round has happened since.
    pub(super) fn is_waiting(&self, context: &Context<'_>) -> bool {
        let round = self.listeners.rounds.load(Ordering::Acquire);
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|(since, waker)| *since == round && waker.will_wake(context.waker()))
    }

    /// Registers this task to be woken once.
    pub(super) fn wait(&mut self, context: &Context<'_>) {
        if self.is_waiting(context) {
            return;
        }
        let mut places = self.listeners.locked();
        let round = self.listeners.rounds.load(Ordering::Acquire);
        let waiting = Some((round, context.waker().clone()));
        if let Some(place) = places.waiting.get_mut(self.place as usize) {
            place.clone_from(&waiting);
        }
        self.waiting = waiting;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Ok(mut places) = self.listeners.places.lock() {
            if let Some(place) = places.waiting.get_mut(self.place as usize) {
                *place = None;
            }
            places.free.push(self.place);
        }
    }
}
