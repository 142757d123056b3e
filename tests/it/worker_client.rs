//! The worker of the client library against the real server: restarts of the server, and a rival
//! worker.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether_client::Worker;
use bellwether_client::worker::{Error, Event, Events, Options};

use crate::server::{DEADLINE, Server, command, eventually, get};

/// Starts a server at an address that it had before.
fn again(address: SocketAddr, store: &[&str]) -> Server {
    let mut command = command(store);
    command.env("BELLWETHER_GRPC_LISTEN", address.to_string());
    Server::spawn(command)
}

fn on(data_dir: &Path) -> Vec<&str> {
    vec!["--data-dir", data_dir.to_str().unwrap()]
}

/// Starts a worker whose pull set is always `serving`.
fn work(server: &Server) -> (Worker, Events) {
    let options = Options::new(&server.url(), "web", "web/0");
    let worker = Worker::connect(options, |_| async { vec![status("", Level::Active, "serving")] });
    let worker = worker.unwrap();
    let events = worker.events();
    (worker, events)
}

fn status(component: &str, level: Level, message: &str) -> v1::StatusReport {
    v1::StatusReport {
        component: component.to_string(),
        level: level.into(),
        message: message.to_string(),
        ..v1::StatusReport::default()
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("happens")
}

/// Waits for an event.
async fn until(events: &mut Events, is_it: impl Fn(&Event) -> bool) -> Event {
    soon(async {
        loop {
            let event = events.next().await.expect("not over");
            if is_it(&event) {
                return event;
            }
        }
    })
    .await
}

/// Returns the stored statuses of the unit: `component=message`, sorted.
async fn told(server: &Server) -> Vec<String> {
    let request =
        v1::ListStatusesRequest { application: "web".into(), ..v1::ListStatusesRequest::default() };
    let Ok(listed) = server.applications().await.list_statuses(request).await else {
        return Vec::new();
    };
    let reports = listed.into_inner().statuses.into_iter().filter_map(|record| record.report);
    let mut told: Vec<_> = reports.map(|r| format!("{}={}", r.component, r.message)).collect();
    told.sort();
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reports_is_asked_and_leaves_for_good() {
    let server = Server::ephemeral();
    let (worker, _) = work(&server);
    let pushed = worker.set_status(status("db", Level::Blocked, "no password"));
    assert_eq!(soon(worker.connected()).await.unwrap(), 1);
    let revision = soon(pushed.into_future()).await.unwrap();
    let request = v1::GetApplicationRequest { min_revision: revision, ..get("web") };
    let got = server.applications().await.get_application(request).await.unwrap().into_inner();
    assert_eq!(got.application.unwrap().status.unwrap().message, "no password");
    let request = v1::CollectApplicationRequest {
        application: "web".into(),
        recompute: true,
        ..v1::CollectApplicationRequest::default()
    };
    let collected = server.applications().await.collect_application(request).await.unwrap();
    assert_eq!(collected.into_inner().answered_count, 1);
    assert_eq!(told(&server).await, ["=serving", "db=no password"]);
    let push = v1::StatusKind::Push;
    soon(worker.clear_status("db", "", Some(push)).into_future()).await.unwrap();
    assert_eq!(told(&server).await, ["=serving"]);
    soon(worker.shutdown(true)).await.unwrap();
    let request =
        v1::ListUnitsRequest { application: "web".into(), ..v1::ListUnitsRequest::default() };
    let units = server.applications().await.list_units(request).await.unwrap().into_inner().units;
    assert_eq!(units, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_made_without_a_server_reach_the_next_one() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::on(data.path());
    let address = server.grpc;
    let (worker, mut events) = work(&server);
    soon(worker.set_status(status("db", Level::Waiting, "one")).into_future()).await.unwrap();
    server.kill();
    until(&mut events, |event| matches!(event, Event::Disconnected { .. })).await;
    let newer = worker.set_status(status("db", Level::Waiting, "two"));
    let other = worker.set_status(status("disk", Level::Waiting, "full"));
    let server = again(address, &on(data.path()));
    soon(newer.into_future()).await.unwrap();
    soon(other.into_future()).await.unwrap();
    assert_eq!(soon(worker.connected()).await.unwrap(), 1, "the same life of the unit");
    let kept: Vec<String> = worker.retained().into_iter().map(|status| status.message).collect();
    assert_eq!(kept, ["one"]);
    eventually("all is there", async || {
        (told(&server).await == ["=serving", "db=two", "disk=full"]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lost_everything_gets_the_reports_again() {
    let server = Server::ephemeral();
    let address = server.grpc;
    let (worker, _events) = work(&server);
    soon(worker.set_status(status("db", Level::Waiting, "one")).into_future()).await.unwrap();
    server.kill();
    let server = again(address, &["--ephemeral"]);
    eventually("it is told again", async || {
        (told(&server).await == ["=serving", "db=one"]).then_some(())
    })
    .await;
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_announces_its_end() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::on(data.path());
    let address = server.grpc;
    let (worker, mut events) = work(&server);
    soon(worker.connected()).await.unwrap();
    server.terminate();
    until(&mut events, |event| matches!(event, Event::Drained { .. })).await;
    assert!(server.wait().success());
    let _server = again(address, &on(data.path()));
    let event = until(&mut events, |event| matches!(event, Event::Connected { .. })).await;
    assert!(matches!(event, Event::Connected { incarnation: 1, .. }), "{event:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newer_of_two_workers_of_a_unit_stays() {
    let server = Server::ephemeral();
    let (old, _) = work(&server);
    assert_eq!(soon(old.connected()).await.unwrap(), 1);
    let (new, _) = work(&server);
    assert_eq!(soon(new.connected()).await.unwrap(), 2);
    let over = soon(old.over()).await;
    assert!(matches!(over, Error::Superseded { incarnation: Some(2), .. }), "{over:?}");
    soon(new.set_status(status("db", Level::Active, "fine")).into_future()).await.unwrap();
    // The old worker does not reconnect.
    assert!(soon(old.shutdown(false)).await.is_err());
    soon(new.flush()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_is_removed_ends_its_worker() {
    let server = Server::ephemeral();
    let (worker, _) = work(&server);
    soon(worker.set_status(status("db", Level::Active, "fine")).into_future()).await.unwrap();
    let request = v1::RemoveUnitRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..v1::RemoveUnitRequest::default()
    };
    server.applications().await.remove_unit(request).await.unwrap();
    let over = soon(worker.over()).await;
    assert!(matches!(over, Error::Superseded { .. }), "{over:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_server_is_an_event() {
    let server = Server::ephemeral();
    let (worker, _) = work(&server);
    let bad = worker.set_status(status("db", Level::Active, &"x".repeat(5_000)));
    let good = worker.set_status(status("disk", Level::Active, "fine"));
    let error = soon(bad.into_future()).await.unwrap_err();
    assert!(error.to_string().contains("[MESSAGE_TOO_LONG]"), "{error}");
    soon(good.into_future()).await.unwrap();
    let options = Options::new(&server.url(), "no good", "web/0");
    let worker = Worker::connect(options, |_| async { Vec::new() }).unwrap();
    let error = soon(worker.connected()).await.unwrap_err();
    assert!(error.to_string().contains("[INVALID_NAME]"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_leaves_a_frozen_server() {
    let (stuck, other) = (Server::ephemeral(), Server::ephemeral());
    let options = Options::new(&stuck.url(), "web", "web/0").server(&other.url());
    let options = options.connect_timeout(Duration::from_secs(1));
    let worker = Worker::connect(options, |_| async { Vec::new() }).unwrap();
    soon(worker.connected()).await.unwrap();
    stuck.signal("STOP");
    // HTTP/2 detects the dead connection within 14 s.
    soon(worker.set_status(status("db", Level::Active, "fine")).into_future()).await.unwrap();
    stuck.signal("CONT");
    assert_eq!(told(&other).await, ["db=fine"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_answered_with_verdicts_and_asked_about_until_it_works() {
    let server = Server::ephemeral();
    let (worker, mut events) = work(&server);
    let error = v1::ErrorReport {
        component: "db".into(),
        target: "pg".into(),
        system: "grpc".into(),
        code: "UNAVAILABLE".into(),
        origin: v1::ErrorOrigin::Transport.into(),
        ..v1::ErrorReport::default()
    };
    soon(worker.report_error(error.clone()).into_future()).await.unwrap();
    let event = until(&mut events, |e| matches!(e, Event::Verdict { .. })).await;
    let Event::Verdict { component, target, verdict } = event else { panic!() };
    assert_eq!((component.as_str(), target.as_str()), ("db", "pg"));
    assert_eq!(verdict.class(), v1::ErrorClass::Transient);
    until(&mut events, |e| matches!(e, Event::RetryDue(due) if due.target == "pg")).await;
    soon(worker.resolve_error("db", "pg", "").into_future()).await.unwrap();
    assert!(crate::errors::faults(&server, false).await.is_empty());
    // The refusal reaches the caller, and an event names the component.
    let bad = v1::ErrorReport { reason: "not so".into(), ..error };
    let refused = soon(worker.report_error(bad).into_future()).await.unwrap_err();
    assert!(refused.to_string().contains("error.reason"), "{refused}");
    let is_it = |e: &Event| matches!(e, Event::Rejected { component, .. } if component == "db");
    until(&mut events, is_it).await;
    worker.shutdown(false).await.unwrap();
}
