//! The list of `docs/metrics.md` is that of a running server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::{BufRead, BufReader};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;

use crate::ops::fetch;
use crate::redis::Redis;
use crate::server::{DEADLINE, Server, command, eventually, mk_report};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
const BEGIN: &str = "<!-- metrics: begin -->\n";
const END: &str = "<!-- metrics: end -->";

#[derive(Default)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Reads the families of the text format.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut all: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            all.entry(name.to_string()).or_default().help = help.to_string();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            all.entry(name.to_string()).or_default().kind = kind.to_string();
        } else if let Some((name, rest)) = line.split_once('{') {
            let (labels, _) = rest.rsplit_once('}').unwrap();
            let is_of = |family: &&String| {
                name.strip_prefix(family.as_str())
                    .is_some_and(|end| ["", "_bucket", "_sum", "_count"].contains(&end))
            };
            let family = all.keys().rfind(is_of).unwrap().clone();
            let names = labels.split("\",").filter_map(|label| label.split_once('='));
            let names = names.map(|(name, _)| name.to_string()).filter(|name| name != "le");
            all.get_mut(&family).unwrap().labels.extend(names);
        }
    }
    all
}

/// Columns of a line of a document.
const WIDTH_MAX: usize = 120;

fn list(families: &BTreeMap<String, Family>) -> String {
    let mut text = String::from("\n");
    for (name, Family { kind, help, labels }) in families {
        writeln!(text, "- `{name}`: {kind}").unwrap();
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        if !labels.is_empty() {
            writeln!(text, "{}", wrapped("  by ", &labels)).unwrap();
        }
        writeln!(text, "  — {help}").unwrap();
    }
    text.push('\n');
    text
}

/// Returns a list with commas, in lines as wide as those of documents.
fn wrapped(start: &str, items: &[String]) -> String {
    let (mut text, mut width) = (start.to_string(), start.len());
    for (at, item) in items.iter().enumerate() {
        let comma = if at + 1 < items.len() { "," } else { "" };
        if WIDTH_MAX < width + item.len() + 1 {
            text = format!("{}\n  ", text.trim_end());
            width = 2;
        }
        text += &format!("{item}{comma} ");
        width += item.len() + comma.len() + 1;
    }
    text.trim_end().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_lists_every_metric_of_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::on(directory.path());
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "a")).await.unwrap();
    let mut applications = server.applications().await;
    let request = v1::WatchApplicationsRequest::default();
    let watch = applications.watch_applications(request).await.unwrap();
    drop(watch);
    // Applications without marks have no series of them.
    reports.report_status(mk_report("db", "db/0", Level::Blocked, "b")).await.unwrap();
    let (kind, reason) = (v1::MarkKind::Acknowledged.into(), "known".to_string());
    let mark = Some(v1::Mark { kind, reason, ..v1::Mark::default() });
    let during = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let request =
        v1::SetMarkRequest { application: "db".into(), mark, during, ..Default::default() };
    applications.set_mark(request).await.unwrap();
    let text = eventually("the watch has ended", async || {
        let text = fetch(server.ops, "/metrics").1;
        let has_all = [
            "bellwether_rpc_streams_finished_total{",
            "bellwether_store_free_bytes ",
            "bellwether_application_marked{",
        ];
        has_all.into_iter().all(|one| text.contains(one)).then_some(text)
    })
    .await;
    let labels = r#"app_namespace="default",application="web",level="active""#;
    assert!(text.contains(&format!("bellwether_application_status{{{labels}}} 1")));
    let found = families(&text);
    for (name, family) in &found {
        assert!(!family.help.is_empty() && !family.kind.is_empty(), "{name}");
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}{}{END}{after}", list(&found));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, expected).unwrap();
        return;
    }
    assert!(page == expected, "docs/metrics.md is not up to date; run it with UPDATE=1");
}

#[test]
fn a_scraper_that_reads_gzip_gets_a_tenth() {
    use std::io::{Read, Write};
    let server = Server::ephemeral();
    let mut stream = std::net::TcpStream::connect(server.ops).unwrap();
    let head =
        "GET /metrics HTTP/1.1\r\nhost: x\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let headers = String::from_utf8_lossy(&answer[..at]).to_lowercase();
    assert!(headers.contains("content-encoding: gzip"), "{headers}");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer[at + 4..]).read_to_string(&mut text).unwrap();
    // Compared with the same text: a scrape a moment earlier has fewer series.
    let (sent, plain) = (answer.len() - at, text.len());
    assert!(text.contains("bellwether_build_info"), "{text}");
    assert!(sent < plain / 3, "{sent} of {plain} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scraper_that_prefers_open_metrics_gets_it() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "a")).await.unwrap();
    let prometheus = "accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
    let open = scrape(&server, prometheus);
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.contains("# TYPE bellwether_commits counter\n"), "{open}");
    assert!(open.trim_end().ends_with("# EOF"), "{open}");
    let plain = scrape(&server, "accept: */*");
    assert!(plain.contains("content-type: text/plain; version=0.0.4"), "{plain}");
    assert!(plain.contains("vary: accept, accept-encoding") && !plain.contains("# EOF"), "{plain}");
    // The same families, by their names without the end of counters.
    let families = |answer: &str| {
        let types = answer.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let names = types.map(|rest| rest.split(' ').next().unwrap().trim_end_matches("_total"));
        names.map(str::to_string).collect::<BTreeSet<_>>()
    };
    assert_eq!(families(&open), families(&plain));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_trace_is_exported_is_an_exemplar() {
    let mut serve = command(&["--ephemeral"]);
    // No collector is there; the spans are sampled.
    serve.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let server = Server::spawn(serve);
    let mut reports = server.reports().await;
    let mut request = tonic::Request::new(mk_report("web", "web/0", Level::Active, "a"));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    reports.report_status(request).await.unwrap();
    let expected = "# {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\",span_id=\"";
    eventually("the call is recorded", async || {
        let text = scrape(&server, "accept: application/openmetrics-text");
        let line = text.lines().find(|line| line.contains(expected))?;
        assert!(line.contains("ReportService/ReportStatus") && line.contains("_bucket{"), "{line}");
        Some(())
    })
    .await;
}

/// Returns head and body of the answer to a scraper with this line in its request.
fn scrape(server: &Server, accept: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.ops).unwrap();
    let head = format!("GET /metrics HTTP/1.1\r\nhost: x\r\n{accept}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn number(server: &Server, name: &str) -> Option<f64> {
    let text = fetch(server.ops, "/metrics").1;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    lines.next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_space_of_the_store_is_a_metric_before_it_is_used_up() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::on(directory.path());
    let [free, capacity] = ["bellwether_store_free_bytes", "bellwether_store_capacity_bytes"];
    let free_bytes = eventually("the disk is measured", async || number(&server, free)).await;
    assert!(0.0 < free_bytes && free_bytes <= number(&server, capacity).unwrap());
    let Some(redis) = Redis::start(&["--maxmemory", "50mb"]) else { return };
    let server = Server::start(&["--store", &redis.url()]);
    let free_bytes = eventually("the memory is measured", async || number(&server, free)).await;
    assert_eq!(number(&server, capacity), Some(50.0 * 1024.0 * 1024.0));
    assert!(40.0e6 < free_bytes && free_bytes < 52.5e6, "{free_bytes}");
    // A Redis without maxmemory has no bound to compare with.
    let memory = Server::ephemeral();
    assert_eq!(number(&memory, free), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_almost_full_is_a_warning() {
    let Some(redis) = Redis::start(&["--maxmemory", "12mb"]) else { return };
    redis.cli(&["setrange", "ballast", "9500000", "x"]);
    let mut command = command(&["--store", &redis.url()]);
    let mut child = command.spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let warned = tokio::task::spawn_blocking(move || {
        stderr.lines().map_while(Result::ok).any(|line| line.contains("almost full"))
    });
    let warned = tokio::time::timeout(DEADLINE, warned).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(warned.expect("a warning in time").unwrap());
}
