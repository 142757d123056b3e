//! Questions of the server, and heartbeats during the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;
use tonic::Status;

use super::stage::{Stage, mk_options, mk_status, mk_welcome, received, soon};
use crate::proto::v1::Welcome;
use crate::proto::v1::connect_request::Message as Said;
use crate::proto::v1::connect_response::Message as Heard;
use crate::worker::{CollectRequest, Event, Worker};

/// Returns a worker whose calls of the closure are numbered and wait for one permit each.
fn mk_slow_worker(url: &str) -> (Worker, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let looks = Arc::new(AtomicUsize::new(0));
    let gate = permits.clone();
    let worker = Worker::connect(mk_options(url), move |request: CollectRequest| {
        let (gate, looks) = (gate.clone(), looks.clone());
        async move {
            gate.acquire().await.expect("open").forget();
            let number = looks.fetch_add(1, Ordering::Relaxed);
            let component = request.component.unwrap_or_default();
            vec![mk_status(&component, &format!("look{number}"))]
        }
    });
    (worker.expect("an address"), permits)
}

#[tokio::test]
async fn a_slow_look_holds_up_neither_heartbeats_nor_reports() {
    let mut stage = Stage::open();
    let (worker, permits) = mk_slow_worker(&stage.url);
    let (mut call, _) = stage.call().await;
    let heartbeat_interval = Some(prost_types::Duration { seconds: 0, nanos: 20_000_000 });
    call.say(Heard::Welcome(Welcome { heartbeat_interval, ..mk_welcome() })).await;
    call.ask("q1", None).await;
    for _ in 0..3 {
        assert!(matches!(call.next().await, Some(Said::Heartbeat(_))));
    }
    let wait = worker.set_status(mk_status("a", "1"));
    let seq = loop {
        match call.next().await {
            Some(Said::Heartbeat(_)) => (),
            Some(Said::Report(report)) => break report.seq,
            other => panic!("not a report: {other:?}"),
        }
    };
    call.ack(seq, 1).await;
    soon(wait.into_future()).await.expect("committed");
    permits.add_permits(1);
    let (_, id, statuses) = call.replace().await;
    assert_eq!((id.as_str(), statuses.as_str()), ("q1", "look0"));
}

#[tokio::test]
async fn questions_that_come_during_a_look_are_answered_by_the_next() {
    let mut stage = Stage::open();
    let (_worker, permits) = mk_slow_worker(&stage.url);
    let mut call = stage.welcomed().await;
    for id in ["q1", "q2", "q3"] {
        call.ask(id, None).await;
    }
    // A question about another component gets its own call.
    call.ask("q4", Some("db")).await;
    permits.add_permits(3);
    let mut answers = Vec::new();
    for _ in 0..4 {
        let (_, id, statuses) = call.replace().await;
        answers.push((id, statuses));
    }
    answers.sort();
    let look = |id: &str| answers.iter().find(|(it, _)| it == id).map(|(_, look)| look.clone());
    assert_eq!(look("q2"), look("q3"));
    assert_ne!(look("q1"), look("q2"));
    assert!(look("q4").is_some());
}

#[tokio::test]
async fn an_answer_that_comes_after_the_session_is_still_news() {
    let mut stage = Stage::open();
    let (_worker, permits) = mk_slow_worker(&stage.url);
    let call = stage.welcomed().await;
    call.ask("q1", Some("db")).await;
    call.end(Status::unavailable("cut")).await;
    let mut call = stage.welcomed().await;
    permits.add_permits(1);
    let Some(Said::Replace(set)) = call.next().await else { panic!("not a set") };
    assert_eq!((set.collect_id.as_str(), set.component.as_deref()), ("", Some("db")));
    let first = set.seq;
    call.end(Status::unavailable("cut")).await;
    let (again, id, _) = stage.welcomed().await.replace().await;
    assert!(first < again);
    assert_eq!(id, "");
}

#[tokio::test]
async fn a_panicking_callback_leaves_other_callbacks_alone() {
    let mut stage = Stage::open();
    let worker = Worker::connect(mk_options(&stage.url), |request: CollectRequest| {
        assert!(request.component.is_some(), "no component");
        async { vec![mk_status("db", "fine")] }
    });
    let worker = worker.expect("an address");
    let mut events = worker.events();
    let mut call = stage.welcomed().await;
    call.ask("q1", None).await;
    assert!(matches!(received(&mut events).await, Event::Connected { .. }));
    let event = received(&mut events).await;
    assert!(matches!(&event, Event::CollectFailed { panic } if panic == "no component"));
    call.ask("q2", Some("db")).await;
    assert_eq!(call.replace().await.1, "q2");
}
