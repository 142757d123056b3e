//! Waiting for a revision: reads your own writes on any replica.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::sync::watch;

use super::State;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;

/// Who waits for which application.
#[derive(Debug, Default)]
pub(super) struct Waits(BTreeMap<AppName, watch::Sender<Revision>>);

impl Waits {
    /// An application is known at this revision.
    pub(super) fn tell(&self, app: &AppName, revision: Revision) {
        if let Some(sender) = self.0.get(app) {
            sender.send_replace(revision);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One who waits. Leaves nothing behind when dropped.
pub(super) struct Wait<'a> {
    state: &'a Mutex<State>,
    app: AppName,
    seen: Option<watch::Receiver<Revision>>,
}

impl<'a> Wait<'a> {
    /// Nothing if there is nothing to wait for.
    pub(super) fn new(
        state: &'a Mutex<State>,
        app: &AppName,
        revision: Revision,
    ) -> Option<Wait<'a>> {
        let mut locked = state.lock().expect("nothing panics while it is held");
        let known = locked.entries.get(app).map(|e| e.head.revision);
        let known = known.unwrap_or_default();
        if revision <= known {
            return None;
        }
        let waits = &mut locked.waits.0;
        let sender = waits.entry(app.clone());
        let sender = sender.or_insert_with(|| watch::Sender::new(known));
        Some(Wait { seen: Some(sender.subscribe()), app: app.clone(), state })
    }

    pub(super) async fn reached(&mut self, revision: Revision) {
        if let Some(seen) = &mut self.seen {
            // The sender stays as long as somebody waits.
            let _ = seen.wait_for(|known| revision <= *known).await;
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // Before counting who still waits.
        self.seen = None;
        if let Ok(mut state) = self.state.lock() {
            let waits = &mut state.waits.0;
            let left = waits.get(&self.app).map(watch::Sender::receiver_count);
            if left == Some(0) {
                waits.remove(&self.app);
            }
        }
    }
}
