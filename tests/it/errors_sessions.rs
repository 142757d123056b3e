//! Errors in a worker's session: verdicts, holds, and retry requests. Details that only operators
//! may read.

use bellwether::proto::v1;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::{ErrorClass, HoldResolution, Level, VerdictAction};

use crate::errors::{faults, mk_error, mk_resolve, status};
use crate::peer::{Peer, hello, status as said};
use crate::redis::Redis;
use crate::server::{BINARY, Server, command, eventually};
use crate::sessions::unit;

fn error(code: &str, target: &str) -> v1::ErrorReport {
    mk_error("grpc", code, target).error.unwrap()
}

/// Returns the next message of a kind and skips all others.
async fn until<T>(peer: &mut Peer, mut is_it: impl FnMut(&Told) -> Option<T>) -> T {
    loop {
        let told = peer.answer().await;
        assert!(!matches!(told, Told::Reject(_)), "{told:?}");
        if let Some(found) = is_it(&told) {
            return found;
        }
    }
}

async fn verdict(peer: &mut Peer, seq: u64) -> v1::Verdict {
    until(peer, |told| match told {
        Told::Verdict(told) if told.seq == seq => told.verdict.clone(),
        _ => None,
    })
    .await
}

async fn let_go(server: &Server, resolution: HoldResolution) -> i32 {
    let request = v1::ResolveHoldRequest {
        application: "web".into(),
        unit: "web/0".into(),
        component: "db".into(),
        resolution: resolution.into(),
        reason: "mended".into(),
        ..v1::ResolveHoldRequest::default()
    };
    server.applications().await.resolve_hold(request).await.unwrap().into_inner().released_count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_a_verdict_and_a_request_when_its_time_has_come() {
    let server = Server::ephemeral();
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    peer.keep_alive();
    let pushback = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    let seq = peer.error(v1::ErrorReport { retry_after: pushback, ..error("UNAVAILABLE", "pg") });
    let seq = seq.await;
    let told = verdict(&mut peer, seq).await;
    assert_eq!((told.class(), told.action()), (ErrorClass::Transient, VerdictAction::RetryAfter));
    assert_eq!(told.retry_after, pushback, "the peer's word");
    let due = until(&mut peer, |told| match told {
        Told::RetryDue(due) => Some(due.clone()),
        _ => None,
    })
    .await;
    assert_eq!((due.component.as_str(), due.target.as_str()), ("db", "pg"));
    let open = faults(&server, false).await;
    assert!(open[0].next_retry_time.is_some());
    // A new session is asked again until it reports the result of the retry.
    let mut again = Peer::connect(&server, hello("web", "web/0")).await;
    again.keep_alive();
    until(&mut again, |told| matches!(told, Told::RetryDue(_)).then_some(())).await;
    let seq = again.resolve("db", "pg").await;
    again.acknowledged(seq).await;
    assert!(faults(&server, false).await.is_empty());
    // An invalid report is refused, and the session stays open.
    let bad = v1::ErrorReport { reason: "not so".into(), ..error("UNAVAILABLE", "pg") };
    let seq = again.error(bad).await;
    let Told::Reject(reject) = again.answer().await else { panic!("accepted") };
    assert_eq!(reject.seq, seq);
    let last = again.report(vec![said(Level::Active, "")]).await;
    again.acknowledged(last).await;
}

async fn a_component_that_halted_stands_still(server: &Server, other: &Server) {
    let mut peer = Peer::connect(server, hello("web", "web/0")).await;
    peer.keep_alive();
    let seq = peer.error(error("DATA_LOSS", "pg")).await;
    // Both messages arrive, in either order.
    let (mut hold, mut told) = (None, None);
    while hold.is_none() || told.is_none() {
        match peer.answer().await {
            Told::Hold(held) => hold = Some(held),
            Told::Verdict(verdict) if verdict.seq == seq => told = verdict.verdict,
            _ => {}
        }
    }
    let (hold, told) = (hold.unwrap(), told.unwrap());
    assert!(told.held && told.action() == VerdictAction::Halt, "{told:?}");
    assert_eq!((hold.component.as_str(), hold.reason.as_str()), ("db", "Fatal"));
    let held = eventually("a hold", async || {
        unit(other, "web", "web/0").await.filter(|unit| !unit.holds.is_empty())
    });
    assert_eq!(held.await.holds[0].target, "pg");
    // The success of the component itself does not end the hold.
    let seq = peer.resolve("db", "pg").await;
    peer.acknowledged(seq).await;
    assert_eq!(status(server).await.level(), Level::Error);
    // An operator releases the component through any replica: the worker receives the release and a
    // retry request.
    assert_eq!(let_go(other, HoldResolution::Retry).await, 1);
    let released = until(&mut peer, |told| match told {
        Told::HoldReleased(released) => Some(released.clone()),
        _ => None,
    })
    .await;
    assert_eq!((released.component.as_str(), released.reason.as_str()), ("db", "Retry"));
    until(&mut peer, |told| matches!(told, Told::RetryDue(_)).then_some(())).await;
    // The component fails again, and a new incarnation receives the hold immediately.
    let seq = peer.error(error("DATA_LOSS", "pg")).await;
    verdict(&mut peer, seq).await;
    let mut new = Peer::connect(other, hello("web", "web/0")).await;
    new.keep_alive();
    assert_eq!(new.welcome.holds.len(), 1, "{:?}", new.welcome);
    assert_eq!(let_go(server, HoldResolution::Skip).await, 1);
    let released = until(&mut new, |told| match told {
        Told::HoldReleased(released) => Some(released.clone()),
        _ => None,
    })
    .await;
    assert_eq!(released.reason, "Skip");
    // The success of the new incarnation would have ended it as well.
    let seq = new.error(error("DATA_LOSS", "pg")).await;
    verdict(&mut new, seq).await;
    let mut newest = Peer::connect(server, hello("web", "web/0")).await;
    newest.keep_alive();
    let seq = newest.resolve("db", "").await;
    newest.acknowledged(seq).await;
    let released = until(&mut newest, |told| match told {
        Told::HoldReleased(released) => Some(released.clone()),
        _ => None,
    })
    .await;
    assert_eq!(released.reason, "Resolved");
    assert!(faults(server, false).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_component_waits_until_its_hold_is_released() {
    let server = Server::ephemeral();
    a_component_that_halted_stands_still(&server, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_component_waits_with_two_replicas_over_redis() {
    let Some(redis) = Redis::start(&[]) else { return };
    let start = || Server::start(&["--store", &redis.url()]);
    a_component_that_halted_stands_still(&start(), &start()).await;
}

fn by_the_command_line(server: &Server) -> Vec<String> {
    let mut read = Vec::new();
    for line in [
        &["status"][..],
        &["status", "web", "-o", "json"],
        &["why", "web"],
        &["why", "web", "-o", "json"],
        &["log", "web", "-o", "json"],
    ] {
        let mut asked = std::process::Command::new(BINARY);
        let output = asked.args(line).env("BELLWETHER_SERVER", server.url()).output().unwrap();
        assert!(output.status.success(), "{line:?}");
        read.push(format!("{line:?} {}", String::from_utf8(output.stdout).unwrap()));
    }
    read
}

async fn by_every_read(server: &Server) -> Vec<String> {
    let mut read = Vec::new();
    let mut applications = server.applications().await;
    let of_web = "web".to_string();
    let all = v1::ListApplicationsRequest::default();
    read.push(format!("{:?}", applications.list_applications(all).await.unwrap()));
    let why = v1::ExplainApplicationRequest { application: of_web.clone(), ..Default::default() };
    let why = applications.explain_application(why).await.unwrap().into_inner();
    assert_eq!((why.faults.len(), why.fault_count, why.holds.len()), (2, 2, 1));
    read.push(format!("{why:?}"));
    let units = v1::ListUnitsRequest { application: of_web.clone(), ..Default::default() };
    read.push(format!("{:?}", applications.list_units(units).await.unwrap()));
    let statuses = v1::ListStatusesRequest { application: of_web.clone(), ..Default::default() };
    read.push(format!("{:?}", applications.list_statuses(statuses).await.unwrap()));
    let events = v1::ListStatusEventsRequest { application: of_web, ..Default::default() };
    read.push(format!("{:?}", applications.list_status_events(events).await.unwrap()));
    let watch = v1::WatchApplicationsRequest { include_units: true, ..Default::default() };
    let mut watch = applications.watch_applications(watch).await.unwrap().into_inner();
    for _ in 0..2 {
        read.push(format!("{:?}", watch.message().await.unwrap()));
    }
    read
}

/// Returns all that a client can read without asking for operator details.
#[tokio::test(flavor = "multi_thread")]
async fn internal_details_are_sent_only_to_callers_that_request_them() {
    const SECRET: &str = "xyzzy-0x7f3a";
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut serve = command(&["--ephemeral"]);
    serve.env("RUST_LOG", "trace").stderr(log.reopen().unwrap());
    let server = Server::spawn(serve);
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    peer.keep_alive();
    let detail = |code: &str, target: &str| v1::ErrorReport {
        internal_detail: format!("traceback {SECRET}"),
        ..error(code, target)
    };
    let seq = peer.error(detail("DATA_LOSS", "pg")).await;
    let mut read = vec![format!("{:?}", verdict(&mut peer, seq).await)];
    let mut request = mk_error("grpc", "UNAVAILABLE", "mysql");
    request.error = Some(detail("UNAVAILABLE", "mysql"));
    let mut reports = server.reports().await;
    read.push(format!("{:?}", reports.report_error(request.clone()).await.unwrap()));
    // A refusal does not quote the refused value either.
    request.error.as_mut().unwrap().internal_detail = SECRET.repeat(6000);
    read.push(format!("{:?}", reports.report_error(request).await.unwrap_err()));
    read.extend(by_the_command_line(&server));
    read.extend(by_every_read(&server).await);
    read.push(format!("{:?}", faults(&server, false).await));
    let again = Peer::connect(&server, hello("web", "web/0")).await;
    read.push(format!("{:?}", again.welcome));
    read.push(crate::ops::fetch(server.ops, "/metrics").1);
    for text in &read {
        assert!(!text.contains(SECRET), "it leaks: {text}");
    }
    assert!(read.iter().any(|text| text.contains("bellwether_errors_total")));
    // A client that asks for the details receives them.
    let open = faults(&server, true).await;
    assert!(open.iter().all(|fault| {
        fault.last.as_ref().is_some_and(|last| last.internal_detail.contains(SECRET))
    }));
    assert_eq!(
        reports.resolve_error(mk_resolve("mysql")).await.unwrap().into_inner().resolved_count,
        1
    );
    server.terminate();
    let logged = eventually("a log", async || {
        let logged = std::fs::read_to_string(log.path()).unwrap();
        logged.contains("stopped").then_some(logged)
    });
    assert!(!logged.await.contains(SECRET), "it is logged");
}
