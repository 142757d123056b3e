//! Operations through the client library: a lease that is renewed, and work that must stop.

use bellwether::proto::v1;
use bellwether::proto::v1::OperationState;
use bellwether_client::operation::Lost;
use bellwether_client::worker::{Event, Events, Options};
use bellwether_client::{Client, OperationLease, Worker};

use crate::redis::Redis;
use crate::server::{DEADLINE, Server, eventually};

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn mk_begin(lease: i64) -> v1::BeginOperationRequest {
    v1::BeginOperationRequest {
        application: "web".into(),
        unit: "web/0".into(),
        operation_id: "up-v2".into(),
        target_version: "v2".into(),
        payload: b"bundle".as_slice().into(),
        deterministic: true,
        lease_duration: seconds(lease),
        ..Default::default()
    }
}

fn mk_acquire(unit: &str) -> v1::AcquireOperationRequest {
    v1::AcquireOperationRequest {
        application: "web".into(),
        unit: unit.into(),
        operation_id: "up-v2".into(),
        ..Default::default()
    }
}

async fn get(client: &Client) -> v1::Operation {
    let request = v1::GetOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        // Another replica may not have read the commit yet.
        min_revision: 1,
        ..Default::default()
    };
    client.operations().get_operation(request).await.unwrap().into_inner().operation.unwrap()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("happens")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_until_the_work_is_done() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    let held = OperationLease::begin(&client, mk_begin(5)).await.unwrap().expect("begun");
    assert!(
        OperationLease::begin(&client, mk_begin(5)).await.unwrap().is_none(),
        "that is not to hold it"
    );
    held.reached(b"3".as_slice(), "step 3/7");
    let first = held.operation().lease_expire_time;
    eventually("the lease is renewed twice", async || {
        let now = get(&client).await;
        let later = now.lease_expire_time.unwrap().seconds - first.unwrap().seconds;
        (1 < later && &now.checkpoint[..] == b"3").then_some(())
    })
    .await;
    let other = OperationLease::acquire(&client, mk_acquire("web/1")).await.unwrap_err();
    assert_eq!(other.reason(), Some("OPERATION_HELD"));
    assert_eq!(held.complete().await.unwrap(), "");
    let done = get(&client).await;
    assert_eq!((done.state(), done.progress.as_str()), (OperationState::Succeeded, "step 3/7"));
}

/// A heartbeat sends no notification. A replica that did not receive it must not judge the lease by
/// the last state that it read.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_one_replica_renews_no_other_lets_lapse() {
    let Some(redis) = Redis::start(&[]) else { return };
    let over = || Server::start(&["--store", &redis.url()]);
    let servers = [over(), over()];
    let client = Client::connect(&servers[0].url()).await.unwrap();
    let other = Client::connect(&servers[1].url()).await.unwrap();
    let held = OperationLease::begin(&client, mk_begin(5)).await.unwrap().expect("begun");
    let first = held.operation().lease_expire_time.unwrap().seconds;
    // On the shared clock, the lease of the begin has lapsed.
    eventually("the lease was renewed beyond its first end", async || {
        // The other replica has the application in memory, and checks its deadlines on this read.
        get(&other).await;
        let now = get(&client).await.lease_expire_time.unwrap().seconds;
        (first + 6 < now).then_some(())
    })
    .await;
    let refused = OperationLease::acquire(&other, mk_acquire("web/1")).await.unwrap_err();
    assert_eq!(refused.reason(), Some("OPERATION_HELD"));
    assert_eq!(get(&other).await.interruptions, 0);
    held.complete().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_learns_that_its_operation_was_cancelled() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut held = OperationLease::begin(&client, mk_begin(6)).await.unwrap().expect("begun");
    let cancel = v1::CancelOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        ..Default::default()
    };
    client.operations().cancel_operation(cancel).await.unwrap();
    assert_eq!(soon(held.lost()).await, Lost::Cancelled);
    held.release().await.unwrap();
    assert_eq!(get(&client).await.state(), OperationState::Abandoned);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_without_answers_stops_before_its_lease_ends() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut held = OperationLease::begin(&client, mk_begin(3)).await.unwrap().expect("begun");
    server.signal("STOP");
    assert_eq!(soon(held.lost()).await, Lost::Silence);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_holder_learns_that_another_worker_continues() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut held = OperationLease::begin(&client, mk_begin(60)).await.unwrap().expect("begun");
    let release = v1::ReleaseOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: 1,
        ..Default::default()
    };
    client.operations().release_operation(release).await.unwrap();
    let other = OperationLease::acquire(&client, mk_acquire("web/1")).await.unwrap();
    assert_eq!(other.operation().fence, 2);
    held.reached(b"old".as_slice(), "");
    assert_eq!(soon(held.lost()).await, Lost::Refused { reason: "STALE_FENCE".to_string() });
    assert_eq!(held.complete().await.unwrap_err().reason(), Some("STALE_FENCE"));
    assert_eq!(&get(&client).await.checkpoint[..], b"");
}

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

/// The welcome of a session lists the open operations, and the worker is notified when a retry is
/// due.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_open_operations_and_the_time_of_a_retry() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    let unheld = v1::BeginOperationRequest { unit: String::new(), ..mk_begin(60) };
    client.operations().begin_operation(unheld).await.unwrap();
    let options = Options::new(&server.url(), "web", "web/0");
    let worker = Worker::connect(options, |_| async { Vec::new() }).unwrap();
    let mut events = worker.events();
    let connected = until(&mut events, |event| matches!(event, Event::Connected { .. })).await;
    let Event::Connected { operations, .. } = connected else { panic!("{connected:?}") };
    assert_eq!(operations.len(), 1);
    assert_eq!(
        (operations[0].state(), &operations[0].payload[..]),
        (OperationState::Ready, &b"bundle"[..])
    );

    let held = OperationLease::acquire(&client, mk_acquire("web/0")).await.unwrap();
    let error = v1::ErrorReport {
        class: v1::ErrorClass::Throttled.into(),
        message: "slow down".into(),
        retry_after: seconds(1),
        ..Default::default()
    };
    let failed = held.fail(error, false).await.unwrap();
    assert_eq!((failed.state(), failed.attempts_failed), (OperationState::RetryWait, 0));
    let due = until(&mut events, |event| matches!(event, Event::RetryDue(_))).await;
    let Event::RetryDue(due) = due else { panic!("{due:?}") };
    assert_eq!(due.operation_id, "up-v2");
    let held = OperationLease::acquire(&client, mk_acquire("web/0")).await.unwrap();
    held.complete().await.unwrap();
}
