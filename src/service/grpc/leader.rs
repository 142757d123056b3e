//! `LeaderService`: leadership, for units and for operators.

use tonic::{Request, Response, Status};

use crate::domain;
use crate::domain::app::AppState;
use crate::proto::v1;
use crate::proto::v1::leader_service_server::LeaderService;
use crate::service::code::ApiError;
use crate::service::convert::{self, Fields, Scoped};
use crate::service::grpc::handlers::{Applied, Handlers};

impl Handlers {
    /// Handles a command that grants or renews the lease of `unit`. Returns the lease and the
    /// revision; of a lease that has expired by now, by the store's clock, only unit and epoch are
    /// set.
    async fn grant<R: Scoped>(
        &self,
        unit: String,
        request: Request<R>,
        read: impl FnOnce(&mut Fields, R) -> Option<domain::command::Request>,
    ) -> Result<(Option<v1::Lease>, u64), ApiError> {
        let Applied { app, outcome, revision, .. } = self.handle(request, read).await?;
        let moment = self.parts.store.moment();
        let find = |state: &AppState| convert::lease(state, &moment);
        let lease = self.reads.after(&app, outcome.revision, find).await?;
        let lease_epoch = outcome.lease_epoch;
        let own = lease.filter(|lease| lease.lease_epoch == lease_epoch);
        let ended = || v1::Lease { unit, lease_epoch, ..v1::Lease::default() };
        Ok((Some(own.unwrap_or_else(ended)), revision))
    }
}

#[tonic::async_trait]
impl LeaderService for Handlers {
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
        let applied = self.handle(request, convert::release_leadership).await?;
        let Applied { revision, changed, .. } = applied;
        Ok(Response::new(v1::ReleaseLeadershipResponse { revision, changed }))
    }

    async fn get_leader(
        &self,
        request: Request<v1::GetLeaderRequest>,
    ) -> Result<Response<v1::GetLeaderResponse>, Status> {
        let (app, wire) = convert::app(request)?;
        let page = convert::page_size(wire.page_size)?;
        let moment = self.parts.store.moment();
        let read = |state: &AppState| {
            let (candidates, candidate_count) = convert::candidates(state, page);
            v1::GetLeaderResponse {
                lease: convert::lease(state, &moment),
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
