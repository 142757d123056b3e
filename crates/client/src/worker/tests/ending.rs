//! The ends of a worker.

use std::time::Duration;

use super::stage::{Stage, mk_options, mk_status, mk_worker, soon};
use crate::proto::v1::connect_request::Message as Said;
use crate::worker::{Error, Worker};

#[tokio::test]
async fn a_dropped_worker_ends_its_session() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut call = stage.welcomed().await;
    worker.set_status(mk_status("a", "1"));
    drop(worker);
    let (seq, _) = call.report().await;
    call.ack(seq, 1).await;
    let Some(Said::Goodbye(goodbye)) = call.next().await else { panic!("not goodbye") };
    assert!(!goodbye.removed);
    assert_eq!(call.next().await, None);
}

#[tokio::test]
async fn a_shutdown_waits_for_the_reports_before_it() {
    let mut stage = Stage::open();
    let worker = mk_worker(&stage.url);
    let mut call = stage.welcomed().await;
    let wait = worker.set_status(mk_status("a", "1"));
    let shutdown = tokio::spawn(worker.shutdown(true));
    let (seq, _) = call.report().await;
    call.ack(seq, 9).await;
    let Some(Said::Goodbye(goodbye)) = call.next().await else { panic!("not goodbye") };
    assert!(goodbye.removed);
    assert_eq!(call.next().await, None);
    assert!(!shutdown.is_finished());
    drop(call);
    soon(shutdown).await.expect("no panic").expect("clean");
    assert_eq!(soon(wait.into_future()).await.expect("committed"), 9);
}

#[tokio::test]
async fn a_shutdown_ends_in_time_without_a_server() {
    let mk = || {
        let options = mk_options("127.0.0.1:1").shutdown_timeout(Duration::from_millis(50));
        Worker::connect(options, |_| async { Vec::new() }).expect("an address")
    };
    soon(mk().shutdown(false)).await.expect("nothing to say, and nobody to say it to");
    let worker = mk();
    let wait = worker.set_status(mk_status("a", "1"));
    let error = soon(worker.shutdown(false)).await.expect_err("nobody heard it");
    assert!(matches!(error, Error::Unacknowledged { count: 1 }), "{error}");
    assert!(soon(wait.into_future()).await.is_err());
    let error = soon(mk().shutdown(true)).await.expect_err("nobody heard it");
    assert!(matches!(error, Error::NoGoodbye), "{error}");
}
