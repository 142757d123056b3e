//! Limits on the totals of all applications, on the real server: after a restart, with several
//! replicas, and on a store of a version that kept no totals.

use std::path::Path;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use tonic::Code;
use tonic_types::StatusExt;

use crate::redis::Redis;
use crate::server::{Server, eventually, mk_report, reason};

async fn report(server: &Server, app: &str, unit: &str) -> Result<(), tonic::Status> {
    let report = mk_report(app, unit, Level::Active, "up");
    server.reports().await.report_status(report).await.map(|_| ())
}

/// Checks that the request was refused with the name of the limit.
fn check(refused: Result<(), tonic::Status>, limit: &str, max: &str) {
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(reason(&refused), "LIMIT_EXCEEDED");
    let details = refused.get_error_details();
    let facts = &details.error_info().unwrap().metadata;
    assert_eq!((&*facts["limit"], &*facts["max"]), (limit, max), "{refused:?}");
}

async fn delete(server: &Server, app: &str) {
    let delete = v1::DeleteApplicationRequest { application: app.into(), ..Default::default() };
    server.applications().await.delete_application(delete).await.unwrap();
}

#[tokio::test]
async fn units_of_all_applications_are_bounded_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = ["--data-dir", dir.path().to_str().unwrap()];
    let limits = "[limits]\nunits_total_max = 3\n";
    let mut server = Server::configured(&data, limits);
    for (app, unit) in [("a", "a/0"), ("a", "a/1"), ("b", "b/0")] {
        report(&server, app, unit).await.unwrap();
    }
    for _ in 0..2 {
        check(report(&server, "b", "b/1").await, "units_total_max", "3");
        check(report(&server, "c", "c/0").await, "units_total_max", "3");
        report(&server, "a", "a/0").await.unwrap();
        server.terminate();
        server.wait();
        server = Server::configured(&data, limits);
    }
    delete(&server, "a").await;
    report(&server, "b", "b/1").await.unwrap();
    report(&server, "c", "c/0").await.unwrap();
    check(report(&server, "c", "c/1").await, "units_total_max", "3");
}

/// A namespace at its limits leaves room for the others, and gets room when something is deleted.
#[tokio::test]
async fn a_namespace_has_limits_of_its_own_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = ["--data-dir", dir.path().to_str().unwrap()];
    let limits = "[limits]\napplications_per_namespace_max = 2\nunits_per_namespace_max = 3\n\
                  statuses_per_namespace_max = 4\n";
    let mut server = Server::configured(&data, limits);
    for (app, unit) in [("a", "a/0"), ("a", "a/1"), ("b", "b/0")] {
        report(&server, app, unit).await.unwrap();
    }
    let more = |application: &str, component: &str| {
        let mut report = mk_report(application, &format!("{application}/0"), Level::Active, "up");
        report.status.as_mut().unwrap().component = component.into();
        report
    };
    server.reports().await.report_status(more("a", "db")).await.unwrap();
    for _ in 0..2 {
        check(report(&server, "c", "c/0").await, "applications_per_namespace_max", "2");
        check(report(&server, "b", "b/1").await, "units_per_namespace_max", "3");
        let one_more = server.reports().await.report_status(more("b", "db")).await;
        check(one_more.map(|_| ()), "statuses_per_namespace_max", "4");
        let elsewhere = v1::ReportStatusRequest { namespace: "other".into(), ..more("c", "db") };
        server.reports().await.report_status(elsewhere).await.unwrap();
        server.terminate();
        server.wait();
        server = Server::configured(&data, limits);
    }
    delete(&server, "a").await;
    report(&server, "c", "c/0").await.unwrap();
    report(&server, "b", "b/1").await.unwrap();
    check(report(&server, "c", "c/1").await, "units_per_namespace_max", "3");
}

#[tokio::test]
async fn data_of_one_namespace_is_bounded() {
    let limits = "[limits]\ndata_bytes_per_namespace_max = 10\n";
    let server = Server::configured(&["--ephemeral"], limits);
    let write = async |namespace: &str, application: &str, value: &str| {
        let unit = format!("{application}/0");
        let claim = v1::ClaimLeadershipRequest {
            namespace: namespace.into(),
            application: application.into(),
            unit: unit.clone(),
            ..Default::default()
        };
        let lease = server.leaders().await.claim_leadership(claim).await.unwrap().into_inner();
        let update = v1::UpdateAppDataRequest {
            namespace: namespace.into(),
            application: application.into(),
            unit,
            lease_epoch: lease.lease.unwrap_or_default().lease_epoch,
            set: [("k".to_string(), value.as_bytes().to_vec().into())].into(),
            ..Default::default()
        };
        server.app_data().await.update_app_data(update).await.map(|_| ())
    };
    write("", "a", "12345").await.unwrap();
    check(write("", "b", "12345").await, "data_bytes_per_namespace_max", "10");
    write("", "b", "123").await.unwrap();
    write("other", "b", "12345").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_count_the_same() {
    let Some(redis) = Redis::start(&[]) else { return };
    let start = || {
        let limits = "[limits]\nstatuses_total_max = 2\n";
        Server::configured(&["--store", &redis.url()], limits)
    };
    let (one, other) = (start(), start());
    report(&one, "a", "a/0").await.unwrap();
    report(&one, "b", "b/0").await.unwrap();
    // A commit is acknowledged once its replica has read it from the log, and with it all earlier
    // commits.
    for (app, unit) in [("a", "a/0"), ("b", "b/0")] {
        let again = mk_report(app, unit, Level::Blocked, "again");
        other.reports().await.report_status(again).await.unwrap();
    }
    check(report(&one, "c", "c/0").await, "statuses_total_max", "2");
    check(report(&other, "c", "c/0").await, "statuses_total_max", "2");
    delete(&other, "a").await;
    eventually("there is room again", async || report(&one, "c", "c/0").await.ok()).await;
}

/// The four statuses of an application are counted when the application is next used.
#[tokio::test]
async fn records_of_an_earlier_version_count_toward_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let store = root.join("tests/formats/v1-ids-alone.redb");
    std::fs::copy(store, dir.path().join("bellwether.redb")).unwrap();
    let data = ["--data-dir", dir.path().to_str().unwrap()];
    let server = Server::configured(&data, "[limits]\nstatuses_total_max = 5\n");
    report(&server, "grown", "grown/0").await.unwrap();
    check(report(&server, "grown", "grown/9").await, "statuses_total_max", "5");
    check(report(&server, "other", "other/0").await, "statuses_total_max", "5");
    let clear = v1::ClearStatusRequest {
        application: "grown".into(),
        unit: "grown/0".into(),
        ..Default::default()
    };
    server.reports().await.clear_status(clear).await.unwrap();
    report(&server, "other", "other/0").await.unwrap();
}
