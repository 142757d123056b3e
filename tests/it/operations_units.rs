//! Work of each unit beside that of the application: begun, interrupted by a kill of the server,
//! resumed by the unit itself, listed, and given up with the unit.

use bellwether::proto::v1;
use bellwether::proto::v1::operation_service_client::OperationServiceClient;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use bellwether::proto::v1::{Level, OperationState};
use tonic::transport::Channel;

use crate::cli;
use crate::redis::Redis;
use crate::server::{Server, get, reason};

async fn client(server: &Server) -> OperationServiceClient<Channel> {
    OperationServiceClient::new(server.channel().await)
}

fn mk_begin(unit: &str, id: &str) -> v1::BeginOperationRequest {
    v1::BeginOperationRequest {
        application: "web".into(),
        unit: unit.into(),
        for_unit: unit.into(),
        operation_id: id.into(),
        target_version: "v2".into(),
        payload: b"bundle".as_slice().into(),
        deterministic: true,
        ..Default::default()
    }
}

fn mk_acquire(unit: &str, id: &str) -> v1::AcquireOperationRequest {
    v1::AcquireOperationRequest {
        application: "web".into(),
        unit: unit.into(),
        operation_id: id.into(),
        ..Default::default()
    }
}

/// Returns the ids of the unfinished operations that a unit gets when it begins, with their units.
async fn pending(server: &Server, unit: &str) -> Vec<(String, String, bool)> {
    let request = v1::RegisterUnitRequest {
        application: "web".into(),
        unit: unit.into(),
        ..Default::default()
    };
    let mut workers = WorkerServiceClient::new(server.channel().await);
    let answer = workers.register_unit(request).await.unwrap().into_inner();
    let operations = answer.operations.into_iter();
    operations.map(|o| (o.operation_id, o.unit, !o.payload.is_empty())).collect()
}

async fn check(server: &Server) {
    let mut operations = client(server).await;
    for (unit, id) in [("web/0", "up-0"), ("web/1", "up-1")] {
        let begun = operations.begin_operation(mk_begin(unit, id)).await.unwrap().into_inner();
        assert!(begun.begun);
        assert_eq!(begun.operation.unwrap().unit, unit);
    }
    let own = v1::BeginOperationRequest { for_unit: String::new(), ..mk_begin("web/0", "migrate") };
    assert!(operations.begin_operation(own).await.unwrap().into_inner().begun);
    let second = operations.begin_operation(mk_begin("web/0", "up-0b")).await.unwrap_err();
    assert_eq!(reason(&second), "OPERATION_HELD");
    let foreign = v1::BeginOperationRequest { for_unit: "web/1".into(), ..mk_begin("web/0", "x") };
    let foreign = operations.begin_operation(foreign).await.unwrap_err();
    assert_eq!(reason(&foreign), "INVALID_VALUE");
    assert!(foreign.message().starts_with("for_unit"), "{}", foreign.message());
    let release = v1::ReleaseOperationRequest {
        application: "web".into(),
        operation_id: "up-1".into(),
        fence: 1,
        ..Default::default()
    };
    operations.release_operation(release).await.unwrap();
    let other = operations.acquire_operation(mk_acquire("web/0", "up-1")).await.unwrap_err();
    assert_eq!(reason(&other), "OPERATION_STATE");
    let list = |unit: Option<&str>| v1::ListOperationsRequest {
        application: "web".into(),
        unit: unit.map(str::to_string),
        ..Default::default()
    };
    for (unit, expected) in [
        (None, vec!["migrate", "up-1", "up-0"]),
        (Some("web/1"), vec!["up-1"]),
        (Some(""), vec!["migrate"]),
    ] {
        let found = operations.list_operations(list(unit)).await.unwrap().into_inner().operations;
        let found: Vec<&str> = found.iter().map(|o| o.operation_id.as_str()).collect();
        assert_eq!(found, expected, "{unit:?}");
    }
    let status = cli::ok(server, &["status", "web"]);
    assert!(status.contains("up-0 -> v2") && status.contains("web/1"), "{status}");
    let table = cli::ok(server, &["ops", "list", "web"]);
    assert!(table.lines().any(|l| l.contains("up-1") && l.contains("web/1")), "{table}");
    let why = cli::ok(server, &["why", "web"]);
    assert!(why.contains("web/1 operation[up-1]") && why.contains("next     migrate"), "{why}");
}

/// What remains after a stop of the server: each unit gets its own work, and resumes it.
async fn check_resumed(server: &Server) {
    let own = |id: &str, unit: &str, payload: bool| (id.to_string(), unit.to_string(), payload);
    let expected = [own("up-1", "web/1", true), own("migrate", "", false)];
    assert_eq!(pending(server, "web/1").await, expected);
    let expected = [own("up-0", "web/0", true), own("migrate", "", true)];
    assert_eq!(pending(server, "web/0").await, expected);
    assert_eq!(pending(server, "web/2").await, [own("migrate", "", false)]);
    let mut operations = client(server).await;
    let acquired = operations.acquire_operation(mk_acquire("web/1", "up-1")).await.unwrap();
    let acquired = acquired.into_inner().operation.unwrap();
    let complete = |id: &str, fence: u64| v1::CompleteOperationRequest {
        application: "web".into(),
        operation_id: id.into(),
        fence,
        ..Default::default()
    };
    let stale = operations.complete_operation(complete("up-1", 1)).await.unwrap_err();
    assert_eq!(reason(&stale), "STALE_FENCE");
    operations.complete_operation(complete("up-1", acquired.fence)).await.unwrap();
    let remove = v1::RemoveUnitRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..Default::default()
    };
    server.applications().await.remove_unit(remove).await.unwrap();
    let late = operations.complete_operation(complete("up-0", 1)).await.unwrap_err();
    assert_eq!(reason(&late), "OPERATION_STATE");
    let done = operations.complete_operation(complete("migrate", 1)).await.unwrap().into_inner();
    assert_eq!(done.operation.unwrap().state(), OperationState::Succeeded);
    let found = server.applications().await.get_application(get("web")).await.unwrap();
    let status = found.into_inner().application.unwrap().status.unwrap();
    assert_eq!((status.level(), status.more_count), (Level::Active, 0), "{status:?}");
}

#[tokio::test]
async fn each_unit_resumes_its_own_work_after_a_kill_of_the_server() {
    let disk = tempfile::tempdir().unwrap();
    let server = Server::on(disk.path());
    check(&server).await;
    drop(server);
    check_resumed(&Server::on(disk.path())).await;
}

#[tokio::test]
async fn each_unit_resumes_its_own_work_over_redis() {
    let Some(redis) = Redis::start(&[]) else { return };
    check(&Server::start(&["--store", &redis.url()])).await;
    check_resumed(&Server::start(&["--store", &redis.url()])).await;
}

/// The 1,024 unfinished operations of units are the limit; that of the application has its place.
#[tokio::test]
async fn unfinished_work_of_units_is_limited() {
    let server = Server::ephemeral();
    let mut operations = client(&server).await;
    for n in 0..1024 {
        let begin = mk_begin(&format!("web/{n}"), &format!("up-{n}"));
        operations.begin_operation(begin).await.unwrap();
    }
    let over = operations.begin_operation(mk_begin("web/1024", "up-1024")).await.unwrap_err();
    assert_eq!(reason(&over), "LIMIT_EXCEEDED");
    let own = v1::BeginOperationRequest { for_unit: String::new(), ..mk_begin("web/0", "migrate") };
    operations.begin_operation(own).await.unwrap();
}
