//! Traces, as a collector of OpenTelemetry receives them.

use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tokio_stream::wrappers::TcpListenerStream;

use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::{self, Level};

use crate::interop::{have, root};
use crate::peer::{Peer, hello, status};
use crate::redis::Redis;
use crate::server::{DEADLINE, Server, command, mk_report};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

struct Collector(Sender<Received>);

/// A span, and the attributes of the process that sent it.
struct Received {
    span: Span,
    process: Vec<KeyValue>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        for resource in request.into_inner().resource_spans {
            let process = resource.resource.unwrap_or_default().attributes;
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let received = Received { span, process: process.clone() };
                self.0.send(received).expect("the test is over");
            }
        }
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Starts a collector, and a server with this store that exports its traces to it.
async fn start(store: &[&str]) -> (Server, String, Receiver<Received>) {
    let (sender, received) = channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collector = TraceServiceServer::new(Collector(sender));
    let serving = tonic::transport::Server::builder().add_service(collector);
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
    let mut serve = command(store);
    serve.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "50");
    serve.env("OTEL_METRICS_EXPORTER", "none").env("OTEL_LOGS_EXPORTER", "none");
    (Server::spawn(serve), endpoint, received)
}

fn next(received: &Receiver<Received>, name: &str) -> Span {
    next_of(received, name).span
}

fn next_of(received: &Receiver<Received>, name: &str) -> Received {
    loop {
        let one = received.recv_timeout(DEADLINE).expect("the collector receives the span");
        if one.span.name.ends_with(name) {
            return one;
        }
    }
}

fn traced<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("traceparent", PARENT.parse().unwrap());
    request
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    format!("{:?}", found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commit_for_one_call_is_a_part_of_it() {
    let (server, _, received) = start(&["--ephemeral"]).await;
    let report = mk_report("web", "web/0", Level::Active, "a");
    server.reports().await.report_status(traced(report)).await.unwrap();
    // The span of the commit ends before that of the call.
    let commit = next(&received, "commit");
    let Received { span: call, process } = next_of(&received, "ReportService/ReportStatus");
    assert_eq!(hex(&call.trace_id), TRACE_ID);
    assert_eq!(hex(&call.parent_span_id), "00f067aa0ba902b7");
    assert_eq!((&commit.trace_id, &commit.parent_span_id), (&call.trace_id, &call.span_id));
    assert!(commit.links.is_empty() && call.links.is_empty(), "{commit:?} {call:?}");
    assert!(text(&commit.attributes, "result").contains("\"ok\""), "{commit:?}");
    assert!(call.start_time_unix_nano <= commit.start_time_unix_nano);
    assert!(commit.end_time_unix_nano <= call.end_time_unix_nano);
    let instance = text(&process, "service.instance.id");
    assert_eq!(instance.matches('-').count(), 4, "a UUID: {instance}");
}

/// While the store pauses, the calls that follow the first one wait for one commit together.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_for_many_calls_is_linked_with_each_and_each_with_it() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (server, _, received) = start(&["--store", &redis.url()]).await;
    let reports = server.reports().await;
    let report = |n: i32| {
        let mut reports = reports.clone();
        let message = mk_report("web", &format!("web/{n}"), Level::Active, "a");
        async move { reports.report_status(traced(message)).await.unwrap() }
    };
    report(0).await;
    let (mut commits, mut calls) = (Vec::new(), vec![next(&received, "ReportStatus")]);
    redis.cli(&["client", "pause", "500", "write"]);
    futures_util::future::join_all((1..6).map(report)).await;
    let linked = loop {
        let span = received.recv_timeout(DEADLINE).expect("the commit of many calls").span;
        match span.name.as_str() {
            "commit" => commits.push(span),
            "EVALSHA" => {}
            _ => calls.push(span),
        }
        let of_many = commits.iter().find(|commit| 1 < commit.links.len());
        // The commit of the first of them is a part of it.
        if let Some(commit) = of_many.filter(|_| calls.len() == 6) {
            break commit;
        }
    };
    assert!(linked.parent_span_id.is_empty(), "{linked:?}");
    assert_ne!(hex(&linked.trace_id), TRACE_ID, "it carries commands of many calls");
    for link in &linked.links {
        let call = calls.iter().find(|call| call.span_id == link.span_id).expect("its span");
        let [back] = &call.links[..] else { panic!("one link: {call:?}") };
        assert_eq!((&back.trace_id, &back.span_id), (&linked.trace_id, &linked.span_id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_span_of_a_stream_ends_with_the_stream_and_has_its_status() {
    let (server, _, received) = start(&["--ephemeral"]).await;
    let mut applications = server.applications().await;
    let watch = v1::WatchApplicationsRequest::default();
    let mut watched = applications.watch_applications(traced(watch)).await.unwrap().into_inner();
    let report = mk_report("web", "web/0", Level::Active, "a");
    server.reports().await.report_status(traced(report)).await.unwrap();
    while !matches!(
        watched.message().await.unwrap().expect("an event").event,
        Some(v1::watch_applications_response::Event::Upserted(_))
    ) {}
    // Spans are exported in the order in which they end: that of the watch has not.
    let first = loop {
        let one = received.recv_timeout(DEADLINE).expect("a span").span;
        assert!(!one.name.ends_with("WatchApplications"), "it goes on");
        if one.name.ends_with("ReportStatus") {
            break one;
        }
    };
    drop(watched);
    let watch = next(&received, "ApplicationService/WatchApplications");
    assert!(first.end_time_unix_nano <= watch.end_time_unix_nano);
    assert_eq!(hex(&watch.trace_id), TRACE_ID);
    let code = text(&watch.attributes, "rpc.response.status_code");
    assert!(code.contains("CANCELLED"), "{code}");
}

/// The reports of a session are commits of their own, with a link to the session.
#[tokio::test(flavor = "multi_thread")]
async fn the_commit_of_a_session_is_linked_with_it_and_no_part_of_it() {
    let (server, _, received) = start(&["--ephemeral"]).await;
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    let seq = peer.report(vec![status(Level::Blocked, "no database")]).await;
    peer.acknowledged(seq).await;
    peer.say(Said::Goodbye(v1::Goodbye { removed: true })).await;
    peer.end().await.unwrap();
    let mut commits = Vec::new();
    let session = loop {
        let span = received.recv_timeout(DEADLINE).expect("the span of the session").span;
        match span.name.as_str() {
            "commit" => commits.push(span),
            name if name.ends_with("WorkerService/Connect") => break span,
            _ => {}
        }
    };
    assert!(session.links.is_empty(), "{session:?}");
    assert!(text(&session.attributes, "rpc.response.status_code").contains("OK"), "{session:?}");
    assert!(!commits.is_empty());
    for commit in &commits {
        assert!(commit.parent_span_id.is_empty(), "{commit:?}");
        assert!(commit.links.iter().all(|link| link.span_id == session.span_id), "{commit:?}");
        assert_eq!(commit.links.len(), 1, "{commit:?}");
    }
}

/// One trace: from the program that runs the command, to the command, the call, the commit and the
/// sync of the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_continues_the_trace_of_its_caller_to_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("data");
    let (server, endpoint, received) = start(&["--data-dir", dir.to_str().unwrap()]).await;
    let report = |collector: Option<&str>| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_bellwether"));
        run.args(["--server", &server.url(), "report", "web/0", "--level", "active"]);
        run.env("TRACEPARENT", PARENT);
        run.envs(collector.map(|endpoint| ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)));
        assert!(run.output().unwrap().status.success());
    };
    report(Some(&endpoint));
    let (mut command, mut call, mut commit, mut sync) = (None, None, None, None);
    while [&command, &call, &commit, &sync].into_iter().any(Option::is_none) {
        let span = received.recv_timeout(DEADLINE).expect("each of the four").span;
        match span.name.as_str() {
            "bellwether report" => command = Some(span),
            "commit" => commit = Some(span),
            "fsync" => sync = Some(span),
            name if name.ends_with("ReportStatus") => call = Some(span),
            other => panic!("no other span: {other}"),
        }
    }
    let [command, call, commit, sync] = [command, call, commit, sync].map(Option::unwrap);
    for span in [&command, &call, &commit, &sync] {
        assert_eq!(hex(&span.trace_id), TRACE_ID, "{}", span.name);
    }
    assert_eq!(hex(&command.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(call.parent_span_id, command.span_id);
    assert_eq!(commit.parent_span_id, call.span_id);
    is_part_of(&sync, &commit, ["bellwether.embedded", "fsync"]);
    assert!(text(&command.attributes, "process.exit.code").contains("IntValue(0)"));

    // Without a collector of its own, the call continues the trace of the caller.
    report(None);
    let call = next(&received, "ReportStatus");
    assert_eq!(
        (hex(&call.trace_id).as_str(), hex(&call.parent_span_id).as_str()),
        (TRACE_ID, "00f067aa0ba902b7")
    );
}

/// A span of a store is a part of its commit, with the attributes of the conventions.
fn is_part_of(span: &Span, commit: &Span, [system, operation]: [&str; 2]) {
    assert_eq!((&span.trace_id, &span.parent_span_id), (&commit.trace_id, &commit.span_id));
    assert!(commit.start_time_unix_nano <= span.start_time_unix_nano);
    assert!(span.end_time_unix_nano <= commit.end_time_unix_nano);
    assert_eq!(span.kind(), SpanKind::Client);
    for (key, value) in [("db.system.name", system), ("db.operation.name", operation)] {
        assert!(text(&span.attributes, key).contains(&format!("\"{value}\"")), "{span:?}");
    }
    assert_eq!(text(&span.attributes, "error.type"), "None", "{span:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_of_redis_is_a_part_of_the_commit() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (server, _, received) = start(&["--store", &redis.url()]).await;
    let report = mk_report("web", "web/0", Level::Active, "a");
    server.reports().await.report_status(traced(report)).await.unwrap();
    // Spans are exported in the order in which they end.
    let script = next(&received, "EVALSHA");
    let commit = next(&received, "commit");
    is_part_of(&script, &commit, ["redis", "EVALSHA"]);
    let call = next(&received, "ReportStatus");
    assert_eq!(commit.parent_span_id, call.span_id);
    // While Redis refuses writes, the call of the store fails with the commit.
    redis.cli(&["config", "set", "min-replicas-to-write", "1"]);
    let report = mk_report("web", "web/0", Level::Waiting, "b");
    server.reports().await.report_status(traced(report)).await.unwrap_err();
    let script = next(&received, "EVALSHA");
    let commit = next(&received, "commit");
    assert_eq!(script.parent_span_id, commit.span_id);
    assert!(text(&commit.attributes, "result").contains("failed"), "{commit:?}");
}

/// The calls of a program with grpc-go and connect-go continue its span.
#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_a_go_program_continue_its_trace() {
    let (server, _, received) = start(&["--ephemeral"]).await;
    if !have("go-traced") {
        return;
    }
    let program = root().join(".tools/bin/go-traced");
    let address = server.url().replace("http://", "");
    let output = Command::new(program).arg(address).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let trace_id = String::from_utf8_lossy(&output.stdout).trim().to_string();
    assert_eq!(trace_id.len(), 32);
    for call in ["ReportStatus", "GetApplication"] {
        let span = next(&received, call);
        assert_eq!(hex(&span.trace_id), trace_id, "{call}");
        assert!(!span.parent_span_id.is_empty(), "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_not_sampled_has_no_commit_in_the_traces() {
    let (server, _, received) = start(&["--ephemeral"]).await;
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
    let spans = spans.map(|received| received.span);
    let commits = spans.take_while(|span| !span.name.ends_with("ReportStatus"));
    assert_eq!(commits.filter(|span| span.name == "commit").count(), 1);
}
