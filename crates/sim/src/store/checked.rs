//! A store whose calls are checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether::domain::name::AppName;
use bellwether::domain::replay::Records;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::domain::unit::presence::ReplicaId;
use bellwether::store::{
    Broadcast, CommitError, Epoch, Moment, NumberedEvent, Observer, ReadError, Space, Store,
    Version,
};

/// What is checked of a store.
pub(super) trait Checks: Send + Sync + 'static {
    /// Checks the records of an application.
    fn on_read(&self, app: &AppName, records: &Records);

    /// Checks events of an application, newest first.
    fn on_events(&self, app: &AppName, before: Option<u64>, events: &[NumberedEvent]);

    /// Records a commit that is sent.
    fn on_sent(&self, transition: &Arc<Transition>);

    /// Checks the answer to a commit.
    fn on_answer(&self, transition: &Arc<Transition>, answer: &Result<(), CommitError>);
}

/// The store of one process, with its checks.
pub(super) struct Checked<S, C> {
    pub(super) store: Arc<S>,
    pub(super) checks: Arc<C>,
}

#[async_trait::async_trait]
impl<S: Store, C: Checks> Store for Checked<S, C> {
    fn now(&self) -> Timestamp {
        self.store.now()
    }

    fn moment(&self) -> Moment {
        self.store.moment()
    }

    fn epoch(&self) -> Epoch {
        self.store.epoch()
    }

    fn epoch_floor(&self, app: &AppName) -> u64 {
        self.store.epoch_floor(app)
    }

    fn buckets(&self) -> u16 {
        self.store.buckets()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    async fn load(&self, app: &AppName) -> Result<Records, ReadError> {
        let read = self.store.load(app).await;
        if let Ok(records) = &read {
            self.checks.on_read(app, records);
        }
        read
    }

    async fn release(&self, app: &AppName) {
        self.store.release(app).await;
    }

    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        self.checks.on_sent(&transition);
        let answer = self.store.commit(transition.clone()).await;
        self.checks.on_answer(&transition, &answer);
        answer
    }

    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        self.store.confirm(app, version).await
    }

    fn follow(&self, observer: Arc<dyn Observer>) {
        self.store.follow(observer);
    }

    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        let read = self.store.events(app, before, count_max).await;
        if let Ok(events) = &read {
            self.checks.on_events(app, before, events);
        }
        read
    }

    fn replica(&self) -> ReplicaId {
        self.store.replica()
    }

    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        self.store.beat().await
    }

    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError> {
        self.store.broadcast(notice).await
    }

    async fn space(&self) -> Option<Space> {
        None
    }

    fn health(&self) -> Result<(), String> {
        self.store.health()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
