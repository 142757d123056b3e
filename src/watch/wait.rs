//! Waiting for a revision: reads your own writes on any replica.
//!
//! Who waits is kept by revision, so that a change wakes those whose revision has come and nobody
//! else, however many wait for one that never comes.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::sync::oneshot;

use super::State;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;

/// Why a wait is over without its revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// As many wait for this application as may.
    #[error("{max} reads wait for a revision of this application already; try again later")]
    TooMany {
        /// How many may.
        max: usize,
    },
    /// The server is stopping.
    #[error("server is stopping; ask another replica if there is one")]
    Ended,
}

/// Those who wait for one application, by revision, then in the order in which they came.
type Waiting = BTreeMap<(Revision, u64), oneshot::Sender<()>>;

/// Who waits for which application.
#[derive(Debug, Default)]
pub(super) struct Waits {
    by_app: BTreeMap<AppName, Waiting>,
    next: u64,
    has_ended: bool,
}

impl Waits {
    /// An application is known at this revision.
    pub(super) fn tell(&mut self, app: &AppName, revision: Revision) {
        let Some(waiting) = self.by_app.get_mut(app) else { return };
        let later = waiting.split_off(&(Revision(revision.0.saturating_add(1)), 0));
        for reader in std::mem::replace(waiting, later).into_values() {
            // It may have left meanwhile.
            let _ = reader.send(());
        }
        if waiting.is_empty() {
            self.by_app.remove(app);
        }
    }

    /// Nobody waits any more, nor will.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.by_app.clear();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_app.is_empty()
    }
}

/// One who waits. Leaves nothing behind when dropped.
pub(super) struct Wait<'a> {
    state: &'a Mutex<State>,
    app: AppName,
    place: (Revision, u64),
    reached: oneshot::Receiver<()>,
}

impl<'a> Wait<'a> {
    /// Nothing if there is nothing to wait for.
    pub(super) fn new(
        state: &'a Mutex<State>,
        app: &AppName,
        revision: Revision,
        max: usize,
    ) -> Result<Option<Wait<'a>>, WaitError> {
        let mut locked = state.lock().expect("nothing panics while it is held");
        let known = locked.entries.get(app).map(|e| e.head.revision);
        if revision <= known.unwrap_or_default() {
            return Ok(None);
        }
        let waits = &mut locked.waits;
        if waits.has_ended {
            return Err(WaitError::Ended);
        }
        if waits.by_app.get(app).is_some_and(|waiting| max <= waiting.len()) {
            return Err(WaitError::TooMany { max });
        }
        waits.next += 1;
        let place = (revision, waits.next);
        let (sender, reached) = oneshot::channel();
        waits.by_app.entry(app.clone()).or_default().insert(place, sender);
        Ok(Some(Wait { state, app: app.clone(), place, reached }))
    }

    pub(super) async fn reached(&mut self) -> Result<(), WaitError> {
        // The sender is dropped only by `end`.
        (&mut self.reached).await.map_err(|_| WaitError::Ended)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.state.lock() {
            let by_app = &mut state.waits.by_app;
            let Some(waiting) = by_app.get_mut(&self.app) else { return };
            waiting.remove(&self.place);
            if waiting.is_empty() {
                by_app.remove(&self.app);
            }
        }
    }
}
