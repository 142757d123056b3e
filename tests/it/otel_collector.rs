//! A collector of OpenTelemetry, started with the file of `examples/`, prints what Bellwether
//! sends.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use bellwether::proto::v1::Level;

use crate::interop::{have, root};
use crate::server::{DEADLINE, Server, command, mk_report};

struct Collector {
    process: Child,
    endpoint: String,
    printed: Receiver<String>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Collector {
    /// Starts a collector; other tests have the port of the file and that of its own metrics.
    fn start() -> Collector {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let endpoint = format!("127.0.0.1:{port}");
        let mut process = Command::new(root().join(".tools/bin/otelcol"))
            .arg("--config")
            .arg(root().join("examples/otel-collector.yaml"))
            .arg(format!("--set=receivers.otlp.protocols.grpc.endpoint={endpoint}"))
            .arg("--set=service.telemetry.metrics.level=none")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, printed) = channel();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).take_while(|line| sender.send(line.clone()).is_ok()).count()
        });
        let collector = Collector { process, endpoint: format!("http://{endpoint}"), printed };
        collector.await_line(&["Everything is ready"]);
        collector
    }

    /// Waits for a line with each of these parts.
    fn await_line(&self, parts: &[&str]) {
        let mut seen = Vec::new();
        while let Ok(line) = self.printed.recv_timeout(DEADLINE) {
            if parts.iter().all(|part| line.contains(part)) {
                return;
            }
            seen.push(line);
        }
        panic!("no line with {parts:?} in:\n{}", seen.join("\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_collector_of_the_example_prints_spans_metrics_and_logs() {
    if !have("otelcol") {
        return;
    }
    let collector = Collector::start();
    let directory = tempfile::tempdir().unwrap();
    let mut serve = command(&["--data-dir", directory.path().join("data").to_str().unwrap()]);
    serve.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
    serve.env("OTEL_BSP_SCHEDULE_DELAY", "50").env("OTEL_BLRP_SCHEDULE_DELAY", "50");
    serve.env("OTEL_METRIC_EXPORT_INTERVAL", "100");
    let server = Server::spawn(serve);
    // The log of a server has lines at its start.
    collector.await_line(&["LogRecord #0"]);
    let report = mk_report("web", "web/0", Level::Active, "a");
    server.reports().await.report_status(report).await.unwrap();
    for line in [
        &["Name", ": fsync"][..],
        &["-> db.operation.name: Str(fsync)"],
        &["Name", ": bellwether.v1.ReportService/ReportStatus"],
        &["-> Name: bellwether.commit.duration"],
    ] {
        collector.await_line(line);
    }
}
