//! Bad input gets a typed error that says what to do, and changes nothing.

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use tonic::Code;
use tonic_types::StatusExt;

use crate::server::{Server, mk_report, reason, refused};

type Change = fn(&mut v1::ReportStatusRequest);

#[tokio::test]
async fn every_bad_report_names_its_field() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let cases: [(Change, &str, &str); 16] = [
        (|r| r.application.clear(), "MISSING_FIELD", "application"),
        (|r| r.application = "a/b".into(), "INVALID_NAME", "application"),
        (|r| r.namespace = "-x".into(), "INVALID_NAME", "namespace"),
        (|r| r.unit.clear(), "MISSING_FIELD", "unit"),
        (|r| r.unit = "x".repeat(254), "INVALID_NAME", "unit"),
        (|r| r.status = None, "MISSING_FIELD", "status"),
        (|r| r.status.as_mut().unwrap().level = 0, "MISSING_FIELD", "status.level"),
        (|r| r.status.as_mut().unwrap().level = 42, "UNKNOWN_LEVEL", "status.level"),
        (|r| r.status.as_mut().unwrap().kind = 9, "INVALID_VALUE", "status.kind"),
        (
            |r| r.status.as_mut().unwrap().message = "x".repeat(4097),
            "MESSAGE_TOO_LONG",
            "status.message",
        ),
        (
            |r| r.status.as_mut().unwrap().short_message = "ä".repeat(41),
            "MESSAGE_TOO_LONG",
            "status.short_message",
        ),
        (
            |r| r.status.as_mut().unwrap().component = "a b".into(),
            "INVALID_NAME",
            "status.component",
        ),
        (|r| r.status.as_mut().unwrap().priority = i32::MIN, "INVALID_VALUE", "status.priority"),
        (
            |r| {
                let ttl = prost_types::Duration { seconds: -1, nanos: 0 };
                r.status.as_mut().unwrap().ttl = Some(ttl);
            },
            "INVALID_VALUE",
            "status.ttl",
        ),
        (|r| r.request_id = "x".repeat(129), "INVALID_VALUE", "request_id"),
        (|r| r.request_id = "\u{1}removed web/0".into(), "INVALID_VALUE", "request_id"),
    ];
    for (change, expected, field) in cases {
        let mut request = mk_report("web", "web/0", Level::Active, "");
        change(&mut request);
        let error = reports.report_status(request).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{field}: {error:?}");
        assert_eq!(reason(&error), expected, "{field}");
        let details = error.get_error_details();
        let fields: Vec<_> =
            details.bad_request().unwrap().field_violations.iter().map(|v| &v.field).collect();
        assert_eq!(fields, [field]);
        assert!(error.message().starts_with(field), "{}", error.message());
        let facts = &details.error_info().unwrap().metadata;
        assert_eq!(facts["field"], field);
        let has_value = ["value", "bytes", "max"].iter().any(|key| facts.contains_key(*key));
        assert!(has_value || expected == "MISSING_FIELD", "{field}: {facts:?}");
    }
    let mut applications = server.applications().await;
    let all = applications.list_applications(v1::ListApplicationsRequest::default()).await;
    assert!(all.unwrap().into_inner().applications.is_empty(), "nothing was created");
}

#[tokio::test]
async fn all_violations_are_in_one_answer() {
    let server = Server::ephemeral();
    let request = v1::ReportStatusRequest {
        status: Some(v1::StatusReport { level: 99, kind: 99, ..Default::default() }),
        ..Default::default()
    };
    let error = server.reports().await.report_status(request).await.unwrap_err();
    let details = error.get_error_details();
    assert_eq!(details.bad_request().unwrap().field_violations.len(), 4, "{error:?}");
}

#[tokio::test]
async fn a_pull_set_names_each_component_and_key_once() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let status = |component: &str| v1::StatusReport {
        component: component.into(),
        level: Level::Active as i32,
        ..Default::default()
    };
    let set = v1::ReplaceStatusesRequest {
        application: "web".into(),
        unit: "web/0".into(),
        statuses: vec![status("db"), status("api"), status("db")],
        ..Default::default()
    };
    let error = reports.replace_statuses(set).await.unwrap_err();
    assert_eq!(reason(&error), "INVALID_VALUE");
    assert!(error.message().contains("statuses[2]"), "{}", error.message());
    assert!(error.message().contains("statuses[0]"), "{}", error.message());
}

#[tokio::test]
async fn unknown_units_and_applications_are_not_found() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    let clear = |unit: &str| v1::ClearStatusRequest {
        application: "web".into(),
        unit: unit.into(),
        ..Default::default()
    };
    let error = reports.clear_status(clear("web/0")).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::NotFound, "APPLICATION_NOT_FOUND"));
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let error = reports.clear_status(clear("web/7")).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::NotFound, "UNIT_NOT_FOUND"));
    let remove = v1::RemoveUnitRequest {
        application: "web".into(),
        unit: "web/7".into(),
        ..Default::default()
    };
    assert_eq!(reason(&applications.remove_unit(remove).await.unwrap_err()), "UNIT_NOT_FOUND");
    let set = v1::SetApplicationStatusRequest {
        application: "web".into(),
        unit: "web/0".into(),
        level: Level::Active as i32,
        ..Default::default()
    };
    let error = applications.set_application_status(set).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::FailedPrecondition, "NOT_LEADER"));
}

#[tokio::test]
async fn tokens_from_elsewhere_are_refused() {
    let server = Server::ephemeral();
    let other = Server::ephemeral();
    for server in [&server, &other] {
        let mut reports = server.reports().await;
        for n in 0..3 {
            let report = mk_report("web", &format!("web/{n}"), Level::Active, "");
            reports.report_status(report).await.unwrap();
        }
    }
    let mut applications = server.applications().await;
    let units =
        v1::ListUnitsRequest { application: "web".into(), page_size: 1, ..Default::default() };
    let page = applications.list_units(units.clone()).await.unwrap().into_inner();
    let elsewhere = v1::ListStatusesRequest {
        application: "web".into(),
        page_token: page.next_page_token,
        ..Default::default()
    };
    let error = applications.list_statuses(elsewhere).await.unwrap_err();
    assert_eq!(reason(&error), "INVALID_PAGE_TOKEN");
    let garbled = v1::ListUnitsRequest { page_token: "garbled".into(), ..units };
    let error = applications.list_units(garbled).await.unwrap_err();
    assert_eq!(reason(&error), "INVALID_PAGE_TOKEN");

    let watch = v1::WatchApplicationsRequest::default();
    let token = crate::watch::snapshot_token(&mut other.applications().await, watch.clone()).await;
    let resume = v1::WatchApplicationsRequest { resume_token: token, ..watch.clone() };
    let error = applications.watch_applications(resume).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::OutOfRange, "RESUME_TOKEN_EXPIRED"));
    assert!(error.message().contains("fresh snapshot"), "{}", error.message());
    assert_eq!(crate::server::cause(&error), "other_store");
    let garbled = v1::WatchApplicationsRequest { resume_token: "garbled".into(), ..watch };
    let error = applications.watch_applications(garbled).await.unwrap_err();
    assert_eq!(reason(&error), "INVALID_VALUE");
}

#[tokio::test]
async fn an_older_incarnation_is_refused() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let speak = |incarnation| v1::ReportStatusRequest {
        incarnation: Some(incarnation),
        ..mk_report("web", "web/0", Level::Active, "")
    };
    reports.report_status(speak(2)).await.unwrap();
    let error = reports.report_status(speak(1)).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::Aborted, "STALE_INCARNATION"));
}

#[test]
fn a_server_that_cannot_start_prints_the_cause() {
    let cases: [(&[&str], &str); 4] = [
        (&["--grpc-listen", "0.0.0.0:0", "--ephemeral"], "--insecure"),
        (&["--store", "etcd"], "give embedded or memory"),
        (&["--ephemeral", "--store", "embedded"], "leave one of them out"),
        (&["--data-dir", "/proc/nowhere"], "/proc/nowhere"),
    ];
    for (arguments, expected) in cases {
        let (code, said) = refused(arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(matches!(code, Some(1 | 2)), "{arguments:?}: {code:?}");
    }
}
