//! Reads of one application, shared by the services.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::aggregator::{self, Aggregator};
use crate::domain::app::{AppState, Head};
use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::service::code::{ApiError, Reason};
use crate::watch::{Entry, Hub};

/// How long a read waits for a revision. A replica receives a commit within milliseconds, and
/// within seconds during a failover of its store.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Reads existing applications. Cheap to clone.
#[derive(Clone)]
pub struct Reads {
    aggregator: Aggregator,
    hub: Arc<Hub>,
}

impl Reads {
    /// Creates a reader. It reads the aggregator's state after the hub has confirmed that the
    /// application exists.
    pub fn new(aggregator: Aggregator, hub: Arc<Hub>) -> Reads {
        Reads { aggregator, hub }
    }

    /// Reads an application at `min_revision` or later; 0 reads the current state.
    pub async fn read<T>(
        &self,
        app: &AppName,
        min_revision: u64,
        read: impl FnOnce(&AppState) -> T,
    ) -> Result<T, ApiError> {
        let read = async {
            self.known(app)?;
            self.after(app, Revision(min_revision), read).await
        };
        self.in_time(app, min_revision, read).await
    }

    /// Reads an application at a revision that a command on it has just reached, or later.
    pub async fn after<T>(
        &self,
        app: &AppName,
        revision: Revision,
        read: impl FnOnce(&AppState) -> T,
    ) -> Result<T, ApiError> {
        self.aggregator.read(app, revision, read).await.map_err(|e| ApiError::of(app, e))
    }

    /// Like `after`; `None` if the application does not exist, or was deleted in the meantime.
    pub async fn if_there<T>(
        &self,
        app: &AppName,
        revision: Revision,
        read: impl FnOnce(&AppState) -> T,
    ) -> Result<Option<T>, ApiError> {
        match self.aggregator.read(app, revision, read).await {
            Err(aggregator::Error::Rejected(_)) => Ok(None),
            read => read.map(Some).map_err(|e| ApiError::of(app, e)),
        }
    }

    /// Returns the newest known entry of an application, at `min_revision` or later; 0 does not
    /// wait.
    pub async fn entry(&self, app: &AppName, min_revision: u64) -> Result<Arc<Entry>, ApiError> {
        self.in_time(app, min_revision, async { self.known(app) }).await
    }

    /// Reads after the application has reached `min_revision`. Limits the time until then, even if
    /// the caller has no deadline: the revision may never exist.
    async fn in_time<T>(
        &self,
        app: &AppName,
        min_revision: u64,
        read: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        if min_revision == 0 {
            return read.await;
        }
        let read = async {
            self.hub.wait_for(app, Revision(min_revision)).await?;
            read.await
        };
        match tokio::time::timeout(WAIT_MAX, read).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(self.not_reached(app, min_revision)),
        }
    }

    fn not_reached(&self, app: &AppName, min_revision: u64) -> ApiError {
        let revision = self.hub.get(app).map_or(0, |entry| entry.revision().0);
        let text = format!(
            "{app} did not reach revision {min_revision} within {} s, it is at {revision}; read it \
             without min_revision, or check the source of that revision",
            WAIT_MAX.as_secs()
        );
        ApiError::new(Reason::RevisionNotReached, text)
            .about(app)
            .with("revision", revision)
            .with("min_revision", min_revision)
    }

    /// Like [`Reads::read`], but an application that does not exist is read as it is before its
    /// first report.
    pub async fn read_or_empty<T>(
        &self,
        app: &AppName,
        min_revision: u64,
        read: impl Fn(&AppState) -> T,
    ) -> Result<T, ApiError> {
        let read = async {
            if self.known(app).is_ok()
                && let Some(read) = self.if_there(app, Revision(min_revision), &read).await?
            {
                return Ok(read);
            }
            let head = self.hub.tombstone(app).map(|entry| Head::clone(&entry.head()));
            let head = head.unwrap_or_else(|| Head::empty(Revision::default()));
            Ok(read(&AppState::load(app.clone(), Records::of_head(head))))
        };
        self.in_time(app, min_revision, read).await
    }

    /// Refuses an application without reports, so that no task is started for it.
    fn known(&self, app: &AppName) -> Result<Arc<Entry>, ApiError> {
        self.hub.get(app).ok_or_else(|| ApiError::application_not_found(app))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregator;
    use crate::store::{MemoryStore, Retention, Store};
    use crate::telemetry::Metrics;
    use crate::watch::Limits;

    #[tokio::test(start_paused = true)]
    async fn a_revision_that_never_comes_is_waited_for_in_vain_and_not_for_ever() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Retention::default()));
        let hub = Arc::new(Hub::new(store.epoch(), 1, false, Limits::default()));
        let options = aggregator::Options::default();
        let aggregator = Aggregator::start(store, options, Metrics::disabled());
        let reads = Reads::new(aggregator, hub);
        let app = AppName::new("", "web").unwrap();
        let start = tokio::time::Instant::now();
        let read = reads.read(&app, 7, |_| ()).await;
        let entry = reads.entry(&app, 7).await.map(drop);
        assert_eq!(start.elapsed(), 2 * WAIT_MAX);
        for answer in [read, entry] {
            let status = tonic::Status::from(answer.unwrap_err());
            assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
            assert!(status.message().contains("did not reach revision 7"), "{}", status.message());
        }
    }
}
