//! The statuses that a leader sets for its application appear beside those of the units.

use bellwether::proto::v1;
use bellwether::proto::v1::Level;

use crate::cli;
use crate::server::{Server, mk_report};

async fn list(server: &Server, unit: &str, page_token: String) -> v1::ListStatusesResponse {
    let request = v1::ListStatusesRequest {
        application: "web".into(),
        unit: unit.into(),
        page_size: 1,
        page_token,
        ..Default::default()
    };
    server.applications().await.list_statuses(request).await.unwrap().into_inner()
}

async fn lead_outside(server: &Server, unit: &str) {
    let leader = v1::ExternalLeader { unit: unit.into() };
    let configure = v1::ConfigureApplicationRequest {
        application: "web".into(),
        config: Some(v1::ApplicationConfig { external_leader: Some(leader), ..Default::default() }),
        ..Default::default()
    };
    server.applications().await.configure_application(configure).await.unwrap();
}

#[tokio::test]
async fn the_status_of_the_application_is_the_first_of_the_list() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    lead_outside(&server, "web/0").await;
    let mut applications = server.applications().await;
    let set = v1::SetApplicationStatusRequest {
        application: "web".into(),
        unit: "web/0".into(),
        level: Level::Blocked.into(),
        message: "no licence".into(),
        action: "bellwether licence add".into(),
        ..Default::default()
    };
    applications.set_application_status(set).await.unwrap();
    let first = list(&server, "", String::new()).await;
    let record = &first.statuses[0];
    let report = record.report.as_ref().unwrap();
    assert_eq!((record.unit.as_str(), report.level()), ("", Level::Blocked));
    assert_eq!((&*report.message, &*report.action), ("no licence", "bellwether licence add"));
    assert!(record.contributing && record.since_time.is_some());
    let second = list(&server, "", first.next_page_token).await;
    assert_eq!(second.statuses[0].unit, "web/0");
    assert_eq!(second.next_page_token, "");
    let of_unit = list(&server, "web/0", String::new()).await;
    assert_eq!(of_unit.statuses.len(), 1);
    assert_eq!(of_unit.statuses[0].unit, "web/0");
    let status = cli::ok(&server, &["status", "web"]);
    assert!(status.contains("-> action: bellwether licence add"), "{status}");
    let clear = v1::ClearApplicationStatusRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..Default::default()
    };
    applications.clear_application_status(clear).await.unwrap();
    assert_eq!(list(&server, "", String::new()).await.statuses[0].unit, "web/0");
}

#[tokio::test]
async fn a_short_message_is_shown_where_its_status_decides() {
    let server = Server::ephemeral();
    let mut request =
        mk_report("web", "web/0", Level::Blocked, "the database refuses the password");
    request.status.as_mut().unwrap().short_message = "db password".into();
    server.reports().await.report_status(request).await.unwrap();
    let mut applications = server.applications().await;
    let get = crate::server::get("web");
    let found = applications.get_application(get).await.unwrap().into_inner().application.unwrap();
    assert_eq!(found.status.unwrap().short_message, "db password");
    let request = v1::ListUnitsRequest { application: "web".into(), ..Default::default() };
    let units = applications.list_units(request).await.unwrap().into_inner().units;
    assert_eq!(units[0].short_message, "db password");
    let request = v1::ExplainApplicationRequest { application: "web".into(), ..Default::default() };
    let why = applications.explain_application(request).await.unwrap().into_inner();
    assert_eq!(why.winner.unwrap().short_message, "db password");
}

fn mk_status(component: &str, level: Level, message: &str, short: &str) -> v1::StatusReport {
    let action = if level == Level::Blocked { format!("mend {component}") } else { String::new() };
    v1::StatusReport {
        component: component.into(),
        level: level.into(),
        message: message.into(),
        short_message: short.into(),
        check: format!("{component} answers"),
        labels: [("running".to_string(), "async".to_string())].into(),
        action,
        ..Default::default()
    }
}

async fn replace(
    server: &Server,
    unit: &str,
    statuses: Vec<v1::StatusReport>,
) -> Result<v1::ReplaceApplicationStatusesResponse, tonic::Status> {
    let request = v1::ReplaceApplicationStatusesRequest {
        application: "web".into(),
        unit: unit.into(),
        statuses,
        ..Default::default()
    };
    let answer = server.applications().await.replace_application_statuses(request).await;
    answer.map(tonic::Response::into_inner)
}

/// A status without component and key, from the set and from `SetApplicationStatus`: the pages
/// have both.
#[tokio::test]
async fn the_statuses_of_the_application_are_a_set_with_details() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let disk = mk_report("web", "web/1", Level::Blocked, "the disk is full");
    reports.report_status(disk).await.unwrap();
    lead_outside(&server, "web/0").await;
    let refused = replace(&server, "web/1", vec![]).await.unwrap_err();
    assert_eq!(crate::server::reason(&refused), "NOT_LEADER");
    let set = vec![
        mk_status("db", Level::Blocked, "no database for the application", "no db"),
        mk_status("", Level::Blocked, "a whole", ""),
        mk_status("cache", Level::Waiting, "cache starts", ""),
    ];
    let answer = replace(&server, "web/0", set.clone()).await.unwrap();
    assert!(answer.changed && answer.advice.is_empty(), "{answer:?}");
    assert!(!replace(&server, "web/0", set).await.unwrap().changed);
    let whole = v1::SetApplicationStatusRequest {
        application: "web".into(),
        unit: "web/0".into(),
        level: Level::Active.into(),
        ..Default::default()
    };
    server.applications().await.set_application_status(whole).await.unwrap();
    let (mut token, mut seen) = (String::new(), Vec::new());
    loop {
        let page = list(&server, "", token).await;
        for record in page.statuses {
            let report = record.report.unwrap();
            let labels = report.labels.len();
            seen.push((record.unit, report.component.clone(), report.kind(), labels));
        }
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let row = |unit: &str, component: &str, kind: v1::StatusKind, labels: usize| {
        (unit.to_string(), component.to_string(), kind, labels)
    };
    let expected = [
        row("", "", v1::StatusKind::Pull, 1),
        row("", "", v1::StatusKind::Unspecified, 0),
        row("", "cache", v1::StatusKind::Pull, 1),
        row("", "db", v1::StatusKind::Pull, 1),
        row("web/1", "", v1::StatusKind::Push, 0),
    ];
    assert_eq!(seen, expected);
    let get = crate::server::get("web");
    let found = server.applications().await.get_application(get).await.unwrap().into_inner();
    let status = found.application.unwrap().status.unwrap();
    assert_eq!((&*status.message, &*status.short_message), (DATABASE, "no db"));
    assert!(status.leader_set, "{status:?}");
    let why = cli::ok(&server, &["why", "web"]);
    assert!(why.contains("(application) db"), "{why}");
    assert!(why.contains("as its leader set it") && why.contains("action   mend db"), "{why}");
    assert!(why.contains("the disk is full (not the application's own)"), "{why}");
    let table = cli::ok(&server, &["status", "web"]);
    assert!(table.contains(DATABASE) && table.contains("cache starts"), "{table}");
    let log = cli::ok(&server, &["log", "web"]);
    assert!(log.contains("web db"), "{log}");
}

const DATABASE: &str = "no database for the application";

/// The set survives a restart of the server, and the application counts the same afterwards.
#[tokio::test]
async fn a_restart_keeps_the_statuses_of_the_application() {
    let disk = tempfile::tempdir().unwrap();
    let server = Server::on(disk.path());
    lead_outside(&server, "web/0").await;
    let set = vec![mk_status("db", Level::Blocked, DATABASE, "")];
    replace(&server, "web/0", set.clone()).await.unwrap();
    drop(server);
    let server = Server::on(disk.path());
    let get = || crate::server::get("web");
    let found = server.applications().await.get_application(get()).await.unwrap().into_inner();
    let status = found.application.unwrap().status.unwrap();
    assert_eq!((&*status.message, status.action_count), (DATABASE, 1));
    assert!(!replace(&server, "web/0", set).await.unwrap().changed);
    assert_eq!(replace(&server, "web/0", vec![]).await.unwrap().removed_count, 1);
    let found = server.applications().await.get_application(get()).await.unwrap().into_inner();
    let status = found.application.unwrap().status.unwrap();
    assert_eq!((status.level(), status.action_count), (Level::Unknown, 0));
}

#[tokio::test]
async fn a_set_of_the_application_is_limited() {
    let server = Server::ephemeral();
    lead_outside(&server, "web/0").await;
    let status = |n| mk_status(&format!("c{n}"), Level::Active, "", "");
    let many: Vec<_> = (0..1025).map(status).collect();
    let refused = replace(&server, "web/0", many).await.unwrap_err();
    assert_eq!(crate::server::reason(&refused), "LIMIT_EXCEEDED");
    let most: Vec<_> = (0..1024).map(status).collect();
    assert!(replace(&server, "web/0", most).await.unwrap().changed);
    // A set that replaces it has the same room.
    let others: Vec<_> = (1..1025).map(status).collect();
    assert_eq!(replace(&server, "web/0", others).await.unwrap().removed_count, 1);
    let twice = vec![status(1), status(1)];
    let refused = replace(&server, "web/0", twice).await.unwrap_err();
    assert_eq!(crate::server::reason(&refused), "INVALID_VALUE");
}

/// The first write of a leader that was decided outside needs no other call before it.
#[tokio::test]
async fn a_leader_decided_outside_writes_in_one_call() {
    let server = Server::ephemeral();
    let mut data = server.app_data().await;
    let update = |unit: &str, value: &str, etag: Option<&str>| v1::UpdateAppDataRequest {
        application: "web".into(),
        unit: unit.into(),
        set: [("name".to_string(), value.to_string().into_bytes().into())].into(),
        etag: etag.map(str::to_string),
        decided_outside: true,
        ..Default::default()
    };
    assert!(data.update_app_data(update("web/0", "a", None)).await.unwrap().into_inner().changed);
    assert_eq!(leader(&server).await, "web/0");
    let refused = data.update_app_data(update("web/1", "b", Some("7"))).await.unwrap_err();
    assert_eq!(crate::server::reason(&refused), "ETAG_MISMATCH");
    assert_eq!(leader(&server).await, "web/0");
    let lease = v1::UpdateAppDataRequest { lease_epoch: 3, ..update("web/1", "b", None) };
    let refused = data.update_app_data(lease).await.unwrap_err();
    assert_eq!(crate::server::reason(&refused), "INVALID_VALUE");
    let refused = data.update_app_data(update("", "b", None)).await.unwrap_err();
    assert_eq!(crate::server::reason(&refused), "MISSING_FIELD");
    cli::ok(&server, &["data", "set", "web/1", "name=c", "--decided-outside"]);
    assert_eq!(leader(&server).await, "web/1");
    cli::ok(&server, &["configure", "web", "--external-leader", "nobody"]);
    assert_eq!(leader(&server).await, "");
    let set = v1::SetApplicationStatusRequest {
        application: "web".into(),
        unit: "web/2".into(),
        level: Level::Active.into(),
        decided_outside: true,
        ..Default::default()
    };
    let answer = server.applications().await.set_application_status(set).await.unwrap();
    assert!(answer.into_inner().changed);
    assert_eq!(leader(&server).await, "web/2");
    cli::ok(&server, &["configure", "web", "--external-leader", "none"]);
    cli::ok(&server, &["leader", "claim", "web/0"]);
}

async fn leader(server: &Server) -> String {
    let request = v1::GetLeaderRequest { application: "web".into(), ..Default::default() };
    let answer = server.leaders().await.get_leader(request).await.unwrap().into_inner();
    answer.lease.map(|lease| lease.unit).unwrap_or_default()
}
