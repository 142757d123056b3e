//! `grpc.health.v1`, to the letter: the server as `""` and under the names of its services, every
//! application as `namespace/application`.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::proto::health::health_check_response::ServingStatus;
use crate::proto::health::health_server::Health;
use crate::proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use crate::proto::v1::{
    app_data_service_server, application_service_server, leader_service_server,
    operation_service_server, report_service_server, server_service_server, worker_service_server,
};
use crate::service::code::{Problem, Reason, quoted};
use crate::service::edge::Caller;
use crate::service::watch::{Place, Watches};
use crate::watch::{Event, Expired, Filter, Hub, Scope, Start, WatchError, Watcher};

/// Applications that `List` answers at most; its specification allows to refuse more.
const LIST_MAX: usize = 10_000;

/// Services whose health is that of the server: clients with health checks of their own ask by the
/// name of the service that they call.
const SERVICES: [&str; 7] = [
    report_service_server::SERVICE_NAME,
    worker_service_server::SERVICE_NAME,
    application_service_server::SERVICE_NAME,
    operation_service_server::SERVICE_NAME,
    leader_service_server::SERVICE_NAME,
    app_data_service_server::SERVICE_NAME,
    server_service_server::SERVICE_NAME,
];

/// Bytes that `List` answers at most: clients take 4 MiB.
const LIST_BYTES_MAX: usize = 3 << 20;
/// Bytes of an entry beside its name.
const ENTRY_BYTES: usize = 16;

type StatusStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

/// Serves health.
pub struct Healths {
    hub: Arc<Hub>,
    watches: Watches,
    draining: CancellationToken,
}

impl Healths {
    /// Serves the health of what the hub follows; of the server, until it drains.
    pub fn new(hub: Arc<Hub>, watches: Watches, draining: CancellationToken) -> Healths {
        Healths { hub, watches, draining }
    }

    fn server(&self) -> ServingStatus {
        match self.draining.is_cancelled() {
            true => ServingStatus::NotServing,
            false => ServingStatus::Serving,
        }
    }
}

/// SERVING while the level is one that its configuration says so of.
fn serving(head: &Head) -> ServingStatus {
    match head.config.serving_levels.contains(&head.summary.level) {
        true => ServingStatus::Serving,
        false => ServingStatus::NotServing,
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

/// Whether a service name means the server as a whole.
fn is_server(service: &str) -> bool {
    service.is_empty() || SERVICES.contains(&service)
}

fn not_found(service: &str) -> Problem {
    let text = format!(
        "no service {}; the server is the empty name, applications are services named \
         namespace/application",
        quoted(service)
    );
    Problem::new(Reason::ServiceNotFound, text)
}

/// The application that a service name means, if it can mean one.
fn app_of(service: &str) -> Option<AppName> {
    let (namespace, application) = service.split_once('/')?;
    AppName::new(namespace, application).ok()
}

#[tonic::async_trait]
impl Health for Healths {
    type WatchStream = StatusStream;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        if is_server(&service) {
            return Ok(Response::new(response(self.server())));
        }
        match app_of(&service).and_then(|app| self.hub.get(&app)) {
            Some(entry) => Ok(Response::new(response(serving(&entry.head)))),
            None => Err(not_found(&service).into()),
        }
    }

    async fn list(
        &self,
        _request: Request<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        let entries = self.hub.list(None, None, &BTreeSet::new(), LIST_MAX + 1);
        if LIST_MAX < entries.len() {
            let text = format!("there are more than {LIST_MAX} applications; ask for one by name");
            let problem = Problem::new(Reason::LimitExceeded, text);
            return Err(problem.with("limit", "health_list_max").with("max", LIST_MAX).into());
        }
        let bytes: usize = entries.iter().map(|e| e.app.to_string().len() + ENTRY_BYTES).sum();
        if LIST_BYTES_MAX < bytes {
            return Err(Status::resource_exhausted(format!(
                "the names of the applications have more than {LIST_BYTES_MAX} bytes; ask for \
                 applications one by one"
            )));
        }
        let applications = entries.iter().map(|e| (e.app.to_string(), response(serving(&e.head))));
        let server = (String::new(), response(self.server()));
        let statuses: HashMap<_, _> = applications.chain([server]).collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<StatusStream>, Status> {
        let place = self.watches.health_place(request.extensions().get::<Caller>())?;
        let service = request.into_inner().service;
        let follow = match app_of(&service) {
            _ if is_server(&service) => Follow::Server,
            None => Follow::Nothing,
            Some(app) => {
                let filter = Filter::of(Scope::Applications(BTreeSet::from([app])));
                let watcher = self.hub.watch(filter, Start::Snapshot);
                let watcher = watcher.map_err(Problem::from)?;
                Follow::Application(Box::new(watcher))
            }
        };
        let reader = Reader {
            follow,
            told: None,
            draining: self.draining.clone(),
            ended: false,
            _place: place,
        };
        let stream = futures_util::stream::unfold(reader, |mut reader| async {
            let next = reader.next().await?;
            Some((next, reader))
        });
        Ok(Response::new(Box::pin(stream)))
    }
}

/// What a health watch follows.
enum Follow {
    Server,
    Application(Box<Watcher>),
    /// A name that no application can have.
    Nothing,
}

/// One watcher, and what it was told last.
struct Reader {
    follow: Follow,
    told: Option<ServingStatus>,
    draining: CancellationToken,
    ended: bool,
    _place: Place,
}

impl Reader {
    /// The next status that differs from the last one told; the first at once. Who watches the
    /// server is told that it is not serving before a drain ends the stream.
    async fn next(&mut self) -> Option<Result<HealthCheckResponse, Status>> {
        let draining = self.draining.clone();
        while !self.ended {
            let is_server = matches!(self.follow, Follow::Server);
            let status = tokio::select! {
                biased;
                () = draining.cancelled() => {
                    if !is_server || self.told == Some(ServingStatus::NotServing) {
                        return self.end(Problem::draining());
                    }
                    ServingStatus::NotServing
                }
                status = self.step() => match status {
                    Ok(status) => status,
                    Err(expired) => return self.end(WatchError::from(expired).into()),
                },
            };
            if self.told != Some(status) {
                self.told = Some(status);
                return Some(Ok(response(status)));
            }
        }
        None
    }

    fn end(&mut self, problem: Problem) -> Option<Result<HealthCheckResponse, Status>> {
        self.ended = true;
        Some(Err(problem.into()))
    }

    async fn step(&mut self) -> Result<ServingStatus, Expired> {
        Ok(match &mut self.follow {
            Follow::Server | Follow::Nothing if self.told.is_some() => std::future::pending().await,
            Follow::Server => ServingStatus::Serving,
            Follow::Nothing => ServingStatus::ServiceUnknown,
            Follow::Application(watcher) => loop {
                match watcher.next().await?.event {
                    Event::Upserted(entry) => break serving(&entry.head),
                    Event::Removed(_) | Event::SnapshotComplete { application_count: 0, .. } => {
                        break ServingStatus::ServiceUnknown;
                    }
                    Event::SnapshotComplete { .. } | Event::Bookmark { .. } => {}
                }
            },
        })
    }
}
