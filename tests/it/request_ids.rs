//! Request ids over the wire: an id answers for its request alone, and for ten minutes.

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::operation_service_client::OperationServiceClient;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::leader::seconds;
use crate::server::{Server, get, mk_report, reason};

/// The configuration has changed since: a repeat gets that of its own revision.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_configuration_is_answered_as_the_first_time() {
    let server = Server::ephemeral();
    let mut applications = server.applications().await;
    let mut configure = async |id: &str, lease: i64| {
        let config = v1::ApplicationConfig { lease_duration: seconds(lease), ..Default::default() };
        let request = v1::ConfigureApplicationRequest {
            application: "web".into(),
            config: Some(config),
            request_id: id.into(),
            ..Default::default()
        };
        let answer = applications.configure_application(request).await.unwrap().into_inner();
        (answer.revision, answer.config.unwrap().lease_duration.unwrap().seconds)
    };
    let first = configure("first", 20).await;
    assert_eq!(first.1, 20);
    let second = configure("second", 30).await;
    assert_eq!(second, (first.0 + 1, 30));
    assert_eq!(configure("first", 20).await, first);
    assert_eq!(configure("second", 30).await, second);
    assert_eq!(configure("", 40).await, (second.0 + 1, 40));
    assert_eq!(configure("first", 20).await, first);
}

/// Sends another request with the id of an earlier report.
macro_rules! ask {
    ($client:ident.$method:ident($request:ident { $($field:ident: $value:expr),* })) => {{
        let request = v1::$request {
            application: "web".into(),
            request_id: "r1".into(),
            $($field: $value,)*
            ..v1::$request::default()
        };
        (stringify!($request), $client.$method(request).await.err())
    }};
}

fn mk_error() -> Option<v1::ErrorReport> {
    Some(v1::ErrorReport {
        system: "http".into(),
        code: "403".into(),
        origin: v1::ErrorOrigin::Peer.into(),
        ..v1::ErrorReport::default()
    })
}

/// Calls each method that takes an id, with a body that is valid except for the id.
async fn ask_all(server: &Server) -> Vec<(&'static str, Option<Status>)> {
    let (mut r, mut a) = (server.reports().await, server.applications().await);
    let (mut l, mut d) = (server.leaders().await, server.app_data().await);
    let mut w = WorkerServiceClient::new(server.channel().await);
    let mut o = OperationServiceClient::new(server.channel().await);
    let unit = || "web/1".to_string();
    let op = || "up".to_string();
    let v2 = || "v2".to_string();
    let error = mk_report("web", "web/1", Level::Error, "down").status;
    let configured =
        Some(v1::ApplicationConfig { drop_leader_status: Some(true), ..Default::default() });
    let (observed, retry) = (v1::Observed::Applied.into(), v1::HoldResolution::Retry.into());
    vec![
        ask!(r.report_status(ReportStatusRequest { unit: unit(), status: error })),
        ask!(r.replace_statuses(ReplaceStatusesRequest { unit: unit() })),
        ask!(r.clear_status(ClearStatusRequest { unit: unit() })),
        ask!(r.report_error(ReportErrorRequest { unit: unit(), error: mk_error() })),
        ask!(r.resolve_error(ResolveErrorRequest { unit: unit() })),
        ask!(w.register_unit(RegisterUnitRequest { unit: unit() })),
        ask!(a.configure_application(ConfigureApplicationRequest { config: configured })),
        ask!(a.set_application_status(SetApplicationStatusRequest { unit: unit(), level: 3 })),
        ask!(a.replace_application_statuses(ReplaceApplicationStatusesRequest { unit: unit() })),
        ask!(a.clear_application_status(ClearApplicationStatusRequest { unit: unit() })),
        ask!(a.resolve_hold(ResolveHoldRequest { unit: unit(), resolution: retry })),
        ask!(a.remove_unit(RemoveUnitRequest { unit: unit() })),
        ask!(a.delete_application(DeleteApplicationRequest {})),
        ask!(l.claim_leadership(ClaimLeadershipRequest { unit: unit() })),
        ask!(l.release_leadership(ReleaseLeadershipRequest { unit: unit() })),
        ask!(l.transfer_leadership(TransferLeadershipRequest { to_unit: unit() })),
        ask!(d.update_app_data(UpdateAppDataRequest { unit: unit() })),
        ask!(o.begin_operation(BeginOperationRequest { operation_id: op(), target_version: v2() })),
        ask!(o.acquire_operation(AcquireOperationRequest { unit: unit(), operation_id: op() })),
        ask!(o.heartbeat_operation(HeartbeatOperationRequest {
            unit: unit(),
            operation_id: op(),
            fence: 1
        })),
        ask!(o.release_operation(ReleaseOperationRequest {
            unit: unit(),
            operation_id: op(),
            fence: 1
        })),
        ask!(o.complete_operation(CompleteOperationRequest {
            unit: unit(),
            operation_id: op(),
            fence: 1
        })),
        ask!(o.fail_operation(FailOperationRequest {
            unit: unit(),
            operation_id: op(),
            fence: 1,
            error: mk_error()
        })),
        ask!(o.verify_operation(VerifyOperationRequest {
            unit: unit(),
            operation_id: op(),
            fence: 1,
            observed: observed
        })),
        ask!(o.cancel_operation(CancelOperationRequest { operation_id: op() })),
        ask!(o.retry_operation(RetryOperationRequest { operation_id: op() })),
    ]
}

#[tokio::test]
async fn an_id_of_another_request_is_refused_by_every_method() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let first = v1::ReportStatusRequest {
        request_id: "r1".into(),
        ..mk_report("web", "web/0", Level::Active, "up")
    };
    let answer = reports.report_status(first.clone()).await.unwrap().into_inner();
    reports.report_status(mk_report("web", "web/1", Level::Active, "up")).await.unwrap();
    let mut applications = server.applications().await;
    let before = applications.get_application(get("web")).await.unwrap().into_inner();
    for (request, refused) in ask_all(&server).await {
        let refused = refused.unwrap_or_else(|| panic!("{request} was answered"));
        assert_eq!(refused.code(), Code::InvalidArgument, "{request}: {refused:?}");
        assert_eq!(reason(&refused), "REQUEST_ID_REUSED", "{request}");
        let details = refused.get_error_details();
        let facts = &details.error_info().unwrap().metadata;
        assert_eq!((&*facts["method"], &*facts["request_id"]), ("ReportStatus", "r1"));
    }
    let after = applications.get_application(get("web")).await.unwrap().into_inner();
    assert_eq!(after, before, "nothing was applied");
    // The repeated request receives the first answer.
    assert_eq!(reports.report_status(first).await.unwrap().into_inner(), answer);
}

/// Maps have no order on the wire, so a repeat may arrive in another order.
#[tokio::test]
async fn a_repeat_is_recognized_with_any_order_of_its_maps() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for _ in 0..20 {
        let mut report = mk_report("web", "web/0", Level::Active, "up");
        report.request_id = "r1".into();
        let labels = (0..16).map(|n| (format!("key-{n}"), n.to_string()));
        report.status.as_mut().unwrap().labels = labels.collect();
        assert_eq!(reports.report_status(report).await.unwrap().into_inner().revision, 1);
    }
}

/// An earlier version wrote the store and kept answers by their ids alone.
#[tokio::test]
async fn answers_of_the_version_before_are_still_given() {
    let dir = tempfile::tempdir().unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let store = root.join("tests/formats/v1-ids-alone.redb");
    std::fs::copy(store, dir.path().join("bellwether.redb")).unwrap();
    let server = Server::on(dir.path());
    let mut reports = server.reports().await;
    let mut report = mk_report("grown", "grown/0", Level::Error, "late");
    report.request_id = "report".into();
    let answer = reports.report_status(report.clone()).await.unwrap().into_inner();
    assert_eq!((answer.revision, answer.changed), (1, true));
    report.request_id = "new".into();
    let answer = reports.report_status(report.clone()).await.unwrap().into_inner();
    assert_eq!((answer.revision, answer.changed), (12, true));
    report.unit = "grown/1".into();
    let refused = reports.report_status(report).await.unwrap_err();
    assert_eq!(reason(&refused), "REQUEST_ID_REUSED");
}
