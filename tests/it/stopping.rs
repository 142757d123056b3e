//! A worker that announces its stop: by a call, in a session, and on the command line. What it
//! reports afterwards does not pass to its successor.

use bellwether::proto::v1;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use bellwether_client::Worker;
use bellwether_client::worker::Options;

use crate::cli::{ok, run};
use crate::server::{Server, mk_report, reason};

#[tokio::test(flavor = "multi_thread")]
async fn last_words_end_with_the_incarnation() {
    let server = Server::ephemeral();
    ok(&server, &["register", "web/0"]);
    ok(&server, &["report", "web/0", "--level", "maintenance", "--component", "backup"]);
    let said = run(&server, &["stopping", "web/0"]);
    assert!(said.err.starts_with("web/0 is stopping; what it reports"), "{}", said.err);
    let again = run(&server, &["stopping", "web/0"]);
    assert!(again.err.starts_with("no change: web/0 was stopping"), "{}", again.err);
    let last = ["report", "web/0", "--level", "blocked", "-m", "Please add relationship"];
    ok(&server, &[&last[..], &["--component", "db", "--action", "add it"]].concat());
    ok(&server, &["error", "web/0", "--component", "net", "--system", "http", "--code", "503"]);
    let why = ok(&server, &["why", "web"]);
    assert!(why.contains("Please add relationship (said while stopping)"), "{why}");
    assert!(why.contains("web/0 backup  maintenance"), "{why}");
    let units = ok(&server, &["status", "web"]);
    assert!(units.contains("Please add relationship (stopping)"), "{units}");
    let found = run(&server, &["register", "web/0"]);
    assert!(found.err.contains("1 push status is kept from before"), "{}", found.err);
    let why = ok(&server, &["why", "web"]);
    assert!(why.starts_with("web is maintenance") && !why.contains("relationship"), "{why}");
    assert!(!ok(&server, &["status", "web"]).contains("(stopping)"));
    let log = ok(&server, &["log", "web/0"]);
    assert!(log.contains("announced its stop"), "{log}");
    assert!(log.contains("ended with its unit, which was replaced"), "{log}");
    let faults = v1::ListFaultsRequest { application: "web".into(), ..Default::default() };
    let faults = server.applications().await.list_faults(faults).await.unwrap().into_inner();
    assert_eq!(faults.faults, []);
}

#[tokio::test]
async fn the_call_is_checked_as_every_other() {
    let server = Server::ephemeral();
    let mut workers = WorkerServiceClient::new(server.channel().await);
    let stop = |unit: &str, incarnation| v1::AnnounceStopRequest {
        application: "web".into(),
        unit: unit.into(),
        incarnation,
        ..Default::default()
    };
    let refused = workers.announce_stop(stop("web/0", None)).await.unwrap_err();
    assert_eq!(reason(&refused), "APPLICATION_NOT_FOUND");
    let active = mk_report("web", "web/0", v1::Level::Active, "");
    server.reports().await.report_status(active).await.unwrap();
    let refused = workers.announce_stop(stop("web/7", None)).await.unwrap_err();
    assert_eq!(reason(&refused), "UNIT_NOT_FOUND");
    let refused = workers.announce_stop(stop("", None)).await.unwrap_err();
    assert_eq!(reason(&refused), "MISSING_FIELD");
    ok(&server, &["register", "web/0"]);
    ok(&server, &["register", "web/0"]);
    let refused = workers.announce_stop(stop("web/0", Some(1))).await.unwrap_err();
    assert_eq!(reason(&refused), "STALE_INCARNATION");
    assert!(workers.announce_stop(stop("web/0", Some(2))).await.unwrap().into_inner().changed);
    let units = v1::ListUnitsRequest { application: "web".into(), ..Default::default() };
    let units = server.applications().await.list_units(units).await.unwrap().into_inner().units;
    assert!(units[0].stopping_time.is_some(), "{units:?}");
    let said = run(&server, &["stopping", "web/9", "--best-effort"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

/// The complaint of an agent that is torn down, with a hand-over to the next pod.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_stops_leaves_its_complaint_behind() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/z", "--level", "active"]);
    ok(&server, &["configure", "web", "--hand-over", "any"]);
    let pod = |name: &str| {
        let options = Options::new(&server.url(), "web", name).stateless(true);
        Worker::connect(options, |_| async { vec![] }).unwrap()
    };
    let status = |component: &str, message: &str| v1::StatusReport {
        component: component.into(),
        level: v1::Level::Maintenance.into(),
        message: message.into(),
        ..Default::default()
    };
    let old = pod("web-a");
    old.set_status(status("backup", "dump 40%")).await.unwrap();
    old.announce_stop().await.unwrap();
    old.set_status(status("db", "Please add relationship")).await.unwrap();
    let why = ok(&server, &["why", "web"]);
    assert!(why.contains("Please add relationship (said while stopping"), "{why}");
    old.shutdown(true).await.unwrap();
    let new = pod("web-b");
    new.connected().await.unwrap();
    let kept: Vec<_> = new.retained().into_iter().map(|status| status.message).collect();
    assert_eq!(kept, ["dump 40%"]);
    let why = ok(&server, &["why", "web"]);
    assert!(why.contains("web-b backup") && !why.contains("relationship"), "{why}");
    new.shutdown(false).await.unwrap();
}
