//! Wakes the watchers of a group, off the thread of whoever has something to tell.
//!
//! To wake ten thousand tasks takes milliseconds, and the store's thread has none to spare: it
//! rings once, and a task of the group does the rest. Changes that come meanwhile are one more
//! round.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Waker};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Heard by all watchers of a group. Its task ends with it.
#[derive(Debug)]
pub(super) struct Bell {
    rung: Arc<Notify>,
    listeners: Arc<Listeners>,
    ringer: AbortHandle,
}

impl Bell {
    /// Within a runtime.
    pub(super) fn new() -> Bell {
        let rung = Arc::new(Notify::new());
        let listeners = Arc::new(Listeners::default());
        let ringer = tokio::spawn(ring(rung.clone(), listeners.clone()));
        Bell { rung, listeners, ringer: ringer.abort_handle() }
    }

    /// Wakes all who listen, soon.
    pub(super) fn ring(&self) {
        self.rung.notify_one();
    }

    /// One more who listens.
    pub(super) fn listen(&self) -> Listener {
        Listener::new(&self.listeners)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ringer.abort();
    }
}

async fn ring(rung: Arc<Notify>, listeners: Arc<Listeners>) {
    loop {
        rung.notified().await;
        listeners.wake();
    }
}

/// How many are taken from the lock at a time, to be woken without it.
const WOKEN_AT_ONCE: usize = 128;

/// Those who are to be woken together. Each has a place, so that listening again is no more than
/// looking at it.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    places: Mutex<Places>,
    /// How often all were woken. Moves under the lock.
    rounds: AtomicU64,
}

#[derive(Debug, Default)]
struct Places {
    /// Since which round somebody waits there, if anybody does.
    waiting: Vec<Option<(u64, Waker)>>,
    free: Vec<u32>,
}

impl Listeners {
    /// Wakes all who wait.
    pub(super) fn wake(&self) {
        let mut places = self.locked();
        let round = 1 + self.rounds.fetch_add(1, Ordering::AcqRel);
        let mut from = 0;
        while let Some(rest) = places.waiting.get_mut(from..).filter(|rest| !rest.is_empty()) {
            let some = rest.iter_mut().take(WOKEN_AT_ONCE);
            // Not those who came since: they have seen what this is about.
            let woken = some.filter_map(|place| place.take_if(|(since, _)| *since < round));
            let woken: Vec<_> = woken.collect();
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

/// A place among those who listen, given up by dropping.
#[derive(Debug)]
pub(super) struct Listener {
    listeners: Arc<Listeners>,
    place: u32,
    /// As it stands in its place, until the round is over.
    waiting: Option<(u64, Waker)>,
}

impl Listener {
    pub(super) fn new(listeners: &Arc<Listeners>) -> Listener {
        let mut places = listeners.locked();
        let place = places.free.pop().unwrap_or_else(|| {
            places.waiting.push(None);
            // There is no memory for more.
            u32::try_from(places.waiting.len() - 1).unwrap_or(u32::MAX)
        });
        Listener { listeners: listeners.clone(), place, waiting: None }
    }

    /// Whether this task waits already, and nobody was woken since.
    pub(super) fn is_waiting(&self, context: &Context<'_>) -> bool {
        let round = self.listeners.rounds.load(Ordering::Acquire);
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|(since, waker)| *since == round && waker.will_wake(context.waker()))
    }

    /// Wakes this task once, from now on.
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
