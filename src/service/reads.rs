//! Reads of one application, by whichever service.

use std::sync::Arc;

use crate::aggregator::{self, Aggregator};
use crate::domain::app::{AppState, Head};
use crate::domain::command::Rejected;
use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::service::code::Problem;
use crate::watch::Hub;

/// Reads applications that there are. Cheap to clone.
#[derive(Clone)]
pub struct Reads {
    aggregator: Aggregator,
    hub: Arc<Hub>,
}

impl Reads {
    /// Reads what the aggregator has, once the hub knows that it is there.
    pub fn new(aggregator: Aggregator, hub: Arc<Hub>) -> Reads {
        Reads { aggregator, hub }
    }

    /// Reads an application at `min_revision` or later; 0 is as it is.
    pub async fn read<T>(
        &self,
        app: &AppName,
        min_revision: u64,
        read: impl FnOnce(&AppState) -> T,
    ) -> Result<T, Problem> {
        let revision = Revision(min_revision);
        if 0 < min_revision {
            self.hub.wait_for(app, revision).await;
        }
        self.must_exist(app)?;
        let result = self.aggregator.read(app, revision, read).await;
        result.map_err(|e| Problem::of(app, e))
    }

    /// The same, also of an application that is not there: read as it is before its first report.
    pub async fn read_or_empty<T>(
        &self,
        app: &AppName,
        min_revision: u64,
        read: impl Fn(&AppState) -> T,
    ) -> Result<T, Problem> {
        let revision = Revision(min_revision);
        if 0 < min_revision {
            self.hub.wait_for(app, revision).await;
        }
        if self.must_exist(app).is_ok() {
            match self.aggregator.read(app, revision, &read).await {
                // It was deleted meanwhile.
                Err(aggregator::Error::Rejected(Rejected::ApplicationNotFound)) => {}
                result => return result.map_err(|e| Problem::of(app, e)),
            }
        }
        let head = self.hub.tombstone(app).map(|entry| (*entry.head).clone());
        let head = head.unwrap_or_else(|| Head::empty(Revision::default()));
        Ok(read(&AppState::load(app.clone(), Records::of_head(head))))
    }

    /// Refuses what nothing has been reported about: no task is started for what is not there.
    fn must_exist(&self, app: &AppName) -> Result<(), Problem> {
        match self.hub.get(app) {
            Some(_) => Ok(()),
            None => Err(Problem::application_not_found(app)),
        }
    }
}
