//! `LeaderService`: leadership, for units and for operators.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use crate::aggregator::Aggregator;
use crate::domain;
use crate::domain::app::AppState;
use crate::proto::v1;
use crate::proto::v1::leader_service_server::LeaderService;
use crate::service::code::ApiError;
use crate::service::command;
use crate::service::convert::{self, Fields, Page, Scoped};
use crate::service::guard::Access;
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

    /// Handles a command that grants or renews the lease of `unit`. Returns the lease and the
    /// revision; of a lease that has expired by now, only unit and epoch are set.
    async fn grant<R: Scoped>(
        &self,
        unit: String,
        request: Request<R>,
        read: impl FnOnce(&mut Fields, R) -> Option<domain::command::Request>,
    ) -> Result<(Option<v1::Lease>, u64), ApiError> {
        let (app, outcome) = command::handle(&self.aggregator, request, read).await?;
        let now = self.store.now();
        let find = |state: &AppState| convert::lease(state, now);
        let lease = self.aggregator.read(&app, outcome.revision, find).await;
        let lease = lease.map_err(|e| ApiError::of(&app, e))?;
        let lease_epoch = outcome.lease_epoch;
        let own = lease.filter(|lease| lease.lease_epoch == lease_epoch);
        let ended = || v1::Lease { unit, lease_epoch, ..v1::Lease::default() };
        Ok((Some(own.unwrap_or_else(ended)), outcome.revision.0))
    }
}

#[tonic::async_trait]
impl LeaderService for Leaders {
    async fn claim_leadership(
        &self,
        request: Request<v1::ClaimLeadershipRequest>,
    ) -> Result<Response<v1::ClaimLeadershipResponse>, Status> {
        let unit = request.get_ref().unit.clone();
        let (lease, revision) = self.grant(unit, request, convert::claim_leadership).await?;
        Ok(Response::new(v1::ClaimLeadershipResponse { lease, revision }))
    }

    async fn renew_leadership(
        &self,
        request: Request<v1::RenewLeadershipRequest>,
    ) -> Result<Response<v1::RenewLeadershipResponse>, Status> {
        let unit = request.get_ref().unit.clone();
        let (lease, revision) = self.grant(unit, request, convert::renew_leadership).await?;
        Ok(Response::new(v1::RenewLeadershipResponse { lease, revision }))
    }

    async fn release_leadership(
        &self,
        request: Request<v1::ReleaseLeadershipRequest>,
    ) -> Result<Response<v1::ReleaseLeadershipResponse>, Status> {
        let (_, outcome) =
            command::handle(&self.aggregator, request, convert::release_leadership).await?;
        Ok(Response::new(v1::ReleaseLeadershipResponse {
            revision: outcome.revision.0,
            changed: outcome.changed,
        }))
    }

    async fn get_leader(
        &self,
        request: Request<v1::GetLeaderRequest>,
    ) -> Result<Response<v1::GetLeaderResponse>, Status> {
        let (access, wire) = Access::open(request);
        let app = convert::app(&access, &wire)?;
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
        let unit = request.get_ref().to_unit.clone();
        let (lease, revision) = self.grant(unit, request, convert::transfer_leadership).await?;
        Ok(Response::new(v1::TransferLeadershipResponse { lease, revision }))
    }
}
