//! Damped and latched statuses over the wire: few events, no lost status, and a mark on each.

use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::watch_applications_response::Event;

use crate::redis::Redis;
use crate::server::{BINARY, DEADLINE, Server, eventually, get, mk_report, reason};

const SWINGS: u64 = 100;

async fn configure(server: &Server, application: &str, config: v1::ApplicationConfig) {
    let request = v1::ConfigureApplicationRequest {
        application: application.to_string(),
        config: Some(config),
        ..v1::ConfigureApplicationRequest::default()
    };
    server.applications().await.configure_application(request).await.unwrap();
}

fn mk_damping(calm_after_seconds: i64) -> v1::ApplicationConfig {
    v1::ApplicationConfig {
        damping: Some(v1::Damping {
            components: vec!["*".to_string()],
            calm_after: Some(prost_types::Duration { seconds: calm_after_seconds, nanos: 0 }),
            ..v1::Damping::default()
        }),
        ..v1::ApplicationConfig::default()
    }
}

fn mk_latch(good_count: i32) -> v1::ApplicationConfig {
    v1::ApplicationConfig {
        latches: vec![v1::Latch { component: "*".to_string(), good_count }],
        ..v1::ApplicationConfig::default()
    }
}

async fn application(server: &Server, name: &str) -> v1::Application {
    let got = server.applications().await.get_application(get(name)).await.unwrap();
    got.into_inner().application.unwrap()
}

/// Returns the only status of an application.
async fn record(server: &Server, application: &str) -> v1::StatusRecord {
    let request = v1::ListStatusesRequest {
        application: application.to_string(),
        ..v1::ListStatusesRequest::default()
    };
    let answer = server.applications().await.list_statuses(request).await.unwrap().into_inner();
    let [record] = &answer.statuses[..] else { panic!("{answer:?}") };
    record.clone()
}

async fn swing(server: &Server, application: &str, count: u64) {
    let mut reports = server.reports().await;
    for n in 0..count {
        let level = if n % 2 == 0 { Level::Active } else { Level::Blocked };
        let report = mk_report(application, "web/0", level, &format!("{level:?}"));
        reports.report_status(report).await.unwrap();
    }
}

/// Runs a command of the binary and returns its output.
fn command(server: &Server, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(BINARY);
    command.args(arguments).args(["--server", &server.url(), "--color", "never"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn watchers_sleep_while_an_application_flaps() {
    let server = Server::ephemeral();
    configure(&server, "damped", mk_damping(600)).await;
    configure(&server, "plain", v1::ApplicationConfig::default()).await;
    let mut client = server.applications().await;
    let request = v1::WatchApplicationsRequest::default();
    let mut stream = client.watch_applications(request).await.unwrap().into_inner();
    swing(&server, "damped", SWINGS).await;
    swing(&server, "plain", SWINGS).await;
    server.reports().await.report_status(mk_report("zz", "zz/0", Level::Active, "")).await.unwrap();
    let mut upserts = 0;
    loop {
        let response = tokio::time::timeout(DEADLINE, stream.message()).await;
        match response.unwrap().unwrap().unwrap().event.unwrap() {
            Event::Upserted(app) if app.name == "zz" => break,
            Event::Upserted(app) => upserts += u64::from(app.name == "damped"),
            _ => {}
        }
    }
    // The snapshot, the first report, and six changes of which the last one starts the damping;
    // then no more events.
    assert!(upserts <= 9, "{upserts} events of {SWINGS} swings");
    let damped = application(&server, "damped").await;
    assert_eq!(damped.revision, 8);
    assert_eq!(application(&server, "plain").await.revision, 1 + SWINGS);
    let status = damped.status.unwrap();
    assert_eq!((status.level(), status.flapping, status.flapping_count), (Level::Blocked, true, 1));
}

#[tokio::test]
async fn the_last_report_of_a_flapping_status_survives_and_is_shown_when_calm() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::on(directory.path());
    configure(&server, "web", mk_damping(600)).await;
    swing(&server, "web", 21).await;
    server.kill();
    let server = Server::on(directory.path());
    let held = record(&server, "web").await.held.unwrap();
    assert_eq!(held.cause(), v1::HoldCause::Flapping);
    assert_eq!((held.latest_level(), held.latest_message.as_str()), (Level::Active, "Active"));
    assert!(held.calm_time.is_some() && held.flapping_time.is_some());

    let shown = command(&server, &["status"]);
    assert!(shown.contains("web/0: Blocked (flapping !)"), "{shown}");
    let why = command(&server, &["why", "web"]);
    assert!(
        why.contains("flapping: 20 of the last 20 results moved the level, now active"),
        "{why}"
    );

    // A shorter calm period applies from the next change on.
    configure(&server, "web", mk_damping(1)).await;
    swing(&server, "web", 2).await;
    let status = eventually("it is calm", async || {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let status = application(&server, "web").await.status.unwrap();
        (!status.flapping).then_some(status)
    });
    let status = status.await;
    assert_eq!((status.level(), status.message.as_str()), (Level::Blocked, "Blocked"));
    assert_eq!(record(&server, "web").await.held, None);
    let log = command(&server, &["log", "web"]);
    for mark in ["(flapping began)", "(flapping ended)"] {
        assert_eq!(log.matches(mark).count(), 1, "{log}");
    }
}

async fn pull(server: &Server, level: Option<Level>) {
    let status =
        |level| v1::StatusReport { level: i32::from(level), ..v1::StatusReport::default() };
    let request = v1::ReplaceStatusesRequest {
        application: "web".to_string(),
        unit: "web/0".to_string(),
        statuses: level.map(status).into_iter().collect(),
        ..v1::ReplaceStatusesRequest::default()
    };
    server.reports().await.replace_statuses(request).await.unwrap();
}

#[tokio::test]
async fn a_latched_pull_status_stays_until_enough_good_reports() {
    let server = Server::ephemeral();
    configure(&server, "web", mk_latch(3)).await;
    pull(&server, Some(Level::Error)).await;
    pull(&server, Some(Level::Active)).await;
    pull(&server, None).await;
    let held = record(&server, "web").await.held.unwrap();
    assert_eq!((held.cause(), held.latest_level()), (v1::HoldCause::Latch, Level::Unspecified));
    assert_eq!((held.good_count, held.good_needed), (2, 3));
    assert_eq!(held.description, "latched: 2 of 3 good pulls, now absent");
    let why = command(&server, &["why", "web"]);
    assert!(why.contains("(latched: 2 of 3 good pulls, now absent)"), "{why}");
    pull(&server, Some(Level::Active)).await;
    assert_eq!(application(&server, "web").await.status.unwrap().level(), Level::Active);
    let set = command(&server, &["configure", "web"]);
    let words = |line: &str| line.split_whitespace().eq(["latch", "*=3"]);
    assert!(set.lines().any(words), "{set}");
}

#[tokio::test]
async fn an_invalid_latch_or_damping_is_refused() {
    let server = Server::ephemeral();
    let refused = async |config: v1::ApplicationConfig| {
        let request = v1::ConfigureApplicationRequest {
            application: "web".to_string(),
            config: Some(config),
            ..v1::ConfigureApplicationRequest::default()
        };
        let mut client = server.applications().await;
        let status = client.configure_application(request).await.unwrap_err();
        (reason(&status), status.message().to_string())
    };
    let (reason, text) = refused(mk_latch(1)).await;
    assert_eq!(reason, "INVALID_VALUE");
    assert!(text.contains("latches[0].good_count is 1; give 2 to 100"), "{text}");
    let mut twice = mk_latch(2);
    twice.latches.extend(twice.latches.clone());
    let (_, text) = refused(twice).await;
    assert!(text.contains("latches[1].component is \"*\" again"), "{text}");
    let mut upside_down = mk_damping(5);
    upside_down.damping.as_mut().unwrap().stop_percent = 40;
    let (_, text) = refused(upside_down).await;
    assert!(text.contains("stop_percent is 40; give 1 to 30"), "{text}");
    let latch = |n| v1::Latch { component: format!("c{n}"), good_count: 2 };
    let many = v1::ApplicationConfig {
        latches: (0..65).map(latch).collect(),
        ..v1::ApplicationConfig::default()
    };
    let (reason, text) = refused(many).await;
    assert_eq!(reason, "LIMIT_EXCEEDED");
    assert!(text.contains("latches_max"), "{text}");
}

/// A replica receives no notification of quiet commits; its next commit must not undo them.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_keep_commits_that_were_not_broadcast() {
    let Some(redis) = Redis::start(&[]) else { return };
    let over = || Server::start(&["--store", &redis.url()]);
    let (first, second) = (over(), over());
    configure(&first, "web", mk_latch(4)).await;
    pull(&first, Some(Level::Error)).await;
    // Both replicas have the current status.
    pull(&second, Some(Level::Active)).await;
    pull(&first, Some(Level::Active)).await;
    let held = record(&first, "web").await.held.unwrap();
    assert_eq!((held.good_count, held.latest_level()), (2, Level::Active));
    // The second replica has seen one good pull and now a bad one. The first replica did not see
    // the bad one.
    pull(&second, Some(Level::Error)).await;
    for good in 1..=3 {
        pull(&first, Some(Level::Active)).await;
        let record = record(&first, "web").await;
        assert_eq!(record.report.as_ref().unwrap().level(), Level::Error);
        assert_eq!(record.held.unwrap().good_count, good);
    }
    // The second replica takes the repeated report for a repetition, but it is a change.
    pull(&second, Some(Level::Error)).await;
    let third = over();
    assert_eq!(record(&third, "web").await.held, None);
    for server in [&first, &second, &third, &first] {
        pull(server, Some(Level::Active)).await;
    }
    assert_eq!(application(&first, "web").await.status.unwrap().level(), Level::Active);
}
