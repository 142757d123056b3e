//! Wakes the watchers of a group, off the thread of whoever has something to tell.
//!
//! To wake ten thousand tasks takes milliseconds, and the store's thread has none to spare: it
//! rings once, and a task of the group does the rest. Changes that come meanwhile are one more
//! round.

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
pub(super) struct Listeners(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    /// Empty where nobody waits.
    wakers: Vec<Option<Waker>>,
    free: Vec<u32>,
}

impl Listeners {
    /// Wakes all who wait.
    pub(super) fn wake(&self) {
        let mut from = 0;
        loop {
            let mut places = self.locked();
            let Some(rest) = places.wakers.get_mut(from..).filter(|rest| !rest.is_empty()) else {
                return;
            };
            let some = rest.iter_mut().take(WOKEN_AT_ONCE);
            let woken: Vec<Waker> = some.filter_map(Option::take).collect();
            drop(places);
            woken.into_iter().for_each(Waker::wake);
            from += WOKEN_AT_ONCE;
        }
    }

    fn locked(&self) -> MutexGuard<'_, Places> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// A place among those who listen, given up by dropping.
#[derive(Debug)]
pub(super) struct Listener {
    listeners: Arc<Listeners>,
    place: u32,
}

impl Listener {
    pub(super) fn new(listeners: &Arc<Listeners>) -> Listener {
        let mut places = listeners.locked();
        let place = places.free.pop().unwrap_or_else(|| {
            places.wakers.push(None);
            // There is no memory for more.
            u32::try_from(places.wakers.len() - 1).unwrap_or(u32::MAX)
        });
        Listener { listeners: listeners.clone(), place }
    }

    /// Wakes this task once, from now on.
    pub(super) fn wait(&self, context: &Context<'_>) {
        let mut places = self.listeners.locked();
        if let Some(place) = places.wakers.get_mut(self.place as usize)
            && !place.as_ref().is_some_and(|waker| waker.will_wake(context.waker()))
        {
            *place = Some(context.waker().clone());
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Ok(mut places) = self.listeners.0.lock() {
            if let Some(place) = places.wakers.get_mut(self.place as usize) {
                *place = None;
            }
            places.free.push(self.place);
        }
    }
}
