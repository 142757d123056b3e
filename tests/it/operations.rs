//! Operations in flight over the wire: bad input, repeats, restarts, several replicas, removal,
//! workers.

use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::operation_service_client::OperationServiceClient;
use bellwether::proto::v1::{Level, OperationState};
use tonic::Code;
use tonic::transport::Channel;
use tonic_types::StatusExt;

use crate::redis::Redis;
use crate::server::{Server, eventually, get, mk_report, reason};

pub async fn client(server: &Server) -> OperationServiceClient<Channel> {
    OperationServiceClient::new(server.channel().await)
}

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

pub fn mk_begin(id: &str, target: &str) -> v1::BeginOperationRequest {
    v1::BeginOperationRequest {
        application: "web".into(),
        unit: "web/0".into(),
        operation_id: id.into(),
        from_version: "v1".into(),
        target_version: target.into(),
        payload: b"bundle of v2".as_slice().into(),
        deterministic: true,
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

fn mk_complete(fence: u64) -> v1::CompleteOperationRequest {
    v1::CompleteOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence,
        ..Default::default()
    }
}

fn mk_get() -> v1::GetOperationRequest {
    v1::GetOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        ..Default::default()
    }
}

fn metadata(refused: &tonic::Status, key: &str) -> String {
    let details = refused.get_error_details();
    details.error_info().unwrap().metadata.get(key).cloned().unwrap_or_default()
}

type Change = fn(&mut v1::BeginOperationRequest);

#[tokio::test]
async fn every_bad_begin_names_its_field() {
    let server = Server::ephemeral();
    let mut operations = client(&server).await;
    let other = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let past = prost_types::Timestamp { seconds: 1_000_000_000, nanos: 0 };
    let cases: [(Change, &str, &str); 15] = [
        (|r| r.application.clear(), "MISSING_FIELD", "application"),
        (|r| r.unit = "-".into(), "INVALID_NAME", "unit"),
        (|r| r.operation_id.clear(), "MISSING_FIELD", "operation_id"),
        (|r| r.operation_id = "a b".into(), "INVALID_NAME", "operation_id"),
        (|r| r.kind = 99, "INVALID_VALUE", "kind"),
        (|r| r.target_version.clear(), "MISSING_FIELD", "target_version"),
        (|r| r.target_version = "v".repeat(257), "MESSAGE_TOO_LONG", "target_version"),
        (|r| r.payload = vec![0; (256 << 10) + 1].into(), "VALUE_TOO_LARGE", "payload"),
        (|r| r.payload_digest = "md5:00".into(), "INVALID_VALUE", "payload_digest"),
        (|r| r.payload_uri = "https://x/y".into(), "INVALID_VALUE", "payload_uri"),
        (
            |r| {
                r.payload.clear();
                r.payload_uri = "https://x/y".into();
            },
            "MISSING_FIELD",
            "payload_digest",
        ),
        (|r| r.max_attempts = -1, "INVALID_VALUE", "max_attempts"),
        (|r| r.max_interruptions = Some(1001), "INVALID_VALUE", "max_interruptions"),
        (|r| r.lease_duration = seconds(0), "INVALID_VALUE", "lease_duration"),
        (|r| r.supersede = true, "MISSING_FIELD", "reason"),
    ];
    let mut check = async |request: v1::BeginOperationRequest, expected: &str, field: &str| {
        let error = operations.begin_operation(request).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{field}: {error:?}");
        assert_eq!(reason(&error), expected, "{field}: {error:?}");
        assert!(error.message().starts_with(field), "{}", error.message());
    };
    for (change, expected, field) in cases {
        let mut request = mk_begin("up-v2", "v2");
        change(&mut request);
        check(request, expected, field).await;
    }
    let cut = v1::BeginOperationRequest { payload_digest: other.into(), ..mk_begin("up-v2", "v2") };
    check(cut, "INVALID_VALUE", "payload_digest").await;
    let late = v1::BeginOperationRequest { deadline: Some(past), ..mk_begin("up-v2", "v2") };
    check(late, "INVALID_VALUE", "deadline").await;

    let mut applications = server.applications().await;
    let all = applications.list_applications(v1::ListApplicationsRequest::default()).await;
    assert!(all.unwrap().into_inner().applications.is_empty(), "nothing was created");
}

#[tokio::test]
async fn a_stale_fence_and_a_missing_one_have_different_errors() {
    let server = Server::ephemeral();
    let mut operations = client(&server).await;
    operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap();
    let missing = operations.complete_operation(mk_complete(0)).await.unwrap_err();
    assert_eq!(
        (missing.code(), reason(&missing).as_str()),
        (Code::InvalidArgument, "MISSING_FIELD")
    );
    let stale = operations.complete_operation(mk_complete(7)).await.unwrap_err();
    assert_eq!((stale.code(), reason(&stale).as_str()), (Code::Aborted, "STALE_FENCE"));
    assert_eq!(metadata(&stale, "current"), "1");
    let unknown = v1::ErrorReport { class: 77, ..Default::default() };
    let fail = v1::FailOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: 1,
        error: Some(unknown),
        ..Default::default()
    };
    let refused = operations.fail_operation(fail).await.unwrap_err();
    assert!(refused.message().starts_with("error.class"), "{refused:?}");
    let got = operations.get_operation(mk_get()).await.unwrap().into_inner().operation.unwrap();
    assert_eq!((got.state(), got.fence), (OperationState::Running, 1));
}

#[tokio::test]
async fn a_held_operation_is_refused_with_its_holder_and_expiry() {
    let server = Server::ephemeral();
    let mut operations = client(&server).await;
    operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap();
    let held = operations.begin_operation(mk_begin("up-v3", "v3")).await.unwrap_err();
    assert_eq!((held.code(), reason(&held).as_str()), (Code::Aborted, "OPERATION_HELD"));
    assert_eq!(metadata(&held, "holder"), "web/0");
    assert!(metadata(&held, "expires").ends_with('Z'), "{held:?}");
    let retry = held.get_error_details().retry_info().unwrap().retry_delay.unwrap();
    assert!(retry <= Duration::from_secs(30) && Duration::ZERO < retry, "{retry:?}");

    let release = v1::ReleaseOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: 1,
        ..Default::default()
    };
    operations.release_operation(release).await.unwrap();
    let first = operations.begin_operation(mk_begin("up-v3", "v3")).await.unwrap_err();
    assert_eq!((first.code(), reason(&first).as_str()), (Code::FailedPrecondition, "RESUME_FIRST"));
    assert_eq!(metadata(&first, "operation_id"), "up-v2");
    assert_eq!(metadata(&first, "target_version"), "v2");
}

#[tokio::test]
async fn a_repeat_by_request_id_is_answered_as_the_first_time() {
    let server = Server::ephemeral();
    let mut operations = client(&server).await;
    let begin = v1::BeginOperationRequest { request_id: "b".into(), ..mk_begin("up-v2", "v2") };
    for _ in 0..2 {
        let begun = operations.begin_operation(begin.clone()).await.unwrap().into_inner();
        assert!(begun.begun);
        assert_eq!(begun.operation.unwrap().fence, 1);
    }
    let again = operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap().into_inner();
    assert!(!again.begun, "whoever did not begin it does not hold it");
    let fail = v1::FailOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: 1,
        error: Some(v1::ErrorReport { message: "no".into(), ..Default::default() }),
        request_id: "f".into(),
        ..Default::default()
    };
    for _ in 0..2 {
        let failed = operations.fail_operation(fail.clone()).await.unwrap().into_inner();
        assert_eq!(failed.operation.unwrap().attempts_failed, 1);
    }
}

/// The server is killed; the record, its payload and its checkpoint survive.
#[tokio::test]
async fn an_operation_survives_a_kill_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::on(dir.path());
    let mut operations = client(&server).await;
    let begin = v1::BeginOperationRequest { lease_duration: seconds(5), ..mk_begin("up-v2", "v2") };
    operations.begin_operation(begin).await.unwrap();
    let heartbeat = v1::HeartbeatOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: 1,
        checkpoint: Some(b"3".as_slice().into()),
        progress: Some("step 3/7".into()),
        ..Default::default()
    };
    operations.heartbeat_operation(heartbeat).await.unwrap();
    server.kill();

    let server = Server::on(dir.path());
    let mut operations = client(&server).await;
    let acquired = eventually("the lease lapses", async || {
        operations.acquire_operation(mk_acquire("web/1")).await.ok()
    });
    let acquired = acquired.await.into_inner().operation.unwrap();
    assert_eq!((acquired.fence, acquired.interruptions), (2, 1));
    assert_eq!(&acquired.payload[..], b"bundle of v2");
    assert_eq!(&acquired.checkpoint[..], b"3");
    let late = operations.complete_operation(mk_complete(1)).await.unwrap_err();
    assert_eq!(reason(&late), "STALE_FENCE");
    operations.complete_operation(mk_complete(2)).await.unwrap();
    let got = server.applications().await.get_application(get("web")).await.unwrap().into_inner();
    let status = got.application.unwrap().status.unwrap();
    assert_eq!((status.level(), status.message.as_str()), (Level::Active, "upgraded to v2"));
}

/// An interruption shows without a call, and `why` contains the next step.
#[tokio::test]
async fn the_application_shows_it_and_what_comes_next() {
    let server = Server::ephemeral();
    let mut operations = client(&server).await;
    let mut applications = server.applications().await;
    let begin = v1::BeginOperationRequest { lease_duration: seconds(1), ..mk_begin("up-v2", "v2") };
    operations.begin_operation(begin).await.unwrap();
    let explain = v1::ExplainApplicationRequest { application: "web".into(), ..Default::default() };
    let why = eventually("the lease lapses", async || {
        let why = applications.explain_application(explain.clone()).await.unwrap().into_inner();
        (why.operations[0].state() == OperationState::Interrupted).then_some(why)
    });
    let why = why.await;
    let winner = why.winner.unwrap();
    assert_eq!(winner.level(), Level::Maintenance);
    assert_eq!(winner.message, "upgrade to v2 interrupted, resumes when a worker returns");
    let next = &why.operations[0].next_step;
    assert_eq!(next, "continues from its checkpoint when a worker acquires it");
}

/// Two replicas never grant an operation to two workers at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_acquires_over_two_replicas() {
    let Some(redis) = Redis::start(&[]) else { return };
    let over = || Server::start(&["--store", &redis.url()]);
    let servers = [over(), over()];
    let unheld = v1::BeginOperationRequest { unit: String::new(), ..mk_begin("up-v2", "v2") };
    client(&servers[0]).await.begin_operation(unheld).await.unwrap();
    let mut askers = Vec::new();
    for n in 0..10 {
        let mut operations = client(&servers[n % 2]).await;
        askers.push(tokio::spawn(async move {
            operations.acquire_operation(mk_acquire(&format!("web/{n}"))).await
        }));
    }
    let mut won = Vec::new();
    for asker in askers {
        match asker.await.unwrap() {
            Ok(acquired) => won.push(acquired.into_inner().operation.unwrap()),
            Err(refused) => assert_eq!(reason(&refused), "OPERATION_HELD", "{refused:?}"),
        }
    }
    assert_eq!(won.len(), 1, "{won:?}");
    assert_eq!(won[0].fence, 2);
    // A heartbeat through one replica is visible to the other, although it sends no notification.
    let heartbeat = v1::HeartbeatOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: 2,
        checkpoint: Some(b"half".as_slice().into()),
        ..Default::default()
    };
    client(&servers[0]).await.heartbeat_operation(heartbeat).await.unwrap();
    let mut other = client(&servers[1]).await;
    let released = other.release_operation(v1::ReleaseOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: 2,
        ..Default::default()
    });
    assert_eq!(&released.await.unwrap().into_inner().operation.unwrap().checkpoint[..], b"half");
}

/// No state of an operation prevents removal.
#[tokio::test]
async fn whatever_it_does_its_unit_and_its_application_can_be_removed() {
    let server = Server::ephemeral();
    let mut operations = client(&server).await;
    let mut applications = server.applications().await;
    server
        .reports()
        .await
        .report_status(mk_report("web", "web/0", Level::Active, ""))
        .await
        .unwrap();
    operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap();
    let remove = v1::RemoveUnitRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..Default::default()
    };
    applications.remove_unit(remove).await.unwrap();
    let delete = v1::DeleteApplicationRequest { application: "web".into(), ..Default::default() };
    applications.delete_application(delete).await.unwrap();
    // A worker that still runs the operation receives a refusal, and nothing is restored.
    let late = operations.complete_operation(mk_complete(1)).await.unwrap_err();
    assert_eq!(
        (reason(&late).as_str(), metadata(&late, "operation_reason").as_str()),
        ("OPERATION_STATE", "ORPHANED")
    );
    assert_eq!(applications.get_application(get("web")).await.unwrap_err().code(), Code::NotFound);
    // A new operation may use the name again, with a fence that was never issued.
    let begun = operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap().into_inner();
    assert!(begun.begun);
    assert_eq!(begun.operation.unwrap().fence, 2);
    let zombie = operations.complete_operation(mk_complete(1)).await.unwrap_err();
    assert_eq!(reason(&zombie), "STALE_FENCE");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_fence_is_given_twice_after_redis_lost_the_begin() {
    let Some(mut redis) = Redis::start(&["--appendonly", "no"]) else { return };
    let server = Server::start(&["--store", &redis.url()]);
    let mut operations = client(&server).await;
    let mut last = 0;
    for round in 0..3 {
        let begun = operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap();
        let former = begun.into_inner().operation.unwrap().fence;
        assert!(last < former, "round {round}: {last}, then {former}");
        redis.kill();
        redis.restart();
        let again = v1::BeginOperationRequest { unit: "web/1".into(), ..mk_begin("up-v2", "v2") };
        let begun =
            eventually("a begin", async || operations.begin_operation(again.clone()).await.ok())
                .await;
        let operation = begun.into_inner().operation.unwrap();
        assert!(former < operation.fence, "round {round}: {former}, then {}", operation.fence);
        assert_eq!(operation.holder, "web/1");
        let late = operations.complete_operation(mk_complete(former)).await;
        assert_eq!(reason(&late.unwrap_err()), "STALE_FENCE");
        // The newest fence is of no use to a unit that does not hold it.
        let stolen =
            v1::CompleteOperationRequest { unit: "web/0".into(), ..mk_complete(operation.fence) };
        let refused = operations.complete_operation(stolen).await;
        assert_eq!(reason(&refused.unwrap_err()), "STALE_FENCE");
        last = operation.fence;
        redis.kill();
        redis.restart();
        eventually("the application is gone", async || {
            let get = operations.get_operation(mk_get()).await;
            let refused = get.err()?;
            matches!(&*reason(&refused), "APPLICATION_NOT_FOUND" | "OPERATION_NOT_FOUND")
                .then_some(())
        })
        .await;
    }
}

/// The former master may have lost an acquire that had a higher fence.
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_of_a_former_master_is_refused_until_the_operation_is_acquired_again() {
    let Some(redis) = Redis::start(&["--enable-debug-command", "yes"]) else { return };
    let server = Server::start(&["--store", &redis.url()]);
    let mut operations = client(&server).await;
    let begun = operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap();
    let former = begun.into_inner().operation.unwrap().fence;
    redis.cli(&["debug", "change-repl-id"]);
    // The store refuses everything until it has compared the new master.
    let late = eventually("an answer of the store", async || {
        let late = operations.complete_operation(mk_complete(former)).await.unwrap_err();
        (reason(&late) != "STORE_UNAVAILABLE").then_some(late)
    });
    assert_eq!(reason(&late.await), "STALE_FENCE");
    let acquired = operations.acquire_operation(mk_acquire("web/0")).await.unwrap();
    let operation = acquired.into_inner().operation.unwrap();
    assert!(former + (1 << 20) < operation.fence, "{former}, then {}", operation.fence);
    assert_eq!((operation.interruptions, operation.attempts_failed), (0, 0));
    operations.complete_operation(mk_complete(operation.fence)).await.unwrap();
}

/// What an application shows of the operation that decides its status.
#[tokio::test]
async fn an_application_shows_the_operation_that_wins() {
    let server = Server::ephemeral();
    let (mut operations, mut reports) = (client(&server).await, server.reports().await);
    let mut applications = server.applications().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let begun = operations.begin_operation(mk_begin("up-v2", "v2")).await.unwrap().into_inner();
    let beat = v1::HeartbeatOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: begun.operation.unwrap().fence,
        progress: Some("step 3/7".into()),
        ..Default::default()
    };
    operations.heartbeat_operation(beat).await.unwrap();
    let mut shown = async || {
        let answer = applications.get_application(get("web")).await.unwrap().into_inner();
        answer.application.unwrap().operation
    };
    let running = shown().await.expect("the operation wins over active");
    let state = (running.kind(), running.state());
    assert_eq!(state, (v1::OperationKind::Upgrade, OperationState::Running));
    let texts = [&running.operation_id, &running.target_version, &running.progress, &running.unit];
    assert_eq!(texts, ["up-v2", "v2", "step 3/7", ""]);
    reports.report_status(mk_report("web", "web/0", Level::Blocked, "a person")).await.unwrap();
    assert_eq!(shown().await, None, "another contribution wins");
}
