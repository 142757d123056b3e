//! What `bellwether notify` takes: each measurement once and small; by variables of the environment
//! as large as it is promised. They print figures and hold no limits of time.
//!
//! ```sh
//! BELLWETHER_NOTIFY_APPLICATIONS=10000 BELLWETHER_NOTIFY_FLIPS=10000 \
//!   cargo test --release --test it -- notifier_measured:: --nocapture --test-threads 1
//! ```

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use tonic::transport::Channel;

use crate::cli::ok;
use crate::http_receiver::{HttpReceiver, Posted};
use crate::interop::have;
use crate::notifier::{Site, told};
use crate::notifier_alertmanager::{Alertmanager, counts};
use crate::server::{DEADLINE, Server, eventually, mk_report};

/// Calls under way at once.
const CALLERS: usize = 16;

fn size(variable: &str, small: usize) -> usize {
    let given = std::env::var(format!("BELLWETHER_NOTIFY_{variable}")).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(small)
}

/// Reports what `mk` makes for each number, several at once; returns when each was sent.
async fn report_all(
    reports: &ReportServiceClient<Channel>,
    count: usize,
    pace: Duration,
    mk: fn(usize) -> v1::ReportStatusRequest,
) -> HashMap<String, Instant> {
    let begun = Instant::now();
    let callers = (0..CALLERS).map(|caller| {
        let mut reports = reports.clone();
        tokio::spawn(async move {
            let mut sent = Vec::new();
            for number in (caller..count).step_by(CALLERS) {
                let at = begun + pace * number as u32;
                tokio::time::sleep_until(at.into()).await;
                let request = mk(number);
                sent.push((request.application.clone(), Instant::now()));
                reports.report_status(request).await.unwrap();
            }
            sent
        })
    });
    let mut sent = HashMap::new();
    for caller in callers.collect::<Vec<_>>() {
        sent.extend(caller.await.unwrap());
    }
    sent
}

fn of(number: usize, level: Level) -> v1::ReportStatusRequest {
    let application = format!("app-{number}");
    mk_report(&application, &format!("{application}/0"), level, "said so")
}

/// Waits until the notifier leads.
async fn leads(server: &Server) {
    let start = Instant::now();
    while !ok(server, &["status", "bellwether-notify"]).contains("leads") {
        assert!(start.elapsed() < DEADLINE, "nobody leads");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Row 23: from a report to its message, at 1,000 changes a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_a_report_to_its_message() {
    let count = size("APPLICATIONS", 100);
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let stable_for = Duration::from_secs(1);
    let to = format!(
        "[[to]]\nname = \"h\"\nwebhook = \"{}\"\nsecret_file = \"secret\"\n",
        receiver.url()
    );
    let site = Site::new(&format!("{to}[[route]]\nto = \"h\"\nstable_for = \"1s\"\n"));
    ok(&server, &["report", "bellwether-notify/x", "--level", "active"]);
    let _notifier = site.start(&server, "one");
    leads(&server).await;
    let reports = server.reports().await;
    let pace = Duration::from_millis(1);
    let sent = report_all(&reports, count, pace, |number| of(number, Level::Error)).await;
    let posted = receiver.until("all messages", |posted| count <= posted.len());
    let mut delays: Vec<f64> = Vec::with_capacity(count);
    for posted in posted {
        let name = posted.json()["data"]["application"].as_str().unwrap().to_string();
        let after = posted.at.duration_since(sent[&name]);
        delays.push((after.as_secs_f64() - stable_for.as_secs_f64()) * 1e3);
    }
    delays.sort_by(f64::total_cmp);
    let at = |share: usize| delays[(delays.len() - 1) * share / 100];
    println!(
        "report to message, {count} changes at 1,000 a second, beyond stable_for: p50 {:.1} ms, \
         p99 {:.1} ms, {:.2} of 100 ms",
        at(50),
        at(99),
        at(99) / 100.0
    );
    assert_eq!(delays.len(), count);
}

/// Many applications turn at once behind one cause: one message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_behind_one_cause_are_one_message() {
    let count = size("APPLICATIONS", 100);
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let site = Site::webhook(&receiver.url());
    ok(&server, &["report", "bellwether-notify/x", "--level", "active"]);
    let _notifier = site.start(&server, "one");
    leads(&server).await;
    let reports = server.reports().await;
    report_all(&reports, count, Duration::ZERO, |number| of(number, Level::Active)).await;
    let begun = Instant::now();
    reports.clone().report_status(mk_report("zone", "zone/0", Level::Error, "down")).await.unwrap();
    let waits = |number| {
        let mut request = of(number, Level::Waiting);
        let need = v1::ApplicationNeed { application: "zone".into(), ..Default::default() };
        let object = Some(v1::need::Object::Application(need));
        request.status.as_mut().unwrap().needs = vec![v1::Need { object }];
        request
    };
    report_all(&reports, count, Duration::ZERO, waits).await;
    let reported = begun.elapsed();
    // The last message shows that the notifier has seen all the others.
    let last = mk_report("last", "last/0", Level::Error, "alone");
    reports.clone().report_status(last).await.unwrap();
    let posted = receiver
        .until("the last", |posted| told(posted).iter().any(|told| told.starts_with("last ")));
    assert_eq!(told(&posted), ["zone problem error", "last problem error"]);
    println!(
        "{count} applications behind one cause: 1 message after {:.3} s; reported within {:.1} s, \
         all seen {:.3} s after that",
        posted[0].at.duration_since(begun).as_secs_f64(),
        reported.as_secs_f64(),
        posted[1].at.duration_since(begun).as_secs_f64() - reported.as_secs_f64(),
    );
}

/// A killed leader of a pair: how long until the other one tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced() {
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let site = Site::webhook(&receiver.url());
    ok(&server, &["report", "bellwether-notify/x", "--level", "active"]);
    let mut first = site.start(&server, "one");
    leads(&server).await;
    let _second = site.start(&server, "two");
    eventually("the second stands by", async || {
        ok(&server, &["status", "bellwether-notify", "-o", "json"])
            .contains("stands by")
            .then_some(())
    })
    .await;
    first.0.kill().unwrap();
    let killed = Instant::now();
    ok(&server, &["report", "web/0", "--level", "error", "-m", "down"]);
    let posted = receiver.until("a message", |posted| !posted.is_empty());
    let after = posted[0].at.duration_since(killed).as_secs_f64();
    println!("a killed leader is replaced: first message after {after:.1} s");
}

/// Debian's Alertmanager: firing and resolved are equal in number, with marks set and removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_alert_is_resolved_over_many_flips() {
    if !have("prometheus-alertmanager") {
        return;
    }
    let flips = size("FLIPS", 40);
    let applications = flips.clamp(4, 100);
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let folder = tempfile::tempdir().unwrap();
    let alertmanager = Alertmanager::start(folder.path(), &receiver);
    let site = alertmanager.site();
    let _notifier = site.start(&server, "one");
    let reports = server.reports().await;
    for round in 1..=flips.div_ceil(applications) {
        let error = |number| of(number, Level::Error);
        report_all(&reports, applications, Duration::ZERO, error).await;
        let all = |place: usize| {
            move |posted: &[Posted]| {
                let counts = counts(posted);
                counts.len() == applications && counts.values().all(|it| it[place] == round)
            }
        };
        receiver.until("all fire", all(0));
        for (number, verb) in (0..4).zip(["ack", "ack", "plan", "plan"]) {
            let name = format!("app-{number}");
            ok(&server, &[verb, &name, "--during", "1h", "--id", "m", "-m", "known"]);
        }
        let active = |number| of(number, Level::Active);
        report_all(&reports, applications, Duration::ZERO, active).await;
        for number in 0..4 {
            ok(&server, &["unmark", &format!("app-{number}"), "m"]);
        }
        receiver.until("all are resolved", all(1));
    }
    let counts = counts(&receiver.posted());
    let sum = |place: usize| counts.values().map(|count| count[place]).sum::<usize>();
    println!("Alertmanager: {} firing, {} resolved", sum(0), sum(1));
    assert_eq!(sum(0), sum(1));
}
