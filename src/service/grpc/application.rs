//! `ApplicationService`: for readers, watchers and operators.

use tokio_stream::Empty;
use tonic::{Request, Response, Status, Streaming};

use crate::domain::app::AppState;
use crate::domain::derive::derive;
use crate::domain::level::Level;
use crate::domain::name::{OperationId, UnitName};
use crate::proto::v1;
use crate::proto::v1::application_service_server::ApplicationService;
use crate::service::call::Access;
use crate::service::code::ApiError;
use crate::service::convert::{self, PAGE_BYTES_MAX, Page};
use crate::service::grpc::handlers::{Applied, Handlers};
use crate::service::grpc::{collect, faults, marks, statuses, units};
use crate::service::memory_age::{AS_OF, AS_OF_UPSTREAM};

impl Handlers {
    /// Wraps the answer to a read. While the store is unreachable, the metadata has the time at
    /// which the outage began.
    fn as_of<T>(&self, message: T) -> Response<T> {
        self.dated(Response::new(message), None)
    }

    /// Wraps the answer to a read about a namespace; `None`: about all of them. In a relay, only
    /// the upstreams that it depends on count.
    fn as_of_in<T>(&self, namespace: Option<&str>, message: T) -> Response<T> {
        self.dated(Response::new(message), namespace)
    }

    fn dated<T>(&self, mut response: Response<T>, namespace: Option<&str>) -> Response<T> {
        let Some(stale) = self.parts.stale(namespace) else { return response };
        let metadata = response.metadata_mut();
        if let Ok(since) = convert::timestamp(stale.since).to_string().parse() {
            metadata.insert(AS_OF, since);
        }
        if let Some(upstreams) =
            stale.upstreams.parse().ok().filter(|_| !stale.upstreams.is_empty())
        {
            metadata.insert(AS_OF_UPSTREAM, upstreams);
        }
        response
    }
}

#[tonic::async_trait]
impl ApplicationService for Handlers {
    // `route` passes these two calls to `watch`, so they do not reach this handler.
    type WatchApplicationsStream = Empty<Result<v1::WatchApplicationsResponse, Status>>;
    type MultiplexWatchesStream = Empty<Result<v1::MultiplexWatchesResponse, Status>>;

    async fn get_application(
        &self,
        request: Request<v1::GetApplicationRequest>,
    ) -> Result<Response<v1::GetApplicationResponse>, Status> {
        let (app, wire) = convert::app(request)?;
        let entry = self.reads.entry(&app, wire.min_revision).await?;
        let answer = v1::GetApplicationResponse { application: Some(convert::shown(&entry)) };
        Ok(self.as_of_in(Some(app.namespace()), answer))
    }

    async fn list_applications(
        &self,
        request: Request<v1::ListApplicationsRequest>,
    ) -> Result<Response<v1::ListApplicationsResponse>, Status> {
        let (access, wire) = Access::open(request);
        let (namespace, levels) = convert::list_applications(&access, &wire)?;
        let namespace = namespace.as_deref();
        let asked = [namespace.unwrap_or("-"), &format!("{levels:?}")];
        let page = Page::open("ListApplications", &asked, wire.page_size, &wire.page_token)?;
        let found = self.parts.hub.list(namespace, page.after.as_ref(), &levels, page.size + 1);
        let found = found.iter().map(|e| (&e.app, convert::shown(e)));
        let (applications, next_page_token) = page.fill(found);
        let answer = v1::ListApplicationsResponse { applications, next_page_token };
        Ok(self.as_of_in(namespace, answer))
    }

    async fn list_namespaces(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        Ok(self.as_of(self.namespaces(request).await?))
    }

    async fn explain_application(
        &self,
        request: Request<v1::ExplainApplicationRequest>,
    ) -> Result<Response<v1::ExplainApplicationResponse>, Status> {
        let reader = Access::of(request.extensions()).reader();
        let (app, wire) = convert::app(request)?;
        let page = convert::page_size(wire.page_size)?;
        let explain = |state: &AppState| explain(state, page);
        let answer = self.reads.read(&app, wire.min_revision, explain).await?;
        let observer_suspect = self.parts.sessions.is_suspect(&app);
        let needs = answer.application.as_ref().is_some_and(|app| !app.needs.is_empty());
        let (causes, causes_rest_count) = match needs {
            true => self.blockers.causes(&self.parts, &self.offload, (&app, &reader)).await,
            false => (Vec::new(), 0),
        };
        let answer = v1::ExplainApplicationResponse { causes, causes_rest_count, ..answer };
        Ok(self.as_of(v1::ExplainApplicationResponse { observer_suspect, ..answer }))
    }

    async fn list_statuses(
        &self,
        request: Request<v1::ListStatusesRequest>,
    ) -> Result<Response<v1::ListStatusesResponse>, Status> {
        Ok(self.as_of(statuses::list(self, request).await?))
    }

    async fn list_units(
        &self,
        request: Request<v1::ListUnitsRequest>,
    ) -> Result<Response<v1::ListUnitsResponse>, Status> {
        Ok(self.as_of(units::list(self, request).await?))
    }

    async fn list_faults(
        &self,
        request: Request<v1::ListFaultsRequest>,
    ) -> Result<Response<v1::ListFaultsResponse>, Status> {
        Ok(self.as_of(self.list_of_faults(request).await?))
    }

    async fn list_blockers(
        &self,
        request: Request<v1::ListBlockersRequest>,
    ) -> Result<Response<v1::ListBlockersResponse>, Status> {
        let answer = self.blockers.list(&self.parts, &self.offload, request).await?;
        Ok(self.dated(answer, None))
    }

    async fn resolve_hold(
        &self,
        request: Request<v1::ResolveHoldRequest>,
    ) -> Result<Response<v1::ResolveHoldResponse>, Status> {
        let Applied { revision, removed, .. } = self.handle(request, convert::resolve_hold).await?;
        Ok(Response::new(v1::ResolveHoldResponse { revision, released_count: removed }))
    }

    async fn set_mark(
        &self,
        request: Request<v1::SetMarkRequest>,
    ) -> Result<Response<v1::SetMarkResponse>, Status> {
        marks::set(self, request).await
    }

    async fn remove_mark(
        &self,
        request: Request<v1::RemoveMarkRequest>,
    ) -> Result<Response<v1::RemoveMarkResponse>, Status> {
        let Applied { revision, .. } = self.handle(request, convert::remove_mark).await?;
        Ok(Response::new(v1::RemoveMarkResponse { revision }))
    }

    async fn list_marks(
        &self,
        request: Request<v1::ListMarksRequest>,
    ) -> Result<Response<v1::ListMarksResponse>, Status> {
        Ok(self.as_of(marks::list(self, request).await?))
    }

    async fn watch_applications(
        &self,
        _: Request<v1::WatchApplicationsRequest>,
    ) -> Result<Response<Self::WatchApplicationsStream>, Status> {
        Err(not_routed())
    }

    async fn multiplex_watches(
        &self,
        _: Request<Streaming<v1::MultiplexWatchesRequest>>,
    ) -> Result<Response<Self::MultiplexWatchesStream>, Status> {
        Err(not_routed())
    }

    async fn collect_application(
        &self,
        request: Request<v1::CollectApplicationRequest>,
    ) -> Result<Response<v1::CollectApplicationResponse>, Status> {
        let answer = collect::collect(self, request).await?;
        Ok(self.as_of(answer))
    }

    async fn list_status_events(
        &self,
        request: Request<v1::ListStatusEventsRequest>,
    ) -> Result<Response<v1::ListStatusEventsResponse>, Status> {
        let (app, wire, (unit, after_time)) = convert::open(request, |fields, wire| {
            let unit = fields.unit_or_application("unit", &wire.unit);
            Some((unit, fields.moment("after_time", wire.after_time)))
        })?;
        let asked = [&app.to_string(), unit.as_str()];
        let page = Page::open("ListStatusEvents", &asked, wire.page_size, &wire.page_token)?;
        let mut before: Option<u64> = page.after;
        let (mut events, mut bytes) = (Vec::new(), 0);
        // The events of one unit lie between those of other units, so one page may need several
        // reads.
        let next = 'page: loop {
            let read =
                self.parts.store.events(&app, before, page.size).await.map_err(ApiError::from)?;
            let is_last = read.len() < page.size;
            for numbered in read {
                if after_time.is_some_and(|after| numbered.event.time <= after) {
                    break 'page None;
                }
                let subject = numbered.event.subject.as_ref();
                if unit.is_application() || subject.is_some_and(|s| s.unit == unit) {
                    let event = convert::event(&numbered.event);
                    bytes += convert::framed(&event);
                    if PAGE_BYTES_MAX < bytes {
                        break 'page before;
                    }
                    events.push(event);
                }
                before = Some(numbered.number);
                if events.len() == page.size {
                    break 'page before;
                }
            }
            if !is_last {
                continue;
            }
            // Events outlive a deletion, so an empty history means that the application never
            // existed.
            if events.is_empty() && wire.page_token.is_empty() && self.parts.hub.get(&app).is_none()
            {
                return Err(ApiError::application_not_found(&app).into());
            }
            break None;
        };
        let next_page_token = page.token(next);
        Ok(Response::new(v1::ListStatusEventsResponse { events, next_page_token }))
    }

    async fn get_uptime(
        &self,
        request: Request<v1::GetUptimeRequest>,
    ) -> Result<Response<v1::GetUptimeResponse>, Status> {
        Ok(self.as_of(self.uptime(request).await?))
    }

    async fn list_past(
        &self,
        request: Request<v1::ListPastRequest>,
    ) -> Result<Response<v1::ListPastResponse>, Status> {
        Ok(self.as_of(self.past(request).await?))
    }

    async fn configure_application(
        &self,
        request: Request<v1::ConfigureApplicationRequest>,
    ) -> Result<Response<v1::ConfigureApplicationResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        let applied = self.handle(request, convert::configure_application).await?;
        let Applied { app, revision, .. } = applied;
        // A repeat gets the configuration of the first answer, as it gets its revision.
        let config = |state: &AppState| {
            convert::config(state.answered_config(&id).unwrap_or(&state.head().config))
        };
        let config = Some(self.reads.read(&app, revision, config).await?);
        Ok(Response::new(v1::ConfigureApplicationResponse { revision, config }))
    }

    async fn set_application_status(
        &self,
        request: Request<v1::SetApplicationStatusRequest>,
    ) -> Result<Response<v1::SetApplicationStatusResponse>, Status> {
        let applied = self.handle(request, convert::set_application_status).await?;
        let Applied { revision, changed, advice, .. } = applied;
        Ok(Response::new(v1::SetApplicationStatusResponse { revision, changed, advice }))
    }

    async fn replace_application_statuses(
        &self,
        request: Request<v1::ReplaceApplicationStatusesRequest>,
    ) -> Result<Response<v1::ReplaceApplicationStatusesResponse>, Status> {
        let applied = self.handle(request, convert::replace_application_statuses).await?;
        let Applied { revision, changed, removed, advice, .. } = applied;
        Ok(Response::new(v1::ReplaceApplicationStatusesResponse {
            revision,
            changed,
            removed_count: removed,
            advice,
        }))
    }

    async fn clear_application_status(
        &self,
        request: Request<v1::ClearApplicationStatusRequest>,
    ) -> Result<Response<v1::ClearApplicationStatusResponse>, Status> {
        let applied = self.handle(request, convert::clear_application_status).await?;
        let Applied { revision, changed, .. } = applied;
        Ok(Response::new(v1::ClearApplicationStatusResponse { revision, changed }))
    }

    async fn remove_unit(
        &self,
        request: Request<v1::RemoveUnitRequest>,
    ) -> Result<Response<v1::RemoveUnitResponse>, Status> {
        let Applied { revision, removed, .. } = self.handle(request, convert::remove_unit).await?;
        Ok(Response::new(v1::RemoveUnitResponse { revision, removed_count: removed }))
    }

    async fn delete_application(
        &self,
        request: Request<v1::DeleteApplicationRequest>,
    ) -> Result<Response<v1::DeleteApplicationResponse>, Status> {
        let (app, _, id) =
            convert::open(request, |fields, wire| Some(convert::request_id(fields, wire)))?;
        let deleted = self.parts.aggregator.delete(&app, id).await;
        let outcome = deleted.map_err(|e| ApiError::of(&app, e))?;
        Ok(Response::new(v1::DeleteApplicationResponse { revision: outcome.revision.0 }))
    }
}

fn not_routed() -> Status {
    Status::internal("watches are served by service::route, which did not see this call")
}

fn explain(state: &AppState, beaten_max: usize) -> v1::ExplainApplicationResponse {
    let derived = derive(state, beaten_max);
    let head = state.head();
    let winner = derived.winner.as_ref().map(convert::contribution);
    let beaten = derived.others.iter().map(|other| ((), convert::contribution(other)));
    let (holds, holds_rest_count) = faults::holds(state, beaten_max);
    let application = UnitName::application();
    let faults = faults::of(state, &application, None, false);
    v1::ExplainApplicationResponse {
        application: Some(convert::application(&state.name, head)),
        winner: winner.or_else(|| convert::override_contribution(head)),
        rule: head.summary.rule.words(&head.config.policy),
        beaten: convert::fill(beaten, beaten_max).0,
        beaten_count: derived.others_count as i32,
        silent_count: derived.silent_count as i32,
        observer_suspect: false,
        causes: Vec::new(),
        causes_rest_count: 0,
        marks: marks::of(state, None).map(|(_, mark)| mark).collect(),
        operations: operations(state, beaten_max),
        faults: convert::fill(faults, beaten_max).0,
        fault_count: head.open_faults.count as i32,
        holds,
        holds_rest_count,
    }
}

/// Returns the latest operation of the application, then the unfinished and failed ones of its
/// units, the latest first.
fn operations(state: &AppState, count_max: usize) -> Vec<v1::Operation> {
    let all = state.operations().latest_first();
    let is_shown = |unit: &UnitName, id: &OperationId| {
        let shown = state.unit(unit).and_then(|unit| unit.operation.as_ref());
        shown.is_some_and(|shown| shown.id == *id && shown.level != Level::Active)
    };
    let of_units = all.into_iter().filter(|(id, operation)| is_shown(&operation.unit, id));
    let all = state.operations().last().into_iter().chain(of_units);
    let shown = |operation| state.deadlines().shown(operation);
    let line = |id, operation| convert::operation_line(&state.name, id, &shown(operation));
    let lines = all.map(|(id, operation)| ((), line(id, operation)));
    convert::fill(lines, count_max).0
}
