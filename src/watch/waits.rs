//! Waits for a revision: a client reads its own writes on any replica.
//!
//! Waits are sorted by revision, so a change wakes only those whose revision has arrived, no matter
//! how many wait for one that never comes.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

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

/// The place of a wait among those for its application.
pub(super) type Place = (Revision, u64);

/// Waits for one application, by revision, then by age.
type Waiting = BTreeMap<Place, oneshot::Sender<()>>;

/// All waits by application.
#[derive(Debug, Default)]
pub(super) struct Waits {
    by_app: BTreeMap<AppName, Waiting>,
    next: u64,
    has_ended: bool,
}

impl Waits {
    /// Adds a wait, unless the application has `max` already. Returns its place, and a receiver
    /// that the revision or the end of all waits completes.
    pub(super) fn add(
        &mut self,
        app: &AppName,
        revision: Revision,
        max: usize,
    ) -> Result<(Place, oneshot::Receiver<()>), WaitError> {
        if self.has_ended {
            return Err(WaitError::Ended);
        }
        if self.by_app.get(app).is_some_and(|waiting| max <= waiting.len()) {
            return Err(WaitError::TooMany(max));
        }
        self.next += 1;
        let place = (revision, self.next);
        let (sender, reached) = oneshot::channel();
        self.by_app.entry(app.clone()).or_default().insert(place, sender);
        Ok((place, reached))
    }

    /// Removes a wait that its reader has left. Its revision may have arrived before.
    pub(super) fn remove(&mut self, app: &AppName, place: Place) {
        let Some(waiting) = self.by_app.get_mut(app) else { return };
        waiting.remove(&place);
        if waiting.is_empty() {
            self.by_app.remove(app);
        }
    }

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
