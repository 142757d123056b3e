//! Tests of the path of calls in a real server, over a real socket.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use opentelemetry::trace::{SpanKind, TraceContextExt, TracerProvider};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tower::layer::layer_fn;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

use super::intake::Intake;
use super::{CallParts, Calls, Deadline};
use crate::proto::health::health_client::HealthClient;
use crate::proto::health::health_server::{Health, HealthServer};
use crate::proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use crate::service::method::TABLE;
use crate::service::{caller, descriptor};
use crate::telemetry::{Metrics, Telemetry};

/// Behaves as the name of the service says.
struct Scripted;

type Answers = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Health for Scripted {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match request.get_ref().service.as_str() {
            "panic" => panic!("on purpose, in a test"),
            "never" => std::future::pending().await,
            "internal" => Err(Status::internal("broken")),
            "not-found" => Err(Status::not_found("no such service")),
            _ => Ok(Response::new(HealthCheckResponse::default())),
        }
    }

    async fn list(
        &self,
        _: Request<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        Ok(Response::new(HealthListResponse::default()))
    }

    type WatchStream = Answers;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Answers>, Status> {
        let deadline = request.extensions().get::<Deadline>().copied();
        let first = stream::iter([Ok(HealthCheckResponse::default())]);
        let stream: Answers = match (request.get_ref().service.as_str(), deadline) {
            ("panic", _) => Box::pin(first.chain(stream::poll_fn(|_| panic!("on purpose")))),
            ("one", _) => Box::pin(first),
            (_, Some(Deadline(at))) => Box::pin(first.chain(stream::once(async move {
                tokio::time::sleep_until(at).await;
                Err(Status::deadline_exceeded("the handler kept it"))
            }))),
            (_, None) => Box::pin(first.chain(stream::pending())),
        };
        Ok(Response::new(stream))
    }
}

struct Fixture {
    telemetry: Telemetry,
    channel: Channel,
    client: HealthClient<Channel>,
}

fn parts(metrics: &Metrics) -> CallParts<'static> {
    CallParts {
        extent: None,
        methods: TABLE,
        descriptors: descriptor::served(),
        protection: Arc::default(),
        limits: caller::Limits::default(),
        answers: caller::outgoing::Limits::default(),
        intake: Intake::for_tests(),
        metrics: metrics.clone(),
    }
}

/// A server with the path of calls, and one connection to it.
async fn mk_server() -> Fixture {
    let telemetry = Telemetry::local("test").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    let metrics = telemetry.metrics().clone();
    let server = Server::builder()
        .layer(layer_fn(move |inner| Calls::new(parts(&metrics), inner)))
        .add_service(HealthServer::new(Scripted))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    let channel = Channel::from_shared(uri).unwrap().connect().await.unwrap();
    Fixture { telemetry, client: HealthClient::new(channel.clone()), channel }
}

fn ask(service: &str) -> Request<HealthCheckRequest> {
    Request::new(HealthCheckRequest { service: service.into() })
}

impl Fixture {
    async fn check(&mut self, service: &str) -> Code {
        match self.client.check(ask(service)).await {
            Ok(_) => Code::Ok,
            Err(status) => status.code(),
        }
    }

    /// Waits until the metrics have a line; the client may receive its response before the end of
    /// the call.
    async fn expect_line(&self, line: &str) {
        let found = tokio::time::timeout(Duration::from_secs(10), async {
            while !self.telemetry.prometheus().text().lines().any(|each| each == line) {
                tokio::task::yield_now().await;
            }
        });
        let in_time = found.await.is_ok();
        assert!(in_time, "no line {line}\n{}", self.telemetry.prometheus().text());
    }

    async fn expect_calls(&self, method: &str, code: &str, is_server_error: bool, count: u64) {
        let error = if is_server_error { format!("error_type=\"{code}\",") } else { String::new() };
        self.expect_line(&format!(
            "rpc_server_call_duration_seconds_count{{{error}rpc_method=\"{method}\",\
             rpc_response_status_code=\"{code}\",rpc_system_name=\"grpc\"}} {count}"
        ))
        .await;
    }
}

const CHECK: &str = "grpc.health.v1.Health/Check";

#[tokio::test]
async fn calls_are_counted_by_method_and_code() {
    let mut server = mk_server().await;
    assert_eq!(server.check("").await, Code::Ok);
    assert_eq!(server.check("").await, Code::Ok);
    assert_eq!(server.check("not-found").await, Code::NotFound);
    assert_eq!(server.check("internal").await, Code::Internal);
    server.expect_calls(CHECK, "OK", false, 2).await;
    server.expect_calls(CHECK, "NOT_FOUND", false, 1).await;
    server.expect_calls(CHECK, "INTERNAL", true, 1).await;
}

#[tokio::test]
async fn methods_that_do_not_exist_are_one_series() {
    let server = mk_server().await;
    for path in ["/no.Such/Method", "/grpc.health.v1.Health/check"] {
        let mut grpc = tonic::client::Grpc::new(server.channel.clone());
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
        let answer = grpc.unary(ask(""), path.parse().unwrap(), codec).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented, "{path}");
    }
    server.expect_calls("_OTHER", "UNIMPLEMENTED", false, 2).await;
}

#[tokio::test]
async fn a_panic_is_internal_and_the_connection_lives() {
    let mut server = mk_server().await;
    // On the same connection, so that it ends if the connection does.
    let mut neighbour = server.client.watch(ask("")).await.unwrap().into_inner();
    assert!(neighbour.message().await.unwrap().is_some());

    assert_eq!(server.check("panic").await, Code::Internal);
    server.expect_calls(CHECK, "INTERNAL", true, 1).await;

    let mut broken = server.client.watch(ask("panic")).await.unwrap().into_inner();
    // The message before the panic is lost with its buffer.
    assert_eq!(broken.message().await.unwrap_err().code(), Code::Internal);
    let text = server.telemetry.prometheus().text();
    assert!(text.contains("bellwether_panics_total{place=\"call\"} 2"), "{text}");

    assert_eq!(server.check("").await, Code::Ok);
    let pending = tokio::time::timeout(Duration::from_millis(1), neighbour.message()).await;
    assert!(pending.is_err(), "the neighbour ended: {pending:?}");
}

#[tokio::test]
async fn streams_are_counted_apart() {
    let mut server = mk_server().await;
    let labels = "rpc_method=\"grpc.health.v1.Health/Watch\"";
    let open =
        |count| format!("bellwether_rpc_streams{{{labels},rpc_system_name=\"grpc\"}} {count}");
    let finished = |code| {
        format!(
            "bellwether_rpc_streams_finished_total{{{labels},rpc_response_status_code=\"{code}\",\
             rpc_system_name=\"grpc\"}} 1"
        )
    };
    let held = server.client.watch(ask("")).await.unwrap();
    server.expect_line(&open(1)).await;
    let short = server.client.watch(ask("one")).await.unwrap().into_inner();
    assert_eq!(short.collect::<Vec<_>>().await.len(), 1);
    server.expect_line(&finished("OK")).await;
    drop(held);
    server.expect_line(&finished("CANCELLED")).await;
    server.expect_line(&open(0)).await;
    assert!(!server.telemetry.prometheus().text().contains("rpc_server_call_duration_seconds"));
}

#[tokio::test]
async fn a_call_without_a_waiting_client_is_cancelled() {
    let server = mk_server().await;
    let mut client = server.client.clone();
    let call = tokio::spawn(async move { client.check(ask("never")).await });
    // After a second call succeeded on the connection, the first one has reached its handler.
    assert!(server.client.clone().check(ask("")).await.is_ok());
    call.abort();
    server.expect_calls(CHECK, "CANCELLED", false, 1).await;
}

#[tokio::test]
async fn the_deadline_of_the_caller_ends_calls_and_reaches_streams() {
    let mut server = mk_server().await;
    let mut request = ask("never");
    // Long enough to reach the server of a busy machine.
    request.set_timeout(Duration::from_millis(500));
    assert!(server.client.check(request).await.is_err());
    server.expect_calls(CHECK, "DEADLINE_EXCEEDED", false, 1).await;

    let mut request = ask("");
    request.set_timeout(Duration::from_secs(2));
    let mut stream = server.client.watch(request).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    let end = stream.message().await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::DeadlineExceeded, "the handler kept it"));
}

/// Keeps the exported spans.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

/// Must be the only test of its process. tracing caches for each call site whether a subscriber is
/// interested, and a parallel test without a subscriber may have cached that none is.
#[test]
fn the_span_of_the_caller_is_the_parent() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "service::call::tests::parent_of_span", "--ignored"])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[tokio::test]
#[ignore = "only in a process of its own: the test above runs it"]
async fn parent_of_span() {
    let kept = Kept::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    // The runtime of this test has only this thread, so that the server uses the subscriber too.
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());

    let mut server = mk_server().await;
    let mut request = ask("internal");
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    request.metadata_mut().insert("traceparent", traceparent.parse().unwrap());
    assert!(server.client.check(request).await.is_err());
    server.expect_calls(CHECK, "INTERNAL", true, 1).await;

    let spans = kept.0.lock().unwrap().clone();
    let span = spans.iter().find(|span| span.name == CHECK).expect("no span for the call");
    assert_eq!(span.span_context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(span.parent_span_id.to_string(), "00f067aa0ba902b7");
    assert_eq!(span.span_kind, SpanKind::Server);
    let code = span.attributes.iter().find(|one| one.key.as_str() == "rpc.response.status_code");
    assert_eq!(code.expect("no code").value.as_str(), "INTERNAL");

    // The other direction: the client of this crate sends the context of its span.
    let mut headers = http::HeaderMap::new();
    let client = tracing::info_span!("client");
    client.in_scope(|| crate::telemetry::inject(&mut headers));
    let sent = crate::telemetry::extract(&headers);
    let sent = sent.span().span_context().clone();
    assert!(sent.is_valid() && sent.is_remote());
    assert_eq!(sent.span_id(), client.context().span().span_context().span_id());
}
