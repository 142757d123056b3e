//! `grpc.health.v1`, exactly as its specification says.

use std::time::Duration;

use bellwether::proto::health::health_check_response::ServingStatus;
use bellwether::proto::health::{HealthCheckRequest, HealthListRequest};
use bellwether::proto::v1::{DeleteApplicationRequest, Level};
use tonic::Code;

use crate::server::{DEADLINE, Server, mk_report, reason};

fn service(name: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: name.into() }
}

#[tokio::test]
async fn check_and_list() {
    let server = Server::ephemeral();
    let mut health = server.health().await;
    let server_health = health.check(service("")).await.unwrap().into_inner();
    assert_eq!(server_health.status(), ServingStatus::Serving);
    for known in ["bellwether.v1.ReportService", "bellwether.v1.ServerService"] {
        let health = health.check(service(known)).await.unwrap().into_inner();
        assert_eq!(health.status(), ServingStatus::Serving, "{known}");
    }
    for unknown in ["bellwether.v1.NoService", "default/web", "web", "a/b/c"] {
        assert_eq!(health.check(service(unknown)).await.unwrap_err().code(), Code::NotFound);
    }
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    reports.report_status(mk_report("api", "api/0", Level::Blocked, "")).await.unwrap();
    let web = health.check(service("default/web")).await.unwrap().into_inner();
    assert_eq!(web.status(), ServingStatus::Serving);
    let api = health.check(service("default/api")).await.unwrap().into_inner();
    assert_eq!(api.status(), ServingStatus::NotServing);
    let all = health.list(HealthListRequest {}).await.unwrap().into_inner().statuses;
    let mut names: Vec<_> = all.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["", "default/", "default/api", "default/web"]);
    assert_eq!(all["default/api"].status(), ServingStatus::NotServing);
    assert_eq!(all["default/"].status(), ServingStatus::NotServing);
}

/// The services that clients with health-based load balancing ask for.
const SERVICES: [&str; 6] = [
    "bellwether.v1.AppDataService",
    "bellwether.v1.ApplicationService",
    "bellwether.v1.LeaderService",
    "bellwether.v1.OperationService",
    "bellwether.v1.ReportService",
    "bellwether.v1.WorkerService",
];

#[tokio::test]
async fn the_services_of_the_server_have_its_health() {
    let mut server = Server::ephemeral();
    let mut health = server.health().await;
    for name in SERVICES {
        let answer = health.check(service(name)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{name}");
    }
    let unknown = health.check(service("bellwether.v1.NoService")).await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).as_str()), (Code::NotFound, "SERVICE_NOT_FOUND"));
    let mut stream = health.watch(service(SERVICES[4])).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    server.terminate();
    assert_eq!(stream.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    drop((stream, health));
    assert_eq!(server.wait().code(), Some(0));
}

#[tokio::test]
async fn a_health_watch_of_an_unknown_name_stays_open_and_sends_each_change_once() {
    let server = Server::ephemeral();
    let mut health = server.health().await;
    let mut stream = health.watch(service("default/web")).await.unwrap().into_inner();
    let mut next = async || {
        let next = tokio::time::timeout(DEADLINE, stream.message()).await;
        next.expect("in time").unwrap().expect("the call stays open").status()
    };
    assert_eq!(next().await, ServingStatus::ServiceUnknown);
    let mut reports = server.reports().await;
    let mut report = async |level, message: &str| {
        reports.report_status(mk_report("web", "web/0", level, message)).await.unwrap();
    };
    report(Level::Active, "a").await;
    assert_eq!(next().await, ServingStatus::Serving);
    // A different message does not change the health status.
    report(Level::Active, "b").await;
    report(Level::Error, "c").await;
    assert_eq!(next().await, ServingStatus::NotServing);
    let delete = DeleteApplicationRequest { application: "web".into(), ..Default::default() };
    server.applications().await.delete_application(delete).await.unwrap();
    assert_eq!(next().await, ServingStatus::ServiceUnknown);
    report(Level::Active, "d").await;
    assert_eq!(next().await, ServingStatus::Serving);
}

#[tokio::test]
async fn a_health_watch_ends_at_its_deadline() {
    let server = Server::ephemeral();
    let mut health = server.health().await;
    // Within a short deadline a busy machine may not even begin the watch.
    for millis in [100, 400, 1_600, 6_400, 25_600] {
        let mut request = tonic::Request::new(service("default/web"));
        request.set_timeout(Duration::from_millis(millis));
        let began = async {
            let mut stream = health.watch(request).await?.into_inner();
            let first = stream.message().await?;
            Ok::<_, tonic::Status>((stream, first))
        };
        let (mut stream, first) = match began.await {
            Ok(began) => began,
            // The client cancels a call that has no answer at its deadline.
            Err(late) => {
                let is_late = matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled);
                assert!(is_late, "{late}");
                continue;
            }
        };
        assert_eq!(first.unwrap().status(), ServingStatus::ServiceUnknown);
        let end = tokio::time::timeout(DEADLINE, stream.message()).await.expect("in time");
        assert_eq!(end.unwrap_err().code(), Code::DeadlineExceeded);
        return;
    }
    panic!("no watch began within its deadline");
}

#[tokio::test]
async fn a_stopping_server_is_not_serving() {
    let mut server = Server::ephemeral();
    let mut health = server.health().await;
    let mut stream = health.watch(service("")).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    server.terminate();
    let second = stream.message().await.unwrap().unwrap();
    assert_eq!(second.status(), ServingStatus::NotServing);
    assert_eq!(reason(&stream.message().await.unwrap_err()), "DRAINING");
    drop((stream, health));
    assert_eq!(server.wait().code(), Some(0));
}
