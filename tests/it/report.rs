//! Reports are stored, aggregated, explained and listed.

use bellwether::proto::v1;
use bellwether::proto::v1::Level;

use crate::server::{Server, get, mk_report, reason};

#[tokio::test]
async fn a_blocked_unit_blocks_its_application_and_why_names_it() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    let mut blocked = mk_report("web", "web/0", Level::Blocked, "add a database relation");
    let answer = reports.report_status(blocked.clone()).await.unwrap().into_inner();
    assert_eq!((answer.revision, answer.changed), (1, true));
    assert_eq!(answer.advice.len(), 1, "{:?}", answer.advice);
    assert!(answer.advice[0].contains("action"));
    blocked.status.as_mut().unwrap().action = "juju integrate web postgresql".into();
    let answer = reports.report_status(blocked.clone()).await.unwrap().into_inner();
    assert!(answer.changed && answer.advice.is_empty());
    let answer = reports.report_status(blocked).await.unwrap().into_inner();
    assert_eq!((answer.revision, answer.changed), (2, false));
    let other = mk_report("web", "web/1", Level::Active, "");
    reports.report_status(other).await.unwrap();

    let application = applications.get_application(get("web")).await.unwrap().into_inner();
    let application = application.application.unwrap();
    let status = application.status.unwrap();
    assert_eq!(status.level(), Level::Blocked);
    assert_eq!(status.action, "juju integrate web postgresql");
    assert_eq!(status.winner.unwrap().unit, "web/0");
    assert_eq!(status.rule, "highest level under policy juju: blocked over active");
    assert_eq!((application.unit_count, application.revision), (2, 3));

    let request = v1::ExplainApplicationRequest {
        application: "web".into(),
        ..v1::ExplainApplicationRequest::default()
    };
    let why = applications.explain_application(request).await.unwrap().into_inner();
    assert_eq!(why.winner.unwrap().r#ref.unwrap().unit, "web/0");
    let beaten: Vec<_> = why.beaten.iter().map(|c| c.beaten_by.as_str()).collect();
    assert_eq!((beaten, why.beaten_count), (vec!["lower level"], 1));
}

#[tokio::test]
async fn a_pull_set_replaces_the_last_one_and_push_stays() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    let pull = |component: &str, level: Level| v1::StatusReport {
        component: component.into(),
        level: level as i32,
        ..v1::StatusReport::default()
    };
    let set = |statuses: Vec<v1::StatusReport>| v1::ReplaceStatusesRequest {
        application: "web".into(),
        unit: "web/0".into(),
        statuses,
        ..v1::ReplaceStatusesRequest::default()
    };
    reports.report_status(mk_report("web", "web/0", Level::Waiting, "push")).await.unwrap();
    let first = set(vec![pull("db", Level::Blocked), pull("api", Level::Active)]);
    assert!(reports.replace_statuses(first.clone()).await.unwrap().into_inner().changed);
    let again = reports.replace_statuses(first).await.unwrap().into_inner();
    assert_eq!((again.changed, again.removed_count), (false, 0));
    let second = reports.replace_statuses(set(vec![pull("api", Level::Active)])).await.unwrap();
    assert_eq!(second.into_inner().removed_count, 1);
    let list =
        v1::ListStatusesRequest { application: "web".into(), ..v1::ListStatusesRequest::default() };
    let statuses = applications.list_statuses(list).await.unwrap().into_inner().statuses;
    let kept: Vec<_> = statuses
        .iter()
        .map(|s| s.report.as_ref().unwrap())
        .map(|r| (r.component.as_str(), r.kind()))
        .collect();
    assert_eq!(kept, [("", v1::StatusKind::Push), ("api", v1::StatusKind::Pull)]);
    let clear = v1::ClearStatusRequest {
        application: "web".into(),
        unit: "web/0".into(),
        kind: v1::StatusKind::Push as i32,
        ..v1::ClearStatusRequest::default()
    };
    assert_eq!(reports.clear_status(clear).await.unwrap().into_inner().cleared_count, 1);
    let application = applications.get_application(get("web")).await.unwrap().into_inner();
    assert_eq!(application.application.unwrap().status.unwrap().level(), Level::Active);
}

#[tokio::test]
async fn lists_are_paged_in_natural_order() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    for n in 0..25 {
        let report = mk_report("web", &format!("web/{n}"), Level::Active, "");
        reports.report_status(report).await.unwrap();
        let name = format!("app{n:02}");
        reports.report_status(mk_report(&name, "u/0", Level::Active, "")).await.unwrap();
    }
    let mut units = Vec::new();
    let mut request = v1::ListUnitsRequest {
        application: "web".into(),
        page_size: 10,
        ..v1::ListUnitsRequest::default()
    };
    loop {
        let page = applications.list_units(request.clone()).await.unwrap().into_inner();
        units.extend(page.units.into_iter().map(|u| u.name));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    let expected: Vec<String> = (0..25).map(|n| format!("web/{n}")).collect();
    assert_eq!(units, expected);

    let mut names = Vec::new();
    let mut request =
        v1::ListApplicationsRequest { page_size: 7, ..v1::ListApplicationsRequest::default() };
    loop {
        let page = applications.list_applications(request.clone()).await.unwrap().into_inner();
        names.extend(page.applications.into_iter().map(|a| a.name));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(names.len(), 26);
    assert!(names.is_sorted());
}

#[tokio::test]
async fn a_request_id_is_applied_once() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut first = mk_report("web", "web/0", Level::Waiting, "a");
    first.request_id = "one".into();
    let answer = reports.report_status(first.clone()).await.unwrap().into_inner();
    reports.report_status(mk_report("web", "web/0", Level::Active, "b")).await.unwrap();
    // The late duplicate must not restore the old status.
    let again = reports.report_status(first).await.unwrap().into_inner();
    assert_eq!(again, answer);
    let mut applications = server.applications().await;
    let application = applications.get_application(get("web")).await.unwrap().into_inner();
    assert_eq!(application.application.unwrap().status.unwrap().level(), Level::Active);
}

#[tokio::test]
async fn configuration_counts_at_once_and_removal_always_works() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    reports.report_status(mk_report("web", "web/0", Level::Waiting, "w")).await.unwrap();
    reports.report_status(mk_report("web", "web/1", Level::Maintenance, "m")).await.unwrap();
    let level = async |applications: &mut crate::watch::Client| {
        let got = applications.get_application(get("web")).await.unwrap().into_inner();
        got.application.unwrap().status.unwrap().level()
    };
    assert_eq!(level(&mut applications).await, Level::Maintenance);
    let configure = v1::ConfigureApplicationRequest {
        application: "web".into(),
        config: Some(v1::ApplicationConfig {
            policy: Some(v1::Policy { name: "openstack".into(), order: vec![] }),
            ..v1::ApplicationConfig::default()
        }),
        ..v1::ConfigureApplicationRequest::default()
    };
    let answer = applications.configure_application(configure).await.unwrap().into_inner();
    assert_eq!(answer.config.unwrap().policy.unwrap().name, "openstack");
    assert_eq!(level(&mut applications).await, Level::Waiting);
    let remove = v1::RemoveUnitRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..v1::RemoveUnitRequest::default()
    };
    assert_eq!(applications.remove_unit(remove).await.unwrap().into_inner().removed_count, 1);
    assert_eq!(level(&mut applications).await, Level::Maintenance);
    let delete = v1::DeleteApplicationRequest {
        application: "web".into(),
        ..v1::DeleteApplicationRequest::default()
    };
    let deleted = applications.delete_application(delete).await.unwrap().into_inner();
    let gone = applications.get_application(get("web")).await.unwrap_err();
    assert_eq!(reason(&gone), "APPLICATION_NOT_FOUND");
    // The history survives the application, and the revision continues.
    let history = v1::ListStatusEventsRequest {
        application: "web".into(),
        ..v1::ListStatusEventsRequest::default()
    };
    let events = applications.list_status_events(history).await.unwrap().into_inner().events;
    assert_eq!(events[0].cause, "Deleted");
    assert!(events.iter().any(|e| e.cause == "UnitRemoved"));
    let again = reports.report_status(mk_report("web", "web/1", Level::Active, "")).await;
    assert_eq!(again.unwrap().into_inner().revision, deleted.revision + 1);
}

#[tokio::test]
async fn reads_wait_for_the_revision_they_name() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let later = v1::GetApplicationRequest { min_revision: 2, ..get("web") };
    let mut waiting = server.applications().await;
    let waiting = tokio::spawn(async move { waiting.get_application(later).await });
    reports.report_status(mk_report("web", "web/0", Level::Error, "")).await.unwrap();
    let got = waiting.await.unwrap().unwrap().into_inner().application.unwrap();
    assert_eq!(got.revision, 2);
    let mut never =
        tonic::Request::new(v1::GetApplicationRequest { min_revision: 9, ..get("web") });
    never.set_timeout(std::time::Duration::from_millis(100));
    let late = applications.get_application(never).await.unwrap_err();
    assert!(
        matches!(late.code(), tonic::Code::DeadlineExceeded | tonic::Code::Cancelled),
        "{late:?}"
    );
}

#[tokio::test]
async fn an_older_observation_replaces_no_newer_one() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let now = std::time::SystemTime::now();
    let observed = |level: Level, message: &str, seconds_ago: u64| {
        let mut report = mk_report("late", "late/0", level, message);
        let at = now - std::time::Duration::from_secs(seconds_ago);
        report.status.as_mut().unwrap().observe_time = Some(at.into());
        report
    };
    let newer = reports.report_status(observed(Level::Active, "newer", 0)).await.unwrap();
    let older = reports.report_status(observed(Level::Blocked, "older", 600)).await.unwrap();
    let (newer, older) = (newer.into_inner(), older.into_inner());
    assert_eq!((older.changed, older.revision), (false, newer.revision));
    let advice = older.advice.last().unwrap();
    assert!(advice.starts_with("the report was dropped: its `observe_time` is before"), "{advice}");
    let got = server.applications().await.get_application(get("late")).await.unwrap();
    let status = got.into_inner().application.unwrap().status.unwrap();
    assert_eq!((status.level(), status.message.as_str()), (Level::Active, "newer"));
}
