//! `ReportService`: for workers, agents and anyone with one thing to say.

use tonic::{Request, Response, Status};

use crate::aggregator::Aggregator;
use crate::domain;
use crate::domain::command::Command;
use crate::domain::name::AppName;
use crate::domain::request::Outcome;
use crate::domain::status::advice;
use crate::proto::v1;
use crate::proto::v1::report_service_server::ReportService;
use crate::service::code::Problem;
use crate::service::convert::{self, Fields};

/// Serves reports.
pub struct Reports {
    aggregator: Aggregator,
}

impl Reports {
    /// Serves reports into this aggregator.
    pub fn new(aggregator: Aggregator) -> Reports {
        Reports { aggregator }
    }

    async fn apply(
        &self,
        app: &AppName,
        request: domain::command::Request,
    ) -> Result<Outcome, Problem> {
        self.aggregator.apply(app, request).await.map_err(|e| Problem::of(app, e))
    }
}

#[tonic::async_trait]
impl ReportService for Reports {
    async fn report_status(
        &self,
        request: Request<v1::ReportStatusRequest>,
    ) -> Result<Response<v1::ReportStatusResponse>, Status> {
        let mut wire = request.into_inner();
        let mut fields = Fields::default();
        let app = fields.app(&wire.namespace, &wire.application);
        let command = convert::report(&mut fields, &mut wire);
        let id = fields.request_id(&wire.request_id);
        let ((app, command), id) = fields.finish(app.zip(command).zip(id))?;
        let advice = advice_of(&command);
        let outcome = self.apply(&app, domain::command::Request { id, command }).await?;
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
        let mut wire = request.into_inner();
        let mut fields = Fields::default();
        let app = fields.app(&wire.namespace, &wire.application);
        let command = convert::replace(&mut fields, &mut wire);
        let id = fields.request_id(&wire.request_id);
        let ((app, command), id) = fields.finish(app.zip(command).zip(id))?;
        let advice = advice_of(&command);
        let outcome = self.apply(&app, domain::command::Request { id, command }).await?;
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
        let wire = request.into_inner();
        let mut fields = Fields::default();
        let app = fields.app(&wire.namespace, &wire.application);
        let command = convert::clear(&mut fields, &wire);
        let id = fields.request_id(&wire.request_id);
        let ((app, command), id) = fields.finish(app.zip(command).zip(id))?;
        let outcome = self.apply(&app, domain::command::Request { id, command }).await?;
        Ok(Response::new(v1::ClearStatusResponse {
            revision: outcome.revision.0,
            cleared_count: outcome.removed as i32,
        }))
    }
}

/// Each thing to say better once, however many statuses of a set it is about.
fn advice_of(command: &Command) -> Vec<String> {
    let reports: Vec<_> = match command {
        Command::Report(_, _, new) => vec![&new.report],
        Command::Replace(_, _, set) => set.iter().map(|new| &new.report).collect(),
        _ => Vec::new(),
    };
    let mut all: Vec<String> = reports.into_iter().flat_map(|report| advice(report)).collect();
    all.sort();
    all.dedup();
    all
}
