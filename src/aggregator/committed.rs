//! The committed state of one application: its task writes it, readers and other tasks read it.

use std::pin::pin;
use std::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;

use crate::domain::app::AppState;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::sync::{lock, read, write};

use super::Error;
use super::mailbox::Mailbox;
use super::replay_queue::ReplayQueue;

/// What a task shares with the other parts of the aggregator.
pub(super) struct Shared {
    pub(super) mailbox: Mailbox,
    /// Only the task writes this, after a commit.
    state: RwLock<AppState>,
    // A watch channel has eight lists of readers: 400 bytes more for each active application.
    progress: Mutex<Progress>,
    /// Notifies all readers of progress.
    moved: Notify,
    /// Commits of all replicas that are not replayed yet.
    pub(super) replay_queue: ReplayQueue,
}

/// The progress of the state.
pub(super) enum Progress {
    /// The task reads the state from the store.
    Loading,
    /// The task has ended with this error.
    Failed(Error),
    /// The state is that of this revision.
    At(Revision),
}

impl Shared {
    /// Returns the state of an application that is not loaded yet.
    pub(super) fn loading(name: AppName, mailbox_max: usize) -> Shared {
        Shared {
            mailbox: Mailbox::new(mailbox_max),
            state: RwLock::new(AppState::empty(name, Revision::default())),
            progress: Mutex::new(Progress::Loading),
            moved: Notify::new(),
            replay_queue: ReplayQueue::default(),
        }
    }

    /// Waits until the state is loaded.
    pub(super) async fn loaded(&self) -> Result<(), Error> {
        let loaded = |progress: &Progress| match progress {
            Progress::Loading => None,
            Progress::Failed(error) => Some(Err(error.clone())),
            Progress::At(_) => Some(Ok(())),
        };
        self.until(loaded).await
    }

    /// Waits until the state has at least this revision, or the task has failed.
    pub(super) async fn reached(&self, revision: Revision) {
        let is_behind = |p: &Progress| matches!(p, Progress::At(at) if *at < revision);
        self.until(|progress| (!is_behind(progress)).then_some(())).await;
    }

    /// Sets the progress, and notifies the readers that wait for it.
    pub(super) fn progress(&self, progress: Progress) {
        *lock(&self.progress) = progress;
        self.moved.notify_waiters();
    }

    /// Waits until the progress has an answer.
    async fn until<T>(&self, answer: impl Fn(&Progress) -> Option<T>) -> T {
        let now = || answer(&lock(&self.progress));
        if let Some(found) = now() {
            return found;
        }
        let mut moved = pin!(self.moved.notified());
        loop {
            // Before the look, so that no progress is missed.
            moved.as_mut().enable();
            if let Some(found) = now() {
                return found;
            }
            moved.as_mut().await;
            moved.set(self.moved.notified());
        }
    }

    /// Returns the committed state. Must not be held across an await.
    pub(super) fn state(&self) -> RwLockReadGuard<'_, AppState> {
        read(&self.state)
    }

    /// Returns the committed state for the task to replace. Must not be held across an await.
    pub(super) fn state_mut(&self) -> RwLockWriteGuard<'_, AppState> {
        write(&self.state)
    }
}
