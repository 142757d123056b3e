//! `grpc.health.v1` by its specification: the server under `""` and under the names of its
//! services, every application under `namespace/application`, all applications of a namespace under
//! `namespace/`.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use futures_util::future::OptionFuture;
use futures_util::stream::{self, BoxStream};
use prost_types::ServiceDescriptorProto;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::domain::name::{AppName, namespace_name};
use crate::proto::health::health_check_response::ServingStatus;
use crate::proto::health::health_server::Health;
use crate::proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use crate::service::call::{Access, Deadline};
use crate::service::caller::Caller;
use crate::service::code::{ApiError, Reason, quoted};
use crate::service::descriptor;
use crate::service::grpc::handlers::Handlers;
use crate::service::grpc::watch::{StreamPlace, past_deadline};
use crate::service::relay::{Relay, UpstreamSet};
use crate::watch::{
    Entry, Event, Filter, Hub, ResumeError, Scope, Serving, Start, WatchError, Watcher,
};

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
        let has_copy = self.parts.relay.as_ref().is_none_or(|relay| relay.is_ready());
        serving_if(has_copy && !self.parts.draining.is_cancelled())
    }

    /// Returns whether the copy of a relay says nothing of how a namespace is now.
    fn is_blind(&self, namespace: &str) -> bool {
        self.parts.relay.as_ref().is_some_and(|relay| relay.is_unsure(Some(namespace)))
    }
}

fn serving(entry: &Entry) -> ServingStatus {
    serving_if(entry.kept().serves())
}

/// Returns SERVING if every application of a namespace serves.
fn serving_of(counts: Serving) -> ServingStatus {
    serving_if(counts.is_every())
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
         namespace/application, namespaces are services named namespace/",
        quoted(service)
    );
    ApiError::new(Reason::ServiceNotFound, text)
}

/// Returns the status of each of these applications and of their namespaces, by service name.
fn statuses(entries: &[Arc<Entry>]) -> HashMap<String, ServingStatus> {
    let mut is_serving = HashMap::new();
    for entry in entries {
        let serves = entry.kept().serves();
        *is_serving.entry(format!("{}/", entry.app.namespace())).or_insert(true) &= serves;
        is_serving.insert(entry.app.to_string(), serves);
    }
    is_serving.into_iter().map(|(name, serves)| (name, serving_if(serves))).collect()
}

fn list_refused(text: String, limit: &str, max: usize) -> Status {
    ApiError::of_limit(Reason::LimitExceeded, text, limit, max).into()
}

/// What a service name means.
enum Subject {
    Server,
    Application(AppName),
    /// All applications of a namespace.
    Namespace(Arc<str>),
    /// A name that nothing can have.
    Nothing,
}

impl Subject {
    /// Reads a service name. The caller needs the right to read the application, or to list the
    /// namespace, whether it exists or not.
    fn read(access: &Access, service: &str) -> Result<Subject, ApiError> {
        if is_server(service) {
            return Ok(Subject::Server);
        }
        let Some((namespace, name)) = service.split_once('/') else { return Ok(Subject::Nothing) };
        if name.is_empty() {
            let Ok(namespace) = namespace_name(namespace) else { return Ok(Subject::Nothing) };
            access.check_list(Some(&namespace))?;
            return Ok(Subject::Namespace(namespace));
        }
        let Ok(app) = AppName::new(namespace, name) else { return Ok(Subject::Nothing) };
        access.check(&app, "", false)?;
        Ok(Subject::Application(app))
    }

    /// Returns the namespace of the applications.
    fn namespace(&self) -> Option<Arc<str>> {
        match self {
            Subject::Application(app) => Some(Arc::from(app.namespace())),
            Subject::Namespace(name) => Some(name.clone()),
            Subject::Server | Subject::Nothing => None,
        }
    }
}

#[tonic::async_trait]
impl Health for Handlers {
    type WatchStream = StatusStream;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let (access, HealthCheckRequest { service }) = Access::open(request);
        let hub = &self.parts.hub;
        let status = match Subject::read(&access, &service)? {
            Subject::Server => Some(self.own_health()),
            Subject::Application(app) if self.is_blind(app.namespace()) => {
                Some(ServingStatus::Unknown)
            }
            Subject::Namespace(name) if self.is_blind(&name) => Some(ServingStatus::Unknown),
            Subject::Application(app) => hub.get(&app).map(|entry| serving(&entry)),
            Subject::Namespace(name) => hub.serving(&name).map(serving_of),
            Subject::Nothing => None,
        };
        let status = status.ok_or_else(|| not_found(&service))?;
        Ok(Response::new(response(status)))
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
        let mut all = statuses(&entries);
        let relay = self.parts.relay.as_ref();
        // Each namespace, and whether the copy says nothing of it.
        let mut last: Option<(&str, bool)> = None;
        for entry in entries.iter().filter(|_| relay.is_some()) {
            let namespace = entry.app.namespace();
            let is_blind = match last {
                Some((known, is_blind)) if known == namespace => is_blind,
                _ => self.is_blind(namespace),
            };
            last = Some((namespace, is_blind));
            if is_blind {
                all.insert(format!("{namespace}/"), ServingStatus::Unknown);
                all.insert(entry.app.to_string(), ServingStatus::Unknown);
            }
        }
        let bytes: usize = all.keys().map(|name| name.len() + ENTRY_BYTES).sum();
        if LIST_BYTES_MAX < bytes {
            let text = format!(
                "the names of the applications have more than {LIST_BYTES_MAX} bytes; ask for \
                 applications one by one"
            );
            return Err(list_refused(text, "health_list_bytes_max", LIST_BYTES_MAX));
        }
        let server = (String::new(), self.own_health());
        let all = all.into_iter().chain([server]);
        let statuses = all.map(|(name, status)| (name, response(status))).collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<StatusStream>, Status> {
        let place = self.watches.health_place(request.extensions().get::<Caller>())?;
        let deadline = request.extensions().get::<Deadline>().copied();
        let (access, HealthCheckRequest { service }) = Access::open(request);
        let hub = &self.parts.hub;
        let watch = |scope| {
            let watcher = hub.watch(Filter::of(scope), Start::Snapshot);
            watcher.map(Box::new).map_err(ApiError::from)
        };
        let subject = Subject::read(&access, &service)?;
        let namespace = subject.namespace();
        let follow = match subject {
            Subject::Server => Follow::Server,
            Subject::Nothing => Follow::Nothing,
            Subject::Application(app) => {
                Follow::Application(watch(Scope::Applications(BTreeSet::from([app])))?)
            }
            Subject::Namespace(name) => {
                let watcher = watch(Scope::Namespace(name.clone()))?;
                Follow::Namespace { name, hub: hub.clone(), watcher }
            }
        };
        let draining = self.parts.draining.clone();
        let relay = self.parts.relay.clone();
        let staleness = relay.as_ref().map(|relay| relay.staleness());
        let (found, sent) = (None, None);
        let relay = relay.zip(namespace);
        let reader =
            Reader { follow, found, sent, relay, staleness, draining, deadline, _place: place };
        let next = async |mut reader: Reader| Ok(Some((reader.next().await?, reader)));
        Ok(Response::new(Box::pin(stream::try_unfold(reader, next))))
    }
}

/// Resolves at the next change; never if there is none any more.
async fn changed<T>(staleness: &mut watch::Receiver<T>) {
    if staleness.changed().await.is_err() {
        std::future::pending().await
    }
}

/// The subject of a health watch.
enum Follow {
    Server,
    Application(Box<Watcher>),
    /// The counts of the hub decide; the watcher notices when they may have changed.
    Namespace {
        name: Arc<str>,
        hub: Arc<Hub>,
        watcher: Box<Watcher>,
    },
    /// A name that no application can have.
    Nothing,
}

/// One reader, and the status that it received last.
struct Reader {
    follow: Follow,
    /// The last status of the subject.
    found: Option<ServingStatus>,
    sent: Option<ServingStatus>,
    /// In a relay: what says whether its copy of the namespace is stale, so that the status is not
    /// known.
    relay: Option<(Arc<Relay>, Arc<str>)>,
    staleness: Option<watch::Receiver<(UpstreamSet, usize)>>,
    draining: CancellationToken,
    deadline: Option<Deadline>,
    _place: StreamPlace,
}

impl Reader {
    /// Returns the next status that differs from the last one; the first call returns immediately.
    /// A watch of the server receives NOT_SERVING before a drain ends the stream.
    async fn next(&mut self) -> Result<HealthCheckResponse, Status> {
        let draining = self.draining.clone();
        loop {
            let is_server = matches!(self.follow, Follow::Server);
            let deadline = self.deadline.map(|Deadline(at)| tokio::time::sleep_until(at));
            let status = tokio::select! {
                biased;
                () = draining.cancelled() => {
                    if !is_server || self.sent == Some(ServingStatus::NotServing) {
                        return Err(ApiError::draining().into());
                    }
                    ServingStatus::NotServing
                }
                Some(()) = OptionFuture::from(deadline) => return Err(past_deadline()),
                Some(()) = OptionFuture::from(self.staleness.as_mut().map(changed)) => {
                    match self.found {
                        Some(found) => found,
                        None => continue,
                    }
                }
                status = self.follow.step(self.found) => {
                    status.map_err(|expired| ApiError::from(WatchError::from(expired)))?
                }
            };
            self.found = Some(status);
            let is_unsure = |(relay, name): &(Arc<Relay>, Arc<str>)| relay.is_unsure(Some(name));
            let is_stale = self.relay.as_ref().is_some_and(is_unsure);
            let status = if is_stale { ServingStatus::Unknown } else { status };
            if self.sent != Some(status) {
                self.sent = Some(status);
                return Ok(response(status));
            }
        }
    }
}

impl Follow {
    /// Waits for a status that may differ from the one that was sent last.
    async fn step(&mut self, sent: Option<ServingStatus>) -> Result<ServingStatus, ResumeError> {
        Ok(match self {
            Follow::Server | Follow::Nothing if sent.is_some() => std::future::pending().await,
            Follow::Server => ServingStatus::Serving,
            Follow::Nothing => ServingStatus::ServiceUnknown,
            Follow::Application(watcher) => loop {
                match watcher.next().await?.event {
                    Event::Upserted(entry) => break serving(&entry),
                    Event::Removed(_) | Event::SnapshotComplete { application_count: 0, .. } => {
                        break ServingStatus::ServiceUnknown;
                    }
                    Event::SnapshotComplete { .. } | Event::Bookmark { .. } => {}
                }
            },
            Follow::Namespace { name, hub, watcher } => loop {
                let status = hub.serving(name).map_or(ServingStatus::ServiceUnknown, serving_of);
                if sent != Some(status) {
                    break status;
                }
                watcher.next().await?;
            },
        })
    }
}

#[cfg(test)]
mod tests;
