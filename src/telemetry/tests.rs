//! Tests of the whole telemetry, each in a process of its own: telemetry is set up once per
//! process, from the `OTEL_*` variables of the process.

use std::env;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1 as logs;
use opentelemetry_proto::tonic::collector::metrics::v1 as metrics;
use opentelemetry_proto::tonic::collector::trace::v1 as trace;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::*;

/// The deadline of `shutdown` in the child, in milliseconds. A process without this variable is not
/// a child.
const DEADLINE: &str = "BELLWETHER_TEST_SHUTDOWN_MILLIS";

/// The time that `shutdown` may take beyond its deadline on a machine that is busy with other
/// tests.
const SLACK: Duration = Duration::from_secs(2);

/// Runs [`child`] in another process.
fn run_child(deadline: Duration, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command
        .args(["--exact", "telemetry::tests::child", "--ignored", "--nocapture"])
        .env(DEADLINE, deadline.as_millis().to_string())
        .env("BELLWETHER_LOG", "info")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

/// Runs on a runtime of one thread, where a shutdown that waits for that thread would hang.
#[tokio::test]
#[ignore = "only in a process of its own: the other tests run it"]
async fn child() {
    let Ok(millis) = env::var(DEADLINE) else {
        return;
    };
    let deadline = Duration::from_millis(millis.parse().unwrap());
    let telemetry = init(Options::from_env("1.2.3")).unwrap();
    telemetry.metrics().report(ReportResult::Changed);
    tracing::info_span!("outer").in_scope(|| tracing::info!(answer = 42, "it happened"));
    // Events like those of the exporters' own connections, which must not be exported.
    tracing::info_span!(target: "h2::client", "inner").in_scope(|| {
        tracing::info!(target: "hyper_util::client", "it is told to the collector");
    });
    let is_disabled = env::var_os("OTEL_SDK_DISABLED").is_some();
    let text = telemetry.prometheus().text();
    assert_eq!(text.contains("bellwether_reports_total"), !is_disabled, "{text}");
    println!("{text}");
    assert!(matches!(init(Options::from_env("1.2.3")), Err(Error::Installed(_))));

    let started = Instant::now();
    let result = telemetry.shutdown(deadline);
    let elapsed = started.elapsed();
    println!("shutdown: {}", if result.is_ok() { "delivered" } else { "gave up" });
    assert!(elapsed < deadline + SLACK, "shutdown took {elapsed:?}: {result:?}");
    tracing::info!("logs go on");
}

#[track_caller]
fn assert_success(output: &Output, shutdown: &str) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains(&format!("shutdown: {shutdown}")), "{stdout}\n{stderr}");
    stderr
}

#[test]
fn without_a_collector_there_are_json_lines_on_stderr() {
    let output = run_child(Duration::from_secs(10), &[]);
    let stderr = assert_success(&output, "delivered");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let target = stdout.lines().find(|line| line.starts_with("target_info{")).expect("no target");
    for label in [r#"service_name="bellwether""#, r#"service_version="1.2.3""#] {
        assert!(target.contains(label), "{target}");
    }
    let lines: Vec<serde_json::Value> = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let line = lines.iter().find(|line| line["message"] == "it happened").expect("no such line");
    assert_eq!(line["answer"], 42);
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["span"]["name"], "outer");
    assert!(lines.iter().any(|line| line["message"] == "logs go on"));
}

#[test]
fn a_collector_that_never_answers_does_not_hold_up_the_shutdown() {
    // The kernel accepts connections for this listener, and no process reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    assert_success(&run_child(Duration::from_millis(300), &variables), "gave up");
}

#[test]
fn a_collector_that_is_away_does_not_hold_up_the_shutdown() {
    // A port that was bound and closed again refuses connections.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = format!("http://{address}");
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    assert_success(&run_child(Duration::from_millis(300), &variables), "gave up");
}

#[test]
fn with_the_sdk_disabled_no_collector_is_looked_for() {
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", "not an address"), ("OTEL_SDK_DISABLED", "true")];
    assert_success(&run_child(Duration::from_secs(10), &variables), "delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_collector_gets_all_signals_and_nothing_about_itself() {
    let (address, received) = mk_collector().await;
    let endpoint = format!("http://{address}");
    let run = move || {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_SERVICE_NAME", "renamed"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=hidden,site=here"),
        ];
        run_child(Duration::from_secs(30), &variables)
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let stderr = assert_success(&output, "delivered");
    assert!(stderr.contains("it is told to the collector"), "on stderr it may be: {stderr}");

    let told = received.try_iter().collect::<Vec<_>>().join("\n");
    for word in
        ["\"renamed\"", "\"here\"", "\"1.2.3\"", "\"outer\"", "it happened", "bellwether.reports"]
    {
        assert!(told.contains(word), "no {word} in {told}");
    }
    for word in ["\"hidden\"", "h2::client", "\"inner\"", "it is told to the collector"] {
        assert!(!told.contains(word), "{word} in {told}");
    }
}

/// Starts a collector that keeps the requests as text.
async fn mk_collector() -> (SocketAddr, Receiver<String>) {
    let (sender, receiver) = channel();
    let collector = Collector(sender);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .add_service(trace::trace_service_server::TraceServiceServer::new(collector.clone()))
        .add_service(logs::logs_service_server::LogsServiceServer::new(collector.clone()))
        .add_service(metrics::metrics_service_server::MetricsServiceServer::new(collector))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    (address, receiver)
}

#[derive(Clone)]
struct Collector(Sender<String>);

macro_rules! collects {
    ($service:path, $request:path, $response:path) => {
        #[tonic::async_trait]
        impl $service for Collector {
            async fn export(
                &self,
                request: Request<$request>,
            ) -> Result<Response<$response>, Status> {
                self.0.send(format!("{:?}", request.into_inner())).expect("the test is over");
                Ok(Response::new(<$response>::default()))
            }
        }
    };
}

collects!(
    trace::trace_service_server::TraceService,
    trace::ExportTraceServiceRequest,
    trace::ExportTraceServiceResponse
);
collects!(
    logs::logs_service_server::LogsService,
    logs::ExportLogsServiceRequest,
    logs::ExportLogsServiceResponse
);
collects!(
    metrics::metrics_service_server::MetricsService,
    metrics::ExportMetricsServiceRequest,
    metrics::ExportMetricsServiceResponse
);

#[test]
fn a_wrong_filter_is_refused_with_its_text() {
    let options = Options { log_filter: "info,=nonsense=".into(), ..Options::from_env("0") };
    let Err(error) = init(options) else { panic!("the filter is accepted") };
    assert!(error.to_string().contains("info,=nonsense="), "{error}");
}
