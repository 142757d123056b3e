//! `OperationService`: durable records of work in flight.

use tonic::{Request, Response, Status};

use crate::aggregator;
use crate::domain;
use crate::domain::app::AppState;
use crate::domain::command::Command;
use crate::domain::name::{AppName, OperationId};
use crate::domain::operation::command::{OperationAction, OperationCommand};
use crate::domain::operation::refused::Refused;
use crate::domain::request::Outcome;
use crate::proto::v1;
use crate::proto::v1::operation_service_server::OperationService;
use crate::service::code::ApiError;
use crate::service::convert::{self, Fields, OnOperation, Page};
use crate::service::grpc::handlers::Handlers;

/// Result of a command: the operation after it, and the revision.
struct Done {
    operation: Option<v1::Operation>,
    revision: u64,
    changed: bool,
    advice: Vec<String>,
}

impl Handlers {
    /// Handles a command on an operation, and reads the operation afterwards.
    async fn operate<R: OnOperation>(
        &self,
        request: Request<R>,
        read: impl FnOnce(&mut Fields, &R) -> Option<OperationAction>,
    ) -> Result<Done, ApiError> {
        let (app, _, (command, id)) = convert::open(request, |fields, wire| {
            let (unit, operation_id) = wire.target();
            let by = fields.unit_or_application("unit", unit);
            let operation_id = fields.operation_id(operation_id);
            let action = read(fields, wire);
            let id = convert::request_id(fields, wire);
            Some((OperationCommand { id: operation_id?, by, action: action? }, id))
        })?;
        let asked = (command.id.clone(), command.action.clone());
        let request = domain::command::Request { id, command: Command::Operate(command) };
        let outcome = self.apply(&app, request).await?;
        let read = |state: &AppState| done(state, &asked.0, &asked.1, outcome);
        let done = self.reads.after(&app, outcome.revision, read).await?;
        done.map_err(|refused| refused_by(&app, refused))
    }
}

fn refused_by(app: &AppName, refused: Refused) -> ApiError {
    ApiError::of(app, aggregator::Error::Rejected(refused.into()))
}

/// Returns the operation after a command. A caller that would become the holder by this answer gets
/// an error if another unit has acquired the operation in the meantime.
fn done(
    state: &AppState,
    id: &OperationId,
    what: &OperationAction,
    outcome: Outcome,
) -> Result<Done, Refused> {
    let operations = state.operations();
    let operation = operations.get(id).ok_or_else(|| Refused::NotFound { id: id.clone() })?;
    // The answers to the unit that works have the payload.
    let (holds, with_payload) = match what {
        OperationAction::Begin(_) => (outcome.changed, true),
        OperationAction::Acquire { .. } => (true, true),
        _ => (false, false),
    };
    if holds && operation.fence != outcome.fence {
        let (given, current) = (outcome.fence, operation.fence);
        return Err(Refused::StaleFence { id: id.clone(), given, current });
    }
    let payload = operations.payload(id).filter(|_| with_payload);
    let shown = state.deadlines().shown(operation);
    Ok(Done {
        operation: Some(convert::operation(&state.name, id, &shown, payload)),
        revision: outcome.revision.0,
        changed: outcome.changed,
        advice: match what {
            OperationAction::Begin(new) if new.supersede && outcome.changed => {
                operations.advice(operation)
            }
            _ => Vec::new(),
        },
    })
}

#[tonic::async_trait]
impl OperationService for Handlers {
    async fn begin_operation(
        &self,
        request: Request<v1::BeginOperationRequest>,
    ) -> Result<Response<v1::BeginOperationResponse>, Status> {
        let done = self.operate(request, convert::begin).await?;
        let Done { operation, revision, changed: begun, advice } = done;
        Ok(Response::new(v1::BeginOperationResponse { operation, revision, begun, advice }))
    }

    async fn acquire_operation(
        &self,
        request: Request<v1::AcquireOperationRequest>,
    ) -> Result<Response<v1::AcquireOperationResponse>, Status> {
        let Done { operation, revision, .. } = self.operate(request, convert::acquire).await?;
        Ok(Response::new(v1::AcquireOperationResponse { operation, revision }))
    }

    async fn heartbeat_operation(
        &self,
        request: Request<v1::HeartbeatOperationRequest>,
    ) -> Result<Response<v1::HeartbeatOperationResponse>, Status> {
        let Done { operation, revision, .. } = self.operate(request, convert::heartbeat).await?;
        Ok(Response::new(v1::HeartbeatOperationResponse { operation, revision }))
    }

    async fn release_operation(
        &self,
        request: Request<v1::ReleaseOperationRequest>,
    ) -> Result<Response<v1::ReleaseOperationResponse>, Status> {
        let Done { operation, revision, .. } = self.operate(request, convert::release).await?;
        Ok(Response::new(v1::ReleaseOperationResponse { operation, revision }))
    }

    async fn complete_operation(
        &self,
        request: Request<v1::CompleteOperationRequest>,
    ) -> Result<Response<v1::CompleteOperationResponse>, Status> {
        let Done { operation, revision, .. } = self.operate(request, convert::complete).await?;
        Ok(Response::new(v1::CompleteOperationResponse { operation, revision }))
    }

    async fn fail_operation(
        &self,
        request: Request<v1::FailOperationRequest>,
    ) -> Result<Response<v1::FailOperationResponse>, Status> {
        let fail =
            |fields: &mut Fields, wire: &_| convert::fail(fields, wire, &self.parts.error_rules);
        let Done { operation, revision, .. } = self.operate(request, fail).await?;
        Ok(Response::new(v1::FailOperationResponse { operation, revision }))
    }

    async fn verify_operation(
        &self,
        request: Request<v1::VerifyOperationRequest>,
    ) -> Result<Response<v1::VerifyOperationResponse>, Status> {
        let Done { operation, revision, .. } = self.operate(request, convert::verify).await?;
        Ok(Response::new(v1::VerifyOperationResponse { operation, revision }))
    }

    async fn cancel_operation(
        &self,
        request: Request<v1::CancelOperationRequest>,
    ) -> Result<Response<v1::CancelOperationResponse>, Status> {
        let cancel = |_: &mut Fields, _: &_| Some(OperationAction::Cancel);
        let Done { operation, revision, .. } = self.operate(request, cancel).await?;
        Ok(Response::new(v1::CancelOperationResponse { operation, revision }))
    }

    async fn retry_operation(
        &self,
        request: Request<v1::RetryOperationRequest>,
    ) -> Result<Response<v1::RetryOperationResponse>, Status> {
        let retry = |_: &mut Fields, _: &_| Some(OperationAction::Retry);
        let Done { operation, revision, .. } = self.operate(request, retry).await?;
        Ok(Response::new(v1::RetryOperationResponse { operation, revision }))
    }

    async fn get_operation(
        &self,
        request: Request<v1::GetOperationRequest>,
    ) -> Result<Response<v1::GetOperationResponse>, Status> {
        let (app, wire, id) =
            convert::open(request, |fields, wire| fields.operation_id(&wire.operation_id))?;
        let get = |state: &AppState| {
            let operations = state.operations();
            let shown = state.deadlines().shown(operations.get(&id)?);
            Some(convert::operation(&app, &id, &shown, operations.payload(&id)))
        };
        let operation = match self.reads.read(&app, wire.min_revision, get).await? {
            Some(operation) => operation,
            None => return Err(refused_by(&app, Refused::NotFound { id }).into()),
        };
        Ok(Response::new(v1::GetOperationResponse { operation: Some(operation) }))
    }

    async fn list_operations(
        &self,
        request: Request<v1::ListOperationsRequest>,
    ) -> Result<Response<v1::ListOperationsResponse>, Status> {
        let (app, wire, (states, unit)) = convert::open(request, |fields, wire| {
            let unit = wire.unit.as_ref().map(|unit| fields.unit_or_application("unit", unit));
            Some((convert::states(fields, &wire.states), unit))
        })?;
        let asked = [&app.to_string(), &*format!("{states:?} {unit:?}")];
        let page = Page::open("ListOperations", &asked, wire.page_size, &wire.page_token)?;
        let list = |state: &AppState| {
            let wanted = state.operations().latest_first().into_iter().filter(|(_, operation)| {
                page.after.is_none_or(|before| operation.turn < before)
                    && (states.is_empty() || states.contains(&operation.state))
                    && unit.as_ref().is_none_or(|unit| operation.unit == *unit)
            });
            let shown = |operation| state.deadlines().shown(operation);
            let line = |id, operation| convert::operation_line(&app, id, &shown(operation));
            let wanted = wanted.map(|(id, operation)| (operation.turn, line(id, operation)));
            page.fill(wanted)
        };
        let (operations, next_page_token) = self.reads.read(&app, wire.min_revision, list).await?;
        Ok(Response::new(v1::ListOperationsResponse { operations, next_page_token }))
    }
}
