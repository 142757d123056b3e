//! `LeaderService`: leadership, for units and for operators.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use crate::aggregator::Aggregator;
use crate::domain::app::AppState;
use crate::domain::command::{self, Command};
use crate::domain::limits::{LEASE_DURATION_MAX, LEASE_DURATION_MIN};
use crate::domain::name::{AppName, UnitName};
use crate::domain::request::{Outcome, RequestId};
use crate::proto::v1;
use crate::proto::v1::leader_service_server::LeaderService;
use crate::service::code::ApiError;
use crate::service::convert::{self, Fields, Page};
use crate::service::reads::Reads;
use crate::store::Store;
use crate::watch::Hub;

/// Handler of `LeaderService`.
pub struct Leaders {
    aggregator: Aggregator,
    reads: Reads,
    store: Arc<dyn Store>,
}

impl Leaders {
    /// Creates the handler. The store's clock determines which leases have expired.
    pub fn new(aggregator: Aggregator, hub: Arc<Hub>, store: Arc<dyn Store>) -> Leaders {
        let reads = Reads::new(aggregator.clone(), hub);
        Leaders { aggregator, reads, store }
    }

    async fn apply(
        &self,
        app: &AppName,
        id: Option<RequestId>,
        command: Command,
    ) -> Result<Outcome, ApiError> {
        let request = command::Request { id, command };
        self.aggregator.apply(app, request).await.map_err(|e| ApiError::of(app, e))
    }

    /// Returns the lease that a unit was granted. If it has expired by now, only unit and epoch are
    /// set.
    async fn lease(
        &self,
        app: &AppName,
        unit: &UnitName,
        outcome: Outcome,
    ) -> Result<v1::Lease, ApiError> {
        let now = self.store.now();
        let find = |state: &AppState| convert::lease(state, now);
        let lease = self.aggregator.read(app, outcome.revision, find).await;
        let lease = lease.map_err(|e| ApiError::of(app, e))?;
        let own = |lease: &v1::Lease| lease.lease_epoch == outcome.lease_epoch;
        Ok(lease.filter(own).unwrap_or_else(|| v1::Lease {
            unit: unit.to_string(),
            lease_epoch: outcome.lease_epoch,
            ..v1::Lease::default()
        }))
    }
}

#[tonic::async_trait]
impl LeaderService for Leaders {
    async fn claim_leadership(
        &self,
        request: Request<v1::ClaimLeadershipRequest>,
    ) -> Result<Response<v1::ClaimLeadershipResponse>, Status> {
        let wire = request.into_inner();
        let mut fields = Fields::default();
        let app = fields.app(&wire.namespace, &wire.application);
        let reporter = convert::reporter(&mut fields, &wire.unit, wire.incarnation);
        let given = wire.lease_duration.as_ref();
        let duration =
            fields.duration("lease_duration", given, LEASE_DURATION_MIN, LEASE_DURATION_MAX);
        let id = convert::request_id(&mut fields, &wire);
        let read = app.zip(reporter).zip(duration).zip(id);
        let (((app, reporter), duration), id) = fields.finish(read)?;
        let unit = reporter.unit.clone();
        let outcome = self.apply(&app, id, Command::ClaimLeadership(reporter, duration)).await?;
        Ok(Response::new(v1::ClaimLeadershipResponse {
            lease: Some(self.lease(&app, &unit, outcome).await?),
            revision: outcome.revision.0,
        }))
    }

    async fn renew_leadership(
        &self,
        request: Request<v1::RenewLeadershipRequest>,
    ) -> Result<Response<v1::RenewLeadershipResponse>, Status> {
        let wire = request.into_inner();
        let mut fields = Fields::default();
        let app = fields.app(&wire.namespace, &wire.application);
        let claim = convert::claim(&mut fields, &wire.unit, wire.lease_epoch);
        let (app, claim) = fields.finish(app.zip(claim))?;
        let unit = claim.unit.clone();
        let outcome = self.apply(&app, None, Command::RenewLeadership(claim)).await?;
        Ok(Response::new(v1::RenewLeadershipResponse {
            lease: Some(self.lease(&app, &unit, outcome).await?),
            revision: outcome.revision.0,
        }))
    }

    async fn release_leadership(
        &self,
        request: Request<v1::ReleaseLeadershipRequest>,
    ) -> Result<Response<v1::ReleaseLeadershipResponse>, Status> {
        let wire = request.into_inner();
        let mut fields = Fields::default();
        let app = fields.app(&wire.namespace, &wire.application);
        let claim = convert::claim(&mut fields, &wire.unit, wire.lease_epoch);
        let id = convert::request_id(&mut fields, &wire);
        let ((app, claim), id) = fields.finish(app.zip(claim).zip(id))?;
        let outcome = self.apply(&app, id, Command::ReleaseLeadership(claim)).await?;
        Ok(Response::new(v1::ReleaseLeadershipResponse {
            revision: outcome.revision.0,
            changed: outcome.changed,
        }))
    }

    async fn get_leader(
        &self,
        request: Request<v1::GetLeaderRequest>,
    ) -> Result<Response<v1::GetLeaderResponse>, Status> {
        let wire = request.into_inner();
        let mut fields = Fields::default();
        let app = fields.app(&wire.namespace, &wire.application);
        let app = fields.finish(app)?;
        let page = Page::from_wire(wire.page_size)?;
        let now = self.store.now();
        let read = |state: &AppState| {
            let (candidates, candidate_count) = convert::candidates(state, page.0);
            v1::GetLeaderResponse {
                lease: convert::lease(state, now),
                lease_epoch: state.head().valid_epoch(),
                candidates,
                candidate_count,
                revision: state.head().revision.0,
            }
        };
        Ok(Response::new(self.reads.read_or_empty(&app, wire.min_revision, read).await?))
    }

    async fn transfer_leadership(
        &self,
        request: Request<v1::TransferLeadershipRequest>,
    ) -> Result<Response<v1::TransferLeadershipResponse>, Status> {
        let wire = request.into_inner();
        let mut fields = Fields::default();
        let app = fields.app(&wire.namespace, &wire.application);
        let unit = fields.unit("to_unit", &wire.to_unit);
        let id = convert::request_id(&mut fields, &wire);
        let ((app, unit), id) = fields.finish(app.zip(unit).zip(id))?;
        let outcome = self.apply(&app, id, Command::TransferLeadership(unit.clone())).await?;
        Ok(Response::new(v1::TransferLeadershipResponse {
            lease: Some(self.lease(&app, &unit, outcome).await?),
            revision: outcome.revision.0,
        }))
    }
}
