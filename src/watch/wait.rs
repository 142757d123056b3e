//! Waits for a revision: a client reads its own writes on any replica.
//!
//! Waits are sorted by revision, so a change wakes only those whose revision has arrived, no matter
//! how many wait for one that never comes.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::sync::oneshot;

use super::State;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;

/// The reason why a wait ended before its revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The limit of waits for this application is reached.
    #[error("{0} reads wait for a revision of this application already; try again later")]
    TooMany(usize),
    /// The server is stopping.
    #[error("server is stopping; ask another replica if there is one")]
    Ended,
}

/// Waits for one application, by revision, then by age.
type Waiting = BTreeMap<(Revision, u64), oneshot::Sender<()>>;

/// All waits by application.
#[derive(Debug, Default)]
pub(super) struct Waits {
    by_app: BTreeMap<AppName, Waiting>,
    next: u64,
    has_ended: bool,
}

impl Waits {
    /// Wakes the waits for revisions of an application up to this one.
    pub(super) fn wake(&mut self, app: &AppName, revision: Revision) {
        let Some(waiting) = self.by_app.get_mut(app) else { return };
        let later = waiting.split_off(&(Revision(revision.0.saturating_add(1)), 0));
        for reader in std::mem::replace(waiting, later).into_values() {
            // The reader may have left meanwhile.
            let _ = reader.send(());
        }
        if waiting.is_empty() {
            self.by_app.remove(app);
        }
    }

    /// Ends all waits and refuses new ones.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.by_app.clear();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_app.is_empty()
    }
}

/// One wait, removed when dropped.
pub(super) struct Wait<'a> {
    state: &'a Mutex<State>,
    app: AppName,
    place: (Revision, u64),
    reached: oneshot::Receiver<()>,
}

impl<'a> Wait<'a> {
    /// Registers a wait. Returns `None` if the revision has arrived already.
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
            return Err(WaitError::TooMany(max));
        }
        waits.next += 1;
        let place = (revision, waits.next);
        let (sender, reached) = oneshot::channel();
        waits.by_app.entry(app.clone()).or_default().insert(place, sender);
        Ok(Some(Wait { state, app: app.clone(), place, reached }))
    }

    pub(super) async fn reached(&mut self) -> Result<(), WaitError> {
        // Only `end` drops the sender.
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
