//! A gRPC call through all layers of a server in this process, without a socket: with the layer
//! that serves the other protocols, and without it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bellwether::aggregator::{self, Aggregator};
use bellwether::domain::classify::Rules;
use bellwether::proto::v1::need::Object;
use bellwether::proto::v1::{
    ApplicationNeed, Level, Mark, MarkKind, Need, ReportStatusRequest, SetMarkRequest,
    StatusReport, StoreKind,
};
use bellwether::security::Protection;
use bellwether::service::caller::outgoing;
use bellwether::service::{self, About, ErrorRules, Parts, Served, edge};
use bellwether::session::{self, Sessions};
use bellwether::store::{MemoryStore, Retention, Store};
use bellwether::telemetry::Metrics;
use bellwether::watch::{Hub, Limits};
use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, Version};
use http_body::Frame;
use prost::Message;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;

/// Flags of the command that valgrind runs.
#[derive(Debug, clap::Args)]
pub struct CountedCalls {
    /// Calls that are counted
    #[arg(long)]
    pub calls: u64,
    /// Whether the layer of the other protocols is in front
    #[arg(long)]
    pub layered: bool,
    /// Needs of each status
    #[arg(long, default_value_t = 0)]
    pub needs: u64,
    /// Marks of the application, each of one status, half of them planned work
    #[arg(long, default_value_t = 0)]
    pub marks: u64,
    /// Applications that the calls go to in turn
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub applications: u64,
}

/// Statuses that the calls change in turn.
const STATUSES: u64 = 64;

/// Runs under valgrind: starts a server without a port, then calls it. One thread does all the
/// work, and it is a new one, because the command itself runs in a runtime.
pub fn run(args: &CountedCalls) -> anyhow::Result<()> {
    let ended = std::thread::scope(|scope| scope.spawn(|| run_here(args)).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run_here(args: &CountedCalls) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let calls = runtime.block_on(async { calls() });
    let requests = |turn, count| requests(turn, count, args);
    // The problems that marks acknowledge are there before the marks.
    let all = STATUSES.max(args.applications);
    let first = requests(1, all).into_iter().chain(marks(args.marks)).collect();
    let counted = requests(2, args.calls);
    if args.layered {
        call_all(&runtime, calls.clone(), first)?;
        counted_calls(&runtime, calls.clone(), counted)
    } else {
        call_all(&runtime, calls.inner().clone(), first)?;
        counted_calls(&runtime, calls.inner().clone(), counted)
    }
}

/// Returns the services and layers of a server in memory.
pub(super) fn calls() -> Served {
    let metrics = Metrics::disabled();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Retention::default()));
    let (epoch, buckets) = (store.epoch(), store.buckets());
    let hub = Hub::new(epoch, buckets, store.is_shared(), Limits::default());
    let hub = hub.with_time(store.now());
    let hub = Arc::new(hub);
    store.follow(hub.clone());
    let aggregator =
        Aggregator::start(store.clone(), aggregator::Options::default(), metrics.clone());
    let sessions = Sessions::start(
        store.clone(),
        aggregator.clone(),
        hub.clone(),
        session::Options::default(),
        metrics.clone(),
    );
    let parts = Parts {
        aggregator,
        hub,
        sessions,
        store,
        error_rules: ErrorRules::new(Rules::default(), metrics.clone()),
        protection: Arc::new(Protection::default()),
        about: About { store_kind: StoreKind::Memory, limits: Default::default() },
        relay: None,
        draining: CancellationToken::new(),
        metrics: metrics.clone(),
    };
    let limits = edge::Limits {
        connections_max: 1,
        per_peer_max: 1,
        unfinished_max: 1,
        bytes_per_connection_max: 1 << 20,
        bytes_per_peer_max: 1 << 20,
        bytes_max: 1 << 20,
        answers: outgoing::Limits::default(),
    };
    let gate = edge::Gate::new(limits, metrics);
    service::server(parts, &service::Options::default(), gate, None).service
}

/// Returns needs of that many applications.
fn needs(count: u64) -> Vec<Need> {
    let need = |number: u64| {
        let application = format!("needed-{number}");
        let needed = ApplicationNeed { application, ..ApplicationNeed::default() };
        Need { object: Some(Object::Application(needed)) }
    };
    (0..count).map(need).collect()
}

/// Returns reports that change the level of one status each.
fn requests(turn: u64, count: u64, args: &CountedCalls) -> Vec<Request<Body>> {
    let statuses = STATUSES.div_ceil(args.applications);
    let cycle = statuses * args.applications;
    let request = |number: u64| {
        let levels = [Level::Active, Level::Waiting];
        let level = levels[((turn + number / cycle) % 2) as usize];
        let status = StatusReport {
            key: format!("key-{:02}", number / args.applications % statuses),
            level: level.into(),
            message: format!("serving, turn {number:06}"),
            needs: needs(args.needs),
            ..StatusReport::default()
        };
        let application = match number % args.applications {
            0 => "web".to_string(),
            other => format!("web-{other}"),
        };
        let message = ReportStatusRequest {
            unit: format!("{application}/0"),
            application,
            status: Some(status),
            ..ReportStatusRequest::default()
        };
        post("/bellwether.v1.ReportService/ReportStatus", &message)
    };
    (0..count).map(request).collect()
}

/// Returns calls that set that many marks, each of one status.
fn marks(count: u64) -> impl Iterator<Item = Request<Body>> {
    let request = |number: u64| {
        let kinds = [MarkKind::Planned, MarkKind::Acknowledged];
        let mark = Mark {
            mark_id: format!("mark-{number}"),
            kind: kinds[(number % 2) as usize].into(),
            unit: "web/0".into(),
            component: Some(String::new()),
            key: Some(format!("key-{:02}", number % STATUSES)),
            reason: "new disks".into(),
            author: "bench".into(),
            ..Mark::default()
        };
        let message = SetMarkRequest {
            application: "web".into(),
            mark: Some(mark),
            during: Some(prost_types::Duration { seconds: 3600, nanos: 0 }),
            ..SetMarkRequest::default()
        };
        post("/bellwether.v1.ApplicationService/SetMark", &message)
    };
    (0..count).map(request)
}

fn post(path: &str, message: &impl Message) -> Request<Body> {
    let mut frame = BytesMut::new();
    add_frame(&mut frame, message);
    let body = Body::new(Full(Some(frame.freeze())));
    Request::post(path)
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .expect("the request is constant")
}

/// Adds a message to a body.
pub(super) fn add_frame(body: &mut BytesMut, message: &impl Message) {
    body.put_u8(0);
    body.put_u32(message.encoded_len() as u32);
    body.put_slice(&message.encode_to_vec());
}

/// A body of one message.
struct Full(Option<Bytes>);

impl http_body::Body for Full {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|data| Ok(Frame::data(data))))
    }
}

/// Calls the service with each request. Valgrind finds this function by its name.
#[inline(never)]
fn counted_calls<S, B>(
    runtime: &Runtime,
    service: S,
    requests: Vec<Request<Body>>,
) -> anyhow::Result<()>
where
    S: Service<Request<Body>, Response = http::Response<B>, Error: std::fmt::Debug>,
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug> + Unpin,
{
    call_all(runtime, service, requests)
}

fn call_all<S, B>(
    runtime: &Runtime,
    mut service: S,
    requests: Vec<Request<Body>>,
) -> anyhow::Result<()>
where
    S: Service<Request<Body>, Response = http::Response<B>, Error: std::fmt::Debug>,
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug> + Unpin,
{
    runtime.block_on(async {
        for request in requests {
            let response = service.call(request).await;
            let mut body = response.map_err(|error| anyhow::anyhow!("{error:?}"))?.into_body();
            let mut status = None;
            let next = async |body: &mut B| {
                std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
            };
            while let Some(frame) = next(&mut body).await {
                let frame = frame.map_err(|error| anyhow::anyhow!("{error:?}"))?;
                if let Ok(trailers) = frame.into_trailers() {
                    status = trailers.get("grpc-status").cloned();
                }
            }
            let status = status.ok_or_else(|| anyhow::anyhow!("the answer has no status"))?;
            anyhow::ensure!(status == "0", "the call failed with {status:?}");
        }
        Ok(())
    })
}
