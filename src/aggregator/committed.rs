//! The committed state of one application: its task writes it, readers and other tasks read it.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{mpsc, watch};

use crate::domain::app::AppState;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::sync::{read, write};

use super::Error;
use super::mailbox::Work;
use super::remote_commits::RemoteCommits;

/// The access to a task for other parts of the aggregator.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) mailbox: mpsc::Sender<Work>,
    pub(super) shared: Arc<Shared>,
}

impl Handle {
    /// Returns whether both handles belong to the same task.
    pub(super) fn is(&self, other: &Handle) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

/// The committed state, for readers.
pub(super) struct Shared {
    /// Only the task writes this, after a commit.
    state: RwLock<AppState>,
    pub(super) progress: watch::Sender<Progress>,
    /// Commits of all replicas that are not replayed yet.
    pub(super) remote_commits: RemoteCommits,
}

/// The progress of the state.
#[derive(Clone)]
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
    pub(super) fn loading(name: AppName) -> Shared {
        Shared {
            state: RwLock::new(AppState::empty(name, Revision::default())),
            progress: watch::Sender::new(Progress::Loading),
            remote_commits: RemoteCommits::default(),
        }
    }

    /// Waits until the state is loaded.
    pub(super) async fn loaded(&self) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        let done = progress.wait_for(|p| !matches!(p, Progress::Loading)).await;
        match done.as_deref() {
            Ok(Progress::Failed(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_closed) => Err(Error::Draining),
        }
    }

    /// Waits until the state has at least this revision, or the task has failed.
    pub(super) async fn reached(&self, revision: Revision) {
        let mut progress = self.progress.subscribe();
        let there = |p: &Progress| !matches!(p, Progress::At(at) if *at < revision);
        // Cannot fail: the sender lives as long as `self`.
        let _ = progress.wait_for(there).await;
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
