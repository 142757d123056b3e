//! `ReportService`: reports of workers, agents and scripts.

use tonic::{Request, Response, Status};

use crate::domain::app::AppState;
use crate::domain::command::Command;
use crate::domain::fault::FaultKey;
use crate::proto::v1;
use crate::proto::v1::report_service_server::ReportService;
use crate::service::convert;
use crate::service::handlers::{Handlers, read_texts};
use crate::session;

#[tonic::async_trait]
impl ReportService for Handlers {
    async fn report_status(
        &self,
        request: Request<v1::ReportStatusRequest>,
    ) -> Result<Response<v1::ReportStatusResponse>, Status> {
        let (outcome, advice) = self.handle_texts(request, convert::report).await?;
        Ok(Response::new(v1::ReportStatusResponse {
            revision: outcome.revision.0,
            changed: outcome.changed,
            advice,
        }))
    }

    async fn replace_statuses(
        &self,
        request: Request<v1::ReplaceStatusesRequest>,
    ) -> Result<Response<v1::ReplaceStatusesResponse>, Status> {
        let (outcome, advice) = self.handle_texts(request, convert::replace).await?;
        Ok(Response::new(v1::ReplaceStatusesResponse {
            revision: outcome.revision.0,
            changed: outcome.changed,
            removed_count: outcome.removed as i32,
            advice,
        }))
    }

    async fn clear_status(
        &self,
        request: Request<v1::ClearStatusRequest>,
    ) -> Result<Response<v1::ClearStatusResponse>, Status> {
        let (_, outcome) = self.handle(request, convert::clear).await?;
        Ok(Response::new(v1::ClearStatusResponse {
            revision: outcome.revision.0,
            cleared_count: outcome.removed as i32,
        }))
    }

    async fn report_error(
        &self,
        request: Request<v1::ReportErrorRequest>,
    ) -> Result<Response<v1::ReportErrorResponse>, Status> {
        let (app, request, advice) = read_texts(request, |fields, wire| {
            convert::report_error(fields, wire, &self.error_rules)
        })?;
        let reported = session::reported(&request.command);
        let outcome = self.apply(&app, request).await?;
        let verdict = match reported {
            Some((key, finding)) => {
                let verdict =
                    |state: &AppState| state.faults().get(&key).map(|f| convert::verdict(f));
                let read = self.aggregator.read(&app, outcome.revision, verdict).await;
                // The finding is known even if the fault has ended in the meantime.
                read.ok().flatten().or_else(|| Some(convert::finding_verdict(&finding)))
            }
            None => None,
        };
        Ok(Response::new(v1::ReportErrorResponse { verdict, revision: outcome.revision.0, advice }))
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
