//! Tests of the worker over a socket, against a server that the test plays.

mod collecting;
mod ending;
mod stage;

use std::time::Duration;

use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::Error;
use super::Event;
use super::Options;
use super::Worker;
use super::outbox::KEYS_MAX;
use crate::proto::v1::connect_request::Message as Said;
use crate::proto::v1::connect_response::Message as Heard;
use crate::proto::v1::{
    ConnectDrain, ErrorReport, NeedsMet, Reject, StatusReport, Superseded, Welcome,
};
use stage::{Stage, mk_options, mk_refusal, mk_status, mk_welcome, mk_worker, received, soon};

#[tokio::test]
async fn waits_for_a_server_and_keeps_what_was_set() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let options = mk_options(&format!("http://{address}")).namespace("prod").label("zone", "a");
    let worker = Worker::connect(options, |_| async { Vec::new() }).expect("an address");
    let mut events = worker.events();
    let early = worker.set_status(mk_status("db", "early"));
    let Event::Disconnected { error, .. } = received(&mut events).await else {
        panic!("nobody listens");
    };
    assert!(error.to_string().contains("connection refused"), "{error}");
    let mut stage = Stage::open_at(address);
    let (mut call, hello) = stage.call().await;
    assert_eq!((hello.namespace.as_str(), hello.incarnation), ("prod", None));
    assert_eq!((hello.application.as_str(), hello.unit.as_str()), ("web", "web/0"));
    assert_eq!(hello.labels["zone"], "a");
    call.say(Heard::Welcome(mk_welcome())).await;
    assert_eq!(soon(worker.connected()).await.expect("welcomed"), 7);
    let (seq, report) = call.report().await;
    assert_eq!(report, "db=early");
    call.ack(seq, 41).await;
    assert_eq!(soon(early.into_future()).await.expect("committed"), 41);
}

#[tokio::test]
async fn sends_again_what_was_not_acknowledged_and_nothing_else() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let waits = ["a", "b", "c"].map(|name| worker.set_status(mk_status(name, "1")));
    let mut call = stage.welcomed().await;
    let mut last = 0;
    for name in ["a", "b", "c"] {
        let (seq, report) = call.report().await;
        assert_eq!(report, format!("{name}=1"));
        last = seq;
    }
    call.ack(last - 2, 1).await;
    let [a, b, c] = waits;
    soon(a.into_future()).await.expect("committed");
    // Newer than the sent one, which is then not sent again.
    let newer = worker.set_status(mk_status("b", "2"));
    assert_eq!(call.report().await.1, "b=2");
    call.end(Status::unavailable("cut")).await;
    let (mut call, hello) = stage.call().await;
    assert_eq!(hello.incarnation, Some(7));
    let retained = vec![mk_status("a", "1")];
    call.say(Heard::Welcome(Welcome { retained, ..mk_welcome() })).await;
    assert_eq!(call.report().await.1, "c=1");
    let (seq, report) = call.report().await;
    assert_eq!(report, "b=2");
    assert!(last + 1 < seq, "{seq} is not new");
    call.ack(seq, 5).await;
    for wait in [b, c, newer] {
        assert_eq!(soon(wait.into_future()).await.expect("committed"), 5);
    }
    soon(worker.flush()).await.expect("nothing left");
}

#[tokio::test]
async fn reports_that_the_server_lost_are_sent_again() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut call = stage.welcomed().await;
    for name in ["kept", "lost", "older", "cleared", "passing", "ending"] {
        let time = Some(prost_types::Duration { seconds: 90, nanos: 0 });
        let (ttl, end_after) =
            (time.filter(|_| name == "passing"), time.filter(|_| name == "ending"));
        let wait = worker.set_status(StatusReport { ttl, end_after, ..mk_status(name, "1") });
        let (seq, _) = call.report().await;
        call.ack(seq, 1).await;
        soon(wait.into_future()).await.expect("committed");
    }
    let wait = worker.clear_status("cleared", "", Some(crate::proto::v1::StatusKind::Push));
    let Some(Said::Clear(clear)) = call.next().await else { panic!("not a clear") };
    call.ack(clear.seq, 2).await;
    soon(wait.into_future()).await.expect("committed");
    call.end(Status::unavailable("the store failed over")).await;
    let (mut call, _) = stage.call().await;
    let retained = vec![mk_status("kept", "1"), mk_status("older", "0")];
    call.say(Heard::Welcome(Welcome { retained: retained.clone(), ..mk_welcome() })).await;
    assert_eq!(call.report().await.1, "lost=1");
    assert_eq!(call.report().await.1, "older=1");
    assert_eq!(worker.retained(), retained);
    worker.set_status(mk_status("next", "1"));
    assert_eq!(call.report().await.1, "next=1");
}

#[tokio::test]
async fn a_status_whose_needs_the_server_lost_is_sent_again() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut call = stage.welcomed().await;
    let waits_for = |component: &str, needs: &[&str]| {
        let needs = needs.iter().map(|text| text.parse().expect("a need")).collect();
        StatusReport { needs, ..mk_status(component, "waits") }
    };
    for (component, needs) in [("kept", &["dns", "s3=waiting,active"][..]), ("lost", &["dns"])] {
        let wait = worker.set_status(waits_for(component, needs));
        let (seq, _) = call.report().await;
        call.ack(seq, 1).await;
        soon(wait.into_future()).await.expect("committed");
    }
    call.end(Status::unavailable("the store failed over")).await;
    let (mut call, _) = stage.call().await;
    // The server completes needs.
    let kept = waits_for("kept", &["prod/dns", "prod/s3=active,waiting"]);
    let retained = vec![kept, waits_for("lost", &["prod/s3"])];
    call.say(Heard::Welcome(Welcome { retained, ..mk_welcome() })).await;
    assert_eq!(call.report().await.1, "lost=waits");
    worker.set_status(mk_status("next", "1"));
    assert_eq!(call.report().await.1, "next=1");
}

#[tokio::test]
async fn needs_that_are_met_are_an_event() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut events = worker.events();
    let call = stage.welcomed().await;
    assert!(matches!(received(&mut events).await, Event::Connected { .. }));
    let met = NeedsMet { component: "db".into(), target: "pg".into(), ..NeedsMet::default() };
    call.say(Heard::NeedsMet(met.clone())).await;
    let Event::NeedsMet(heard) = received(&mut events).await else { panic!("not needs met") };
    assert_eq!(heard, met);
}

/// A server of 0.1.0 takes UPPER_SNAKE alone as the reason of an error.
#[tokio::test]
async fn an_error_whose_reason_an_older_server_refuses_is_sent_without_it() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut call = stage.welcomed().await;
    let report = |target: &str| ErrorReport {
        target: target.into(),
        domain: "aws".into(),
        reason: "ThrottlingException".into(),
        ..ErrorReport::default()
    };
    let wait = worker.report_error(report("bucket"));
    let Some(Said::Error(first)) = call.next().await else { panic!("not an error") };
    assert_eq!(first.error, Some(report("bucket")));
    let details = ErrorDetails::with_bad_request_violation("error.reason", "is no UPPER_SNAKE");
    let refusal = Status::with_error_details(Code::InvalidArgument, "is no UPPER_SNAKE", details);
    call.say(mk_reject(first.seq, &refusal)).await;
    let Some(Said::Error(second)) = call.next().await else { panic!("not an error") };
    let plain = ErrorReport { target: "bucket".into(), ..ErrorReport::default() };
    assert_eq!(second.error, Some(plain));
    assert!(first.seq < second.seq);
    call.ack(second.seq, 3).await;
    assert_eq!(soon(wait.into_future()).await.expect("committed"), 3);

    // A later entry about the target replaces the refused one.
    let lost = worker.report_error(report("pg"));
    let Some(Said::Error(refused)) = call.next().await else { panic!("not an error") };
    let works = worker.resolve_error("", "pg", "");
    let Some(Said::Resolve(resolve)) = call.next().await else { panic!("not a success") };
    call.say(mk_reject(refused.seq, &refusal)).await;
    call.ack(resolve.seq, 4).await;
    assert_eq!(soon(lost.into_future()).await.expect("replaced"), 4);
    assert_eq!(soon(works.into_future()).await.expect("committed"), 4);
    worker.set_status(mk_status("next", "1"));
    assert_eq!(call.report().await.1, "next=1");
}

#[tokio::test]
async fn a_newer_incarnation_ends_it_for_good() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut events = worker.events();
    let wait = worker.set_status(mk_status("a", "1"));
    let call = stage.welcomed().await;
    call.say(Heard::Superseded(Superseded { incarnation: 8 })).await;
    let over = soon(worker.over()).await;
    assert!(matches!(over, Error::Superseded { incarnation: Some(8), .. }), "{over:?}");
    assert!(soon(wait.into_future()).await.is_err());
    assert!(soon(worker.set_status(mk_status("a", "2")).into_future()).await.is_err());
    assert!(matches!(received(&mut events).await, Event::Connected { incarnation: 7, .. }));
    assert!(matches!(received(&mut events).await, Event::Superseded { incarnation: Some(8) }));
    assert!(soon(events.next()).await.is_none());
    assert!(soon(worker.events().next()).await.is_none());
}

#[tokio::test]
async fn a_stale_incarnation_ends_it_for_good() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    stage.welcomed().await.end(Status::unavailable("cut")).await;
    let (call, _) = stage.call().await;
    call.end(mk_refusal(Code::Aborted, "STALE_INCARNATION")).await;
    assert!(matches!(soon(worker.over()).await, Error::Superseded { .. }));
}

#[tokio::test]
async fn an_ended_session_is_no_rival() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let wait = worker.set_status(mk_status("a", "1"));
    let mut call = stage.welcomed().await;
    let (seq, _) = call.report().await;
    call.say(mk_reject(seq, &mk_refusal(Code::Aborted, "STALE_INCARNATION"))).await;
    let mut call = stage.welcomed().await;
    let (seq, _) = call.report().await;
    call.ack(seq, 1).await;
    soon(wait.into_future()).await.expect("committed");
    let mut details = ErrorDetails::new();
    let facts = [("given".to_string(), "7".to_string()), ("current".to_string(), "9".to_string())];
    details.set_error_info("STALE_INCARNATION", "bellwether", facts);
    call.end(Status::with_error_details(Code::Aborted, "9 lives", details)).await;
    let over = soon(worker.over()).await;
    assert!(matches!(over, Error::Superseded { incarnation: Some(9), .. }), "{over:?}");
    assert_eq!(over.to_string(), "9 lives; end this process: a new one gets a new incarnation");
}

#[tokio::test]
async fn an_earlier_session_of_the_worker_is_no_rival() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let call = stage.welcomed().await;
    call.say(Heard::Superseded(Superseded { incarnation: 7 })).await;
    let (_call, hello) = stage.call().await;
    assert_eq!(hello.incarnation, Some(7));
    drop(worker);
}

#[tokio::test]
async fn a_permanent_refusal_ends_the_worker() {
    for code in [Code::InvalidArgument, Code::Unimplemented, Code::PermissionDenied] {
        let mut stage = Stage::open();
        let worker = mk_worker(&stage.url);
        let mut events = worker.events();
        let (call, _) = stage.call().await;
        call.end(mk_refusal(code, "NO")).await;
        let error = soon(worker.connected()).await.expect_err("refused");
        assert_eq!(error.to_string(), "refused: NO [NO]");
        assert!(matches!(received(&mut events).await, Event::Ended { .. }));
        assert!(worker.shutdown(false).await.is_err());
    }
    let refused = Worker::connect(mk_options("redis://h:1"), |_| async { Vec::new() });
    assert!(refused.is_err());
}

#[tokio::test]
async fn waits_as_long_as_the_server_asks() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut events = worker.events();
    let (call, _) = stage.call().await;
    let asked = Duration::from_secs(60);
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(asked));
    call.end(Status::with_error_details(Code::Unavailable, "later", details)).await;
    let Event::Disconnected { pause, .. } = received(&mut events).await else { panic!("cut") };
    assert!(asked <= pause, "{pause:?}");
}

#[tokio::test]
async fn a_drain_names_the_delay_and_the_client_tries_the_next_server() {
    let (mut one, mut two) = (Stage::open(), Stage::open());
    let options = mk_options(&one.url).server(&two.url);
    let worker = Worker::connect(options, |_| async { Vec::new() }).expect("addresses");
    let mut events = worker.events();
    let mut call = one.welcomed().await;
    let wait = worker.set_status(mk_status("a", "1"));
    let (seq, _) = call.report().await;
    let reconnect_after = Some(prost_types::Duration { seconds: 100, nanos: 0 });
    call.say(Heard::Drain(ConnectDrain { reconnect_after })).await;
    // The sent report is still acknowledged.
    call.ack(seq, 3).await;
    soon(wait.into_future()).await.expect("committed");
    assert!(matches!(received(&mut events).await, Event::Connected { .. }));
    assert!(matches!(received(&mut events).await, Event::Drained { .. }));
    call.end(Status::unavailable("over")).await;
    // From here on only the clock advances.
    tokio::time::pause();
    let since = tokio::time::Instant::now();
    let Some(Event::Connecting { server }) = events.next().await else { panic!("no attempt") };
    let waited = since.elapsed().as_secs();
    tokio::time::resume();
    assert!((99..=126).contains(&waited), "waited {waited} s");
    assert_eq!(server, two.url);
    assert_eq!(two.call().await.1.incarnation, Some(7));
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_passed_over() {
    let mut stage = Stage::open();
    let options = Options::new("127.0.0.1:1", "web", "web/0").server(&stage.url);
    let worker = Worker::connect(options, |_| async { Vec::new() }).expect("addresses");
    let _call = stage.welcomed().await;
    assert_eq!(soon(worker.connected()).await.expect("welcomed"), 7);
}

#[tokio::test]
async fn a_rejection_is_reported_and_the_session_continues() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut events = worker.events();
    let mut call = stage.welcomed().await;
    let bad = worker.set_status(mk_status("bad", "1"));
    let (seq, _) = call.report().await;
    let good = worker.set_status(mk_status("good", "1"));
    call.say(mk_reject(seq, &mk_refusal(Code::InvalidArgument, "INVALID_VALUE"))).await;
    let (seq, _) = call.report().await;
    call.ack(seq, 2).await;
    let error = soon(bad.into_future()).await.expect_err("rejected");
    assert_eq!(error.to_string(), "refused: INVALID_VALUE [INVALID_VALUE]");
    soon(good.into_future()).await.expect("committed");
    assert!(matches!(received(&mut events).await, Event::Connected { .. }));
    let Event::Rejected { component, key, refusal } = received(&mut events).await else {
        panic!("not told");
    };
    assert_eq!((component.as_str(), key.as_str()), ("bad", ""));
    assert_eq!(refusal.reason, "INVALID_VALUE");
}

#[tokio::test]
async fn reports_over_the_window_are_sent_again_in_order() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut call = stage.welcomed().await;
    worker.replace_statuses(None, Vec::new());
    let later = worker.set_status(mk_status("a", "1"));
    let (seq, ..) = call.replace().await;
    assert_eq!(call.report().await.1, "a=1");
    call.say(mk_reject(seq, &mk_refusal(Code::Unavailable, "STORE_UNAVAILABLE"))).await;
    let (again, ..) = call.replace().await;
    assert!(seq + 1 < again);
    let (seq, report) = call.report().await;
    assert_eq!(report, "a=1");
    call.ack(seq, 2).await;
    soon(later.into_future()).await.expect("committed");
}

fn mk_reject(seq: u64, status: &Status) -> Heard {
    let status = tonic_types::pb::Status::decode(status.details()).expect("details");
    Heard::Reject(Reject { seq, status: Some(status) })
}

#[tokio::test]
async fn no_more_is_under_way_than_the_server_allows() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let statuses: Vec<StatusReport> =
        (0..10).map(|number| mk_status(&number.to_string(), "1")).collect();
    let all = worker.set_statuses(statuses);
    let (mut call, _) = stage.call().await;
    call.say(Heard::Welcome(Welcome { unacknowledged_max: 2, ..mk_welcome() })).await;
    for expected in (0..10).step_by(2) {
        assert_eq!(call.report().await.1, format!("{expected}=1"));
        let (seq, _) = call.report().await;
        assert_eq!(worker.shared.outbox().sent_count(), 2);
        call.ack(seq, seq).await;
    }
    soon(all.into_future()).await.expect("committed");
}

#[tokio::test]
async fn a_client_leaves_a_server_that_acknowledges_nothing() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut events = worker.events();
    let mut call = stage.welcomed().await;
    assert!(matches!(received(&mut events).await, Event::Connected { .. }));
    worker.set_status(mk_status("a", "1"));
    call.report().await;
    tokio::time::pause();
    let event = events.next().await;
    tokio::time::resume();
    let Some(Event::Disconnected { error, .. }) = event else { panic!("not told: {event:?}") };
    assert!(error.to_string().contains("nothing acknowledged for 30 s"), "{error}");
}

#[tokio::test]
async fn costs_memory_by_keys_and_not_by_reports() {
    let worker = mk_worker("http://127.0.0.1:1");
    for number in 0..100_000 {
        worker.set_status(mk_status("a", &number.to_string()));
    }
    assert_eq!(worker.shared.outbox().len(), 1);
    for number in 1..KEYS_MAX {
        worker.set_status(mk_status(&number.to_string(), "1"));
    }
    let error = worker.set_status(mk_status("b", "1")).await.expect_err("full");
    assert!(matches!(error, Error::OutboxFull { .. }), "{error}");
    drop(worker.set_status(mk_status("a", "still welcome")));
    assert_eq!(worker.shared.outbox().len(), KEYS_MAX);
}
