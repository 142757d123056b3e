//! Reads of one application, by whichever service.

use std::sync::Arc;

use crate::aggregator::Aggregator;
use crate::domain::app::AppState;
use crate::domain::name::AppName;
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

    /// Refuses what nothing has been reported about: no task is started for what is not there.
    pub fn must_exist(&self, app: &AppName) -> Result<(), Problem> {
        match self.hub.get(app) {
            Some(_) => Ok(()),
            None => Err(Problem::application_not_found(app)),
        }
    }
}
