//! One wait for a revision, from its start until its reader has it or leaves.

use std::sync::Mutex;

use tokio::sync::oneshot;

use super::hub::{Hub, State};
use super::waits::{Place, WaitError};
use crate::domain::name::AppName;
use crate::domain::revision::Revision;

impl Hub {
    /// Waits until the hub has an application, or its tombstone, at this revision or a later one.
    /// There is no time limit: the caller has a deadline.
    pub async fn wait_for(&self, app: &AppName, revision: Revision) -> Result<(), WaitError> {
        match Wait::new(&self.state, app, revision, self.limits.waits_max)? {
            Some(mut wait) => wait.reached().await,
            None => Ok(()),
        }
    }
}

/// One wait, removed when dropped.
struct Wait<'a> {
    state: &'a Mutex<State>,
    app: AppName,
    place: Place,
    reached: oneshot::Receiver<()>,
}

impl<'a> Wait<'a> {
    /// Registers a wait. Returns `None` if the revision has arrived already.
    fn new(
        state: &'a Mutex<State>,
        app: &AppName,
        revision: Revision,
        max: usize,
    ) -> Result<Option<Wait<'a>>, WaitError> {
        let mut locked = state.lock().expect("nothing panics while it is held");
        let known = locked.entries.get(app).map(|e| e.revision());
        if revision <= known.unwrap_or_default() {
            return Ok(None);
        }
        let (place, reached) = locked.waits.add(app, revision, max)?;
        Ok(Some(Wait { state, app: app.clone(), place, reached }))
    }

    async fn reached(&mut self) -> Result<(), WaitError> {
        // Only the end of all waits drops the sender.
        (&mut self.reached).await.map_err(|_| WaitError::Ended)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.state.lock() {
            state.waits.remove(&self.app, self.place);
        }
    }
}
