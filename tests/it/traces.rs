//! Traces, as a collector of OpenTelemetry receives them.

use std::sync::mpsc::{Receiver, Sender, channel};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio_stream::wrappers::TcpListenerStream;

use bellwether::proto::v1::Level;

use crate::server::{DEADLINE, Server, command, mk_report};

struct Collector(Sender<Span>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        for span in scopes.flat_map(|scope| scope.spans) {
            self.0.send(span).expect("the test is over");
        }
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Starts a collector, and a server that exports its traces to it.
async fn start() -> (Server, Receiver<Span>) {
    let (sender, received) = channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collector = TraceServiceServer::new(Collector(sender));
    let serving = tonic::transport::Server::builder().add_service(collector);
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
    let mut serve = command(&["--ephemeral"]);
    serve.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "50");
    serve.env("OTEL_METRICS_EXPORTER", "none").env("OTEL_LOGS_EXPORTER", "none");
    (Server::spawn(serve), received)
}

fn next(received: &Receiver<Span>, name: &str) -> Span {
    loop {
        let span = received.recv_timeout(DEADLINE).expect("the collector receives the span");
        if span.name.ends_with(name) {
            return span;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_linked_with_the_call_that_waits_for_it() {
    let (server, received) = start().await;
    let mut reports = server.reports().await;
    let mut request = tonic::Request::new(mk_report("web", "web/0", Level::Active, "a"));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    reports.report_status(request).await.unwrap();
    // The span of the commit ends before that of the call.
    let commit = next(&received, "commit");
    let call = next(&received, "ReportService/ReportStatus");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&call.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex(&call.parent_span_id), "00f067aa0ba902b7");
    let [link] = &commit.links[..] else { panic!("one link: {commit:?}") };
    assert_eq!((&link.trace_id, &link.span_id), (&call.trace_id, &call.span_id));
    assert_ne!(commit.trace_id, call.trace_id, "a commit carries commands of many traces");
    assert!(commit.parent_span_id.is_empty(), "{commit:?}");
    let result = commit.attributes.iter().find(|attribute| attribute.key == "result");
    assert!(format!("{result:?}").contains("\"ok\""), "{commit:?}");
    assert!(call.start_time_unix_nano <= commit.start_time_unix_nano);
    assert!(commit.end_time_unix_nano <= call.end_time_unix_nano);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_not_sampled_has_no_commit_in_the_traces() {
    let (server, received) = start().await;
    let mut reports = server.reports().await;
    let mut report = async |unit: &str, sampled: &str| {
        let mut request = tonic::Request::new(mk_report("web", unit, Level::Active, "a"));
        let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{sampled}");
        request.metadata_mut().insert("traceparent", parent.parse().unwrap());
        reports.report_status(request).await.unwrap();
    };
    report("web/0", "00").await;
    report("web/1", "01").await;
    // Spans are exported in the order in which they end, and a commit ends before its calls.
    let spans = std::iter::from_fn(|| received.recv_timeout(DEADLINE).ok());
    let commits = spans.take_while(|span| !span.name.ends_with("ReportStatus"));
    assert_eq!(commits.filter(|span| span.name == "commit").count(), 1);
}
