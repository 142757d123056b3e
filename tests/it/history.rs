//! The history contains the event, the change and its cause for each kind of event.

use bellwether::proto::v1;
use bellwether::proto::v1::{EventActor, EventKind, Level};

use crate::server::{Server, eventually, mk_report};

type Line = (EventKind, EventActor, String, Vec<(String, String, String)>);

/// Returns the newest matching event as kind, actor, cause and changes.
async fn newest(server: &Server, fits: impl Fn(&v1::StatusEvent) -> bool) -> Option<Line> {
    let request = v1::ListStatusEventsRequest { application: "web".into(), ..Default::default() };
    let answer = server.applications().await.list_status_events(request).await.unwrap();
    let event = answer.into_inner().events.into_iter().find(fits)?;
    let (kind, actor) = (event.kind(), event.actor());
    let changes = event.changes.into_iter().map(|c| (c.field, c.from, c.to)).collect();
    Some((kind, actor, event.cause, changes))
}

fn line(kind: EventKind, actor: EventActor, cause: &str, changes: &[[&str; 3]]) -> Line {
    let text =
        |[field, from, to]: &[&str; 3]| (field.to_string(), from.to_string(), to.to_string());
    (kind, actor, cause.to_string(), changes.iter().map(text).collect())
}

async fn check(server: &Server, expected: Line) {
    let found = newest(server, |e| e.kind() == expected.0).await.unwrap();
    assert_eq!(found, expected);
}

async fn configure(server: &Server, config: v1::ApplicationConfig) {
    let request = v1::ConfigureApplicationRequest {
        application: "web".into(),
        config: Some(config),
        ..Default::default()
    };
    server.applications().await.configure_application(request).await.unwrap();
}

#[tokio::test]
async fn the_history_names_the_change_of_configuration_leaders_and_statuses() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for unit in ["web/0", "web/1"] {
        reports.report_status(mk_report("web", unit, Level::Blocked, "m")).await.unwrap();
    }
    check(&server, line(EventKind::Status, EventActor::Unit, "Reported", &[])).await;
    let policy = v1::Policy { name: "openstack".into(), ..Default::default() };
    configure(&server, v1::ApplicationConfig { policy: Some(policy), ..Default::default() }).await;
    let moved = [["policy", "juju", "openstack"]];
    let expected = line(EventKind::Configuration, EventActor::Operator, "Configured", &moved);
    check(&server, expected).await;
    let claim = v1::ClaimLeadershipRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..Default::default()
    };
    server.leaders().await.claim_leadership(claim).await.unwrap();
    let moved = [["leader", "", "web/0"], ["lease_epoch", "", "1"]];
    check(&server, line(EventKind::Leader, EventActor::Unit, "LeaderClaimed", &moved)).await;
    let transfer = v1::TransferLeadershipRequest {
        application: "web".into(),
        to_unit: "web/1".into(),
        ..Default::default()
    };
    server.leaders().await.transfer_leadership(transfer).await.unwrap();
    let moved = [["leader", "web/0", "web/1"], ["lease_epoch", "", "2"]];
    check(&server, line(EventKind::Leader, EventActor::Operator, "LeaderTransferred", &moved))
        .await;
    let clear = v1::ClearStatusRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..Default::default()
    };
    reports.clear_status(clear).await.unwrap();
    check(&server, line(EventKind::Status, EventActor::Unit, "Cleared", &[])).await;
    let application = newest(&server, |e| e.status.is_none() && e.level() == Level::Blocked).await;
    let expected = line(EventKind::Application, EventActor::Server, "Derived", &[]);
    assert_eq!(application, Some(expected));
}

#[tokio::test]
async fn the_history_has_the_cause_and_the_end_of_each_hold() {
    let server = Server::ephemeral();
    let error = v1::ReportErrorRequest {
        application: "web".into(),
        unit: "web/0".into(),
        error: Some(v1::ErrorReport {
            component: "db".into(),
            target: "pg".into(),
            system: "grpc".into(),
            code: "DATA_LOSS".into(),
            origin: v1::ErrorOrigin::Peer.into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    server.reports().await.report_error(error).await.unwrap();
    let held = [["hold", "", "held"]];
    check(&server, line(EventKind::Error, EventActor::Unit, "ErrorReported", &held)).await;
    let resolve = v1::ResolveHoldRequest {
        application: "web".into(),
        unit: "web/0".into(),
        component: "db".into(),
        resolution: v1::HoldResolution::Retry.into(),
        reason: "restored".into(),
        ..Default::default()
    };
    server.applications().await.resolve_hold(resolve).await.unwrap();
    let retried = [["hold", "held", "to be retried"]];
    check(&server, line(EventKind::Hold, EventActor::Operator, "HoldRetried", &retried)).await;
    let request = v1::ListStatusEventsRequest { application: "web".into(), ..Default::default() };
    let events = server.applications().await.list_status_events(request).await.unwrap();
    let events = events.into_inner().events;
    let hold = events.iter().find(|e| e.kind() == EventKind::Hold).unwrap();
    assert_eq!(hold.status.as_ref().unwrap().target, "pg");
    assert_eq!(hold.message, "restored");
}

#[tokio::test]
async fn a_lost_unit_is_an_event_of_the_unit() {
    let server = Server::ephemeral();
    let second = prost_types::Duration { seconds: 1, nanos: 0 };
    let ttls =
        v1::Ttls { default_ttl: Some(second), lost_after: Some(second), replaced_after: None };
    configure(&server, v1::ApplicationConfig { ttls: Some(ttls), ..Default::default() }).await;
    let moved = [["ttls.default_ttl", "", "1s"], ["ttls.lost_after", "120s", "1s"]];
    let expected = line(EventKind::Configuration, EventActor::Operator, "Configured", &moved);
    check(&server, expected).await;
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let lost =
        eventually("the unit is lost", async || newest(&server, |e| e.cause == "UnitLost").await);
    let expected = line(EventKind::Unit, EventActor::Server, "UnitLost", &[]);
    assert_eq!(lost.await, expected);
}
