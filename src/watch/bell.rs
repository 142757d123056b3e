//! Wakes the watchers of a group, off the thread of whoever has something to tell.
//!
//! To wake ten thousand tasks takes milliseconds, and the store's thread has none to spare: it
//! rings once, and a task of the group does the rest. Changes that come meanwhile are one more
//! round.

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

/// Heard by all watchers of a group. Its task ends with it.
#[derive(Debug)]
pub(super) struct Bell {
    rung: Arc<Notify>,
    rounds: Arc<watch::Sender<()>>,
    ringer: AbortHandle,
}

impl Bell {
    /// Within a runtime.
    pub(super) fn new() -> Bell {
        let rung = Arc::new(Notify::new());
        let rounds = Arc::new(watch::Sender::new(()));
        let ringer = tokio::spawn(ring(rung.clone(), rounds.clone()));
        Bell { rung, rounds, ringer: ringer.abort_handle() }
    }

    /// Wakes all who listen, soon.
    pub(super) fn ring(&self) {
        self.rung.notify_one();
    }

    /// Hears each ring from now on.
    pub(super) fn listen(&self) -> watch::Receiver<()> {
        self.rounds.subscribe()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ringer.abort();
    }
}

async fn ring(rung: Arc<Notify>, rounds: Arc<watch::Sender<()>>) {
    loop {
        rung.notified().await;
        rounds.send_replace(());
    }
}
