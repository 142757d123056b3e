//! The calls that charms make before their first report, in their order; and calls that are not a
//! sign of life.

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use tonic::Code;

use crate::leader::{claim, leader};
use crate::peer::{Peer, hello};
use crate::server::{Server, eventually, get, mk_report, reason};

async fn units(server: &Server) -> Vec<v1::Unit> {
    let list = v1::ListUnitsRequest { application: "web".into(), ..Default::default() };
    server.applications().await.list_units(list).await.unwrap().into_inner().units
}

fn mk_get_data() -> v1::GetAppDataRequest {
    v1::GetAppDataRequest { application: "web".into(), ..Default::default() }
}

#[tokio::test]
async fn leadership_data_and_resolved_errors_come_before_the_first_report() {
    let server = Server::ephemeral();
    let (mut reports, mut data) = (server.reports().await, server.app_data().await);
    let nobody = leader(&server, "web").await;
    assert_eq!((nobody.lease, nobody.lease_epoch, nobody.revision), (None, 0, 0));
    let empty = data.get_app_data(mk_get_data()).await.unwrap().into_inner().app_data.unwrap();
    assert_eq!((empty.data.len(), empty.revision), (0, 0));
    let resolve = v1::ResolveErrorRequest {
        application: "web".into(),
        unit: "web/0".into(),
        component: "db".into(),
        ..Default::default()
    };
    let resolved = reports.resolve_error(resolve.clone()).await.unwrap().into_inner();
    assert_eq!((resolved.resolved_count, resolved.held_count), (0, 0));
    let mut update = v1::UpdateAppDataRequest {
        application: "web".into(),
        unit: "web/0".into(),
        set: [("url".to_string(), "http://x".into())].into(),
        etag: Some(empty.etag),
        ..Default::default()
    };
    let refused = data.update_app_data(update.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_LEADER", "nobody leads yet");
    let gone = server.applications().await.get_application(get("web")).await.unwrap_err();
    assert_eq!(reason(&gone), "APPLICATION_NOT_FOUND", "reading makes nothing");

    let lease = claim(&server, "web", "web/0").await.unwrap();
    assert_eq!((&*lease.unit, lease.lease_epoch), ("web/0", 1));
    update.lease_epoch = lease.lease_epoch;
    assert!(data.update_app_data(update).await.unwrap().into_inner().changed);
    let kept = data.get_app_data(mk_get_data()).await.unwrap().into_inner().app_data.unwrap();
    assert_eq!(kept.data["url"], "http://x");
    let units: Vec<String> = units(&server).await.into_iter().map(|unit| unit.name).collect();
    assert_eq!(units, ["web/0"]);
    // The first call of a unit, for an existing application.
    let resolve = v1::ResolveErrorRequest { unit: "web/1".into(), ..resolve };
    assert_eq!(reports.resolve_error(resolve).await.unwrap().into_inner().resolved_count, 0);
}

/// The next change must name this etag.
#[tokio::test]
async fn the_data_of_a_deleted_application_are_empty_and_can_be_set_anew() {
    let server = Server::ephemeral();
    let mut data = server.app_data().await;
    let mut etag = String::new();
    for _ in 0..2 {
        let lease = claim(&server, "web", "web/0").await.unwrap();
        let update = v1::UpdateAppDataRequest {
            application: "web".into(),
            unit: "web/0".into(),
            lease_epoch: lease.lease_epoch,
            set: [("key".to_string(), "value".into())].into(),
            etag: Some(etag).filter(|etag| !etag.is_empty()),
            ..Default::default()
        };
        data.update_app_data(update).await.unwrap();
        let delete =
            v1::DeleteApplicationRequest { application: "web".into(), ..Default::default() };
        server.applications().await.delete_application(delete).await.unwrap();
        let empty = data.get_app_data(mk_get_data()).await.unwrap().into_inner().app_data.unwrap();
        assert!(empty.data.is_empty());
        etag = empty.etag;
    }
}

#[tokio::test]
async fn an_unknown_incarnation_fences_no_worker() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut workers = WorkerServiceClient::new(server.channel().await);
    let register = v1::RegisterUnitRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..Default::default()
    };
    let first = workers.register_unit(register.clone()).await.unwrap().into_inner().incarnation;
    let report = |incarnation| v1::ReportStatusRequest {
        incarnation: Some(incarnation),
        ..mk_report("web", "web/0", Level::Active, "up")
    };
    for hostile in [u64::MAX, 1 << 63, 1 << 40] {
        let refused = reports.report_status(report(hostile)).await.unwrap_err();
        assert_eq!((refused.code(), &*reason(&refused)), (Code::InvalidArgument, "INVALID_VALUE"));
        let previous =
            v1::RegisterUnitRequest { previous_incarnation: Some(hostile), ..register.clone() };
        let refused = workers.register_unit(previous).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_VALUE");
    }
    // The report of the live worker is accepted, and the next incarnations fence it.
    reports.report_status(report(first)).await.unwrap();
    let second = workers.register_unit(register).await.unwrap().into_inner().incarnation;
    let peer = Peer::connect(&server, hello("web", "web/0")).await;
    assert_eq!((first, second, peer.welcome.incarnation), (1, 2, 3));
    let stale = reports.report_status(report(second)).await.unwrap_err();
    assert_eq!(reason(&stale), "STALE_INCARNATION");
}

/// Any caller may clear or resolve what is already gone, so that is no contact with the unit.
#[tokio::test]
async fn a_clear_or_resolve_of_nothing_does_not_renew_a_unit() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut report = mk_report("web", "web/0", Level::Active, "up");
    report.status.as_mut().unwrap().ttl = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    reports.report_status(report).await.unwrap();
    let before = units(&server).await.remove(0).last_seen_time;
    eventually("the status is stale", async || {
        let application = server.applications().await.get_application(get("web")).await.unwrap();
        let status = application.into_inner().application?.status?;
        (status.stale_units == 1).then_some(())
    })
    .await;
    let clear = v1::ClearStatusRequest {
        application: "web".into(),
        unit: "web/0".into(),
        key: Some("none".into()),
        ..Default::default()
    };
    assert_eq!(reports.clear_status(clear.clone()).await.unwrap().into_inner().cleared_count, 0);
    let resolve = v1::ResolveErrorRequest {
        application: "web".into(),
        unit: "web/0".into(),
        component: "db".into(),
        ..Default::default()
    };
    reports.resolve_error(resolve).await.unwrap();
    assert_eq!(units(&server).await.remove(0).last_seen_time, before);
    // A clear that removes something is a report like any other.
    let clear = v1::ClearStatusRequest { key: None, ..clear };
    assert_eq!(reports.clear_status(clear).await.unwrap().into_inner().cleared_count, 1);
    assert_ne!(units(&server).await.remove(0).last_seen_time, before);
}
