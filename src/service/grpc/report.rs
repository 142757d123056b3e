//! `ReportService`: reports of workers, agents and scripts.

use tonic::{Request, Response, Status};

use crate::domain::app::AppState;
use crate::domain::command::Command;
use crate::domain::fault::FaultKey;
use crate::proto::v1;
use crate::proto::v1::report_service_server::ReportService;
use crate::service::convert;
use crate::service::grpc::handlers::{Applied, Handlers};
use crate::session;

#[tonic::async_trait]
impl ReportService for Handlers {
    async fn report_status(
        &self,
        request: Request<v1::ReportStatusRequest>,
    ) -> Result<Response<v1::ReportStatusResponse>, Status> {
        let applied = self.handle(request, convert::report).await?;
        let Applied { revision, changed, advice, .. } = applied;
        Ok(Response::new(v1::ReportStatusResponse { revision, changed, advice }))
    }

    async fn replace_statuses(
        &self,
        request: Request<v1::ReplaceStatusesRequest>,
    ) -> Result<Response<v1::ReplaceStatusesResponse>, Status> {
        let applied = self.handle(request, convert::replace).await?;
        let Applied { revision, changed, removed: removed_count, advice, .. } = applied;
        let answer = v1::ReplaceStatusesResponse { revision, changed, removed_count, advice };
        Ok(Response::new(answer))
    }

    async fn clear_status(
        &self,
        request: Request<v1::ClearStatusRequest>,
    ) -> Result<Response<v1::ClearStatusResponse>, Status> {
        let Applied { revision, removed, .. } = self.handle(request, convert::clear).await?;
        Ok(Response::new(v1::ClearStatusResponse { revision, cleared_count: removed }))
    }

    async fn report_error(
        &self,
        request: Request<v1::ReportErrorRequest>,
    ) -> Result<Response<v1::ReportErrorResponse>, Status> {
        let mut reported = None;
        let applied = self.handle(request, |fields, wire| {
            let request = convert::report_error(fields, wire, &self.parts.error_rules)?;
            reported = session::reported(&request.command);
            Some(request)
        });
        let Applied { app, outcome, revision, advice, .. } = applied.await?;
        let verdict = match reported {
            Some((key, finding)) => {
                let verdict =
                    |state: &AppState| state.faults().get(&key).map(|f| convert::verdict(f));
                let read = self.parts.aggregator.read(&app, outcome.revision, verdict).await;
                // The finding is known even if the fault has ended in the meantime.
                read.ok().flatten().or_else(|| Some(convert::finding_verdict(&finding)))
            }
            None => None,
        };
        Ok(Response::new(v1::ReportErrorResponse { verdict, revision, advice }))
    }

    async fn resolve_error(
        &self,
        request: Request<v1::ResolveErrorRequest>,
    ) -> Result<Response<v1::ResolveErrorResponse>, Status> {
        let (app, request) = convert::read(request, convert::resolve_error)?;
        let success = request.command.clone();
        let outcome = self.apply(&app, request).await?;
        let held = |state: &AppState| held(state, &success);
        let held_count = self.reads.if_there(&app, outcome.revision, held).await?;
        Ok(Response::new(v1::ResolveErrorResponse {
            revision: outcome.revision.0,
            resolved_count: outcome.removed as i32,
            // None if nothing was reported for this application.
            held_count: held_count.unwrap_or_default(),
        }))
    }
}

/// Counts the faults that stay open after a success.
fn held(state: &AppState, success: &Command) -> i32 {
    let Command::ResolveError { reporter, component, target, .. } = success else {
        return 0;
    };
    let of_component = state.faults().of(&reporter.unit, component.as_ref());
    let is_meant = |key: &FaultKey| target.as_ref().is_none_or(|t| key.target == *t);
    of_component.filter(|(key, f)| is_meant(key) && f.held_since.is_some()).count() as i32
}
