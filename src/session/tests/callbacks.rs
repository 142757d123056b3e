//! Callbacks that a worker was promised.

use super::*;
use crate::domain::unit::{Reporter, Topic};

fn mk_topic() -> Topic {
    Topic::retry(PartName::new("db").unwrap(), "postgresql")
}

async fn promise(replica: &Replica, after: Duration) {
    let unit = UnitName::new("web/0").unwrap();
    let at = replica.store.now().after(after);
    let (topic, operation_id) = (mk_topic(), "upgrade-7".into());
    replica.apply("web", Command::AddCallback { unit, topic, at, operation_id }).await;
}

async fn receives_callback(worker: &mut Worker) -> bool {
    let outbound = tokio::time::timeout(secs(1), async {
        loop {
            match worker.outbound.recv().await {
                Some(Outbound::RetryDue { topic, operation_id }) => {
                    assert_eq!((topic, &*operation_id), (mk_topic(), "upgrade-7"));
                    return;
                }
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    });
    outbound.await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_each_callback_once_in_a_session() {
    let replica = Replica::new();
    let mut worker = replica.worker("web/0").await;
    worker.keep_alive();
    promise(&replica, secs(10)).await;
    tokio::time::sleep(secs(8)).await;
    assert!(!receives_callback(&mut worker).await, "not before");
    tokio::time::sleep(secs(2)).await;
    assert!(receives_callback(&mut worker).await);
    assert!(!receives_callback(&mut worker).await, "once");
    // A new session receives it again, until it is cancelled.
    let mut next = replica.worker("web/0").await;
    assert!(receives_callback(&mut next).await);
    let (unit, topic) = (UnitName::new("web/0").unwrap(), mk_topic());
    replica.apply("web", Command::CancelCallback { unit, topic }).await;
    let mut last = replica.worker("web/0").await;
    assert!(!receives_callback(&mut last).await);
}

#[tokio::test(start_paused = true)]
async fn a_callback_waits_for_a_disconnected_worker() {
    let replica = Replica::new();
    drop(replica.worker("web/0").await);
    promise(&replica, secs(1)).await;
    tokio::time::sleep(secs(5)).await;
    let mut worker = replica.worker("web/0").await;
    assert!(receives_callback(&mut worker).await);
}

async fn request(replica: &Replica, after: Option<Duration>) {
    let reporter = Reporter::new(UnitName::new("web/0").unwrap(), None);
    let topic = Topic::requested(PartName::default(), PartName::new("volume").unwrap());
    let reason = "the volume attaches".into();
    replica.apply("web", Command::RequestCallback { reporter, topic, after, reason }).await;
}

async fn receives_request(worker: &mut Worker) -> bool {
    let outbound = tokio::time::timeout(secs(1), async {
        loop {
            match worker.outbound.recv().await {
                Some(Outbound::CallbackDue { topic, request }) => {
                    assert_eq!(topic.key.as_ref().map(PartName::as_str), Some("volume"));
                    assert_eq!(&*request.reason, "the volume attaches");
                    return;
                }
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    });
    outbound.await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_requested_callback_comes_once_in_each_session_until_it_is_cancelled() {
    let replica = Replica::new();
    let mut worker = replica.worker("web/0").await;
    worker.keep_alive();
    request(&replica, Some(secs(10))).await;
    tokio::time::sleep(secs(8)).await;
    assert!(!receives_request(&mut worker).await, "not before");
    tokio::time::sleep(secs(2)).await;
    assert!(receives_request(&mut worker).await);
    assert!(!receives_request(&mut worker).await, "once");
    let mut next = replica.worker("web/0").await;
    next.keep_alive();
    assert!(receives_request(&mut next).await);
    // Another request has a time of its own.
    request(&replica, Some(secs(5))).await;
    tokio::time::sleep(secs(5)).await;
    assert!(receives_request(&mut next).await);
    request(&replica, None).await;
    let mut last = replica.worker("web/0").await;
    assert!(!receives_request(&mut last).await);
}
