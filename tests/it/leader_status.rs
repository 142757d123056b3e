//! The status that a leader sets for its application appears in the list beside those of the units.

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

#[tokio::test]
async fn the_status_of_the_application_is_the_first_of_the_list() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let leader = v1::ExternalLeader { unit: "web/0".into() };
    let configure = v1::ConfigureApplicationRequest {
        application: "web".into(),
        config: Some(v1::ApplicationConfig { external_leader: Some(leader), ..Default::default() }),
        ..Default::default()
    };
    let mut applications = server.applications().await;
    applications.configure_application(configure).await.unwrap();
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
