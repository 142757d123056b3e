//! `grpc.health.v1` by its specification: the server under `""` and under the names of its
//! services, every application under `namespace/application`.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use futures_util::stream::{self, BoxStream};
use prost_types::ServiceDescriptorProto;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::domain::app::Head;
use crate::domain::met::is_silent;
use crate::domain::name::AppName;
use crate::domain::severity::is_doubtful;
use crate::proto::health::health_check_response::ServingStatus;
use crate::proto::health::health_server::Health;
use crate::proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use crate::service::call::Access;
use crate::service::caller::Caller;
use crate::service::code::{ApiError, Reason, quoted};
use crate::service::descriptor;
use crate::service::grpc::handlers::Handlers;
use crate::service::grpc::watch::StreamPlace;
use crate::watch::{Event, Filter, ResumeError, Scope, Start, WatchError, Watcher};

/// Maximum applications in an answer of `List`. The specification allows a server to refuse more.
const LIST_MAX: usize = 10_000;

/// Services whose health is that of the server: clients with built-in health checks ask for the
/// name of the service that they call.
static SERVICES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let files = descriptor::served().iter().flat_map(|set| &set.file);
    let own = files.filter(|file| file.package() == "bellwether.v1");
    let services = own.flat_map(|file| file.service.iter().map(ServiceDescriptorProto::name));
    services.map(|name| format!("bellwether.v1.{name}")).collect()
});

/// Maximum bytes of an answer of `List`: clients accept 4 MiB.
const LIST_BYTES_MAX: usize = 3 << 20;
/// Bytes of an entry besides its name.
const ENTRY_BYTES: usize = 16;

type StatusStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

impl Handlers {
    /// Returns the health of the server, which is healthy until it drains.
    fn own_health(&self) -> ServingStatus {
        serving_if(!self.parts.draining.is_cancelled())
    }
}

/// Returns SERVING if the level is one of the application's serving levels, and no silent unit
/// makes it doubtful.
fn serving(head: &Head) -> ServingStatus {
    let level = head.summary.level;
    let is_silent = is_silent(head);
    serving_if(head.config.serving_levels.contains(&level) && !is_doubtful(level, is_silent))
}

fn serving_if(is_serving: bool) -> ServingStatus {
    if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

/// Returns whether a service name means the server as a whole.
fn is_server(service: &str) -> bool {
    service.is_empty() || SERVICES.contains(service)
}

fn not_found(service: &str) -> ApiError {
    let text = format!(
        "no service {}; the server is the empty name, applications are services named \
         namespace/application",
        quoted(service)
    );
    ApiError::new(Reason::ServiceNotFound, text)
}

fn list_refused(text: String, limit: &str, max: usize) -> Status {
    ApiError::of_limit(Reason::LimitExceeded, text, limit, max).into()
}

/// Returns the application that a service name means, if it has that form. The caller needs the
/// right to read it.
fn app_of(access: &Access, service: &str) -> Result<Option<AppName>, ApiError> {
    let names = service.split_once('/');
    let app = names.and_then(|(namespace, name)| AppName::new(namespace, name).ok());
    app.as_ref().map_or(Ok(()), |app| access.check(app, "", false))?;
    Ok(app)
}

#[tonic::async_trait]
impl Health for Handlers {
    type WatchStream = StatusStream;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let (access, HealthCheckRequest { service }) = Access::open(request);
        if is_server(&service) {
            return Ok(Response::new(response(self.own_health())));
        }
        match app_of(&access, &service)?.and_then(|app| self.parts.hub.get(&app)) {
            Some(entry) => Ok(Response::new(response(serving(&entry.head)))),
            None => Err(not_found(&service).into()),
        }
    }

    async fn list(
        &self,
        request: Request<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        let (access, HealthListRequest {}) = Access::open(request);
        access.check_list(None)?;
        let entries = self.parts.hub.list(None, None, &BTreeSet::new(), LIST_MAX + 1);
        if LIST_MAX < entries.len() {
            let text = format!("there are more than {LIST_MAX} applications; ask for one by name");
            return Err(list_refused(text, "health_list_max", LIST_MAX));
        }
        let bytes: usize = entries.iter().map(|e| e.app.to_string().len() + ENTRY_BYTES).sum();
        if LIST_BYTES_MAX < bytes {
            let text = format!(
                "the names of the applications have more than {LIST_BYTES_MAX} bytes; ask for \
                 applications one by one"
            );
            return Err(list_refused(text, "health_list_bytes_max", LIST_BYTES_MAX));
        }
        let applications = entries.iter().map(|e| (e.app.to_string(), response(serving(&e.head))));
        let server = (String::new(), response(self.own_health()));
        let statuses: HashMap<_, _> = applications.chain([server]).collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<StatusStream>, Status> {
        let place = self.watches.health_place(request.extensions().get::<Caller>())?;
        let (access, HealthCheckRequest { service }) = Access::open(request);
        let follow = match app_of(&access, &service)? {
            _ if is_server(&service) => Follow::Server,
            None => Follow::Nothing,
            Some(app) => {
                let filter = Filter::of(Scope::Applications(BTreeSet::from([app])));
                let watcher = self.parts.hub.watch(filter, Start::Snapshot);
                let watcher = watcher.map_err(ApiError::from)?;
                Follow::Application(Box::new(watcher))
            }
        };
        let draining = self.parts.draining.clone();
        let reader = Reader { follow, sent: None, draining, _place: place };
        let next = async |mut reader: Reader| Ok(Some((reader.next().await?, reader)));
        Ok(Response::new(Box::pin(stream::try_unfold(reader, next))))
    }
}

/// The subject of a health watch.
enum Follow {
    Server,
    Application(Box<Watcher>),
    /// A name that no application can have.
    Nothing,
}

/// One reader, and the status that it received last.
struct Reader {
    follow: Follow,
    sent: Option<ServingStatus>,
    draining: CancellationToken,
    _place: StreamPlace,
}

impl Reader {
    /// Returns the next status that differs from the last one; the first call returns immediately.
    /// A watch of the server receives NOT_SERVING before a drain ends the stream.
    async fn next(&mut self) -> Result<HealthCheckResponse, ApiError> {
        let draining = self.draining.clone();
        loop {
            let is_server = matches!(self.follow, Follow::Server);
            let status = tokio::select! {
                biased;
                () = draining.cancelled() => {
                    if !is_server || self.sent == Some(ServingStatus::NotServing) {
                        return Err(ApiError::draining());
                    }
                    ServingStatus::NotServing
                }
                status = self.step() => status.map_err(WatchError::from)?,
            };
            if self.sent != Some(status) {
                self.sent = Some(status);
                return Ok(response(status));
            }
        }
    }

    async fn step(&mut self) -> Result<ServingStatus, ResumeError> {
        Ok(match &mut self.follow {
            Follow::Server | Follow::Nothing if self.sent.is_some() => std::future::pending().await,
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
