//! A thousand workers whose server is killed: all reconnect, and their statuses are the same.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::{Freshness, Level};
use tonic::transport::{Channel, Endpoint};

use crate::peer::{Peer, hello, status};
use crate::server::{Server, eventually};

const APPLICATIONS: usize = 10;
const UNITS: usize = 100;
/// The time over which disconnected workers reconnect.
const SPREAD_MILLIS: u64 = 3000;

/// Runs a worker that reconnects whenever it is disconnected, and answers questions.
async fn work(channel: Channel, application: usize, unit: usize) {
    let levels = [Level::Active, Level::Waiting, Level::Blocked, Level::Maintenance];
    let level = levels[(application + unit) % 4];
    let name = format!("app-{application}");
    let mut who = hello(&name, &format!("{name}/{unit}"));
    loop {
        if let Ok(mut peer) = Peer::over(channel.clone(), who.clone()).await {
            who.incarnation = Some(peer.welcome.incarnation);
            peer.keep_alive();
            while let Ok(Some(told)) = peer.try_next().await {
                if let Told::Collect(question) = told {
                    peer.replace(&question.collect_id, vec![status(level, "as ever")]).await;
                }
            }
        }
        // A different delay for each worker.
        let wait = (application * 7919 + unit * 104_729) as u64 % SPREAD_MILLIS;
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
}

/// Each status with the fields that may not change, by (application, unit).
type Statuses = BTreeMap<(String, String), (i32, String, Option<prost_types::Timestamp>)>;

/// Returns all statuses, once every unit is connected and fresh.
async fn current(server: &Server) -> Statuses {
    let mut client = server.applications().await;
    let mut found = Statuses::new();
    for n in 0..APPLICATIONS {
        let application = format!("app-{n}");
        eventually("all are connected, and have answered", async || {
            let mut client = client.clone();
            let request = v1::ListUnitsRequest {
                application: application.clone(),
                page_size: 1000,
                ..Default::default()
            };
            let units = client.list_units(request).await.ok()?.into_inner().units;
            let is_there = |unit: &v1::Unit| {
                unit.connected
                    && unit.freshness() == Freshness::Fresh
                    && unit.level() != Level::Unknown
            };
            (units.len() == UNITS && units.iter().all(is_there)).then_some(())
        })
        .await;
        let application = application.clone();
        let request =
            v1::ListStatusesRequest { application, page_size: 1000, ..Default::default() };
        let listed = client.list_statuses(request).await.unwrap().into_inner().statuses;
        for record in listed {
            let report = record.report.unwrap();
            let key = (format!("app-{n}"), record.unit);
            found.insert(key, (report.level, report.message, record.since_time));
        }
    }
    found
}

async fn events(server: &Server) -> Vec<v1::StatusEvent> {
    let mut events = Vec::new();
    for n in 0..APPLICATIONS {
        let request = v1::ListStatusEventsRequest {
            application: format!("app-{n}"),
            page_size: 1000,
            ..Default::default()
        };
        let listed = server.applications().await.list_status_events(request).await.unwrap();
        events.extend(listed.into_inner().events);
    }
    events
}

fn start(directory: &std::path::Path, address: SocketAddr) -> Server {
    let (directory, address) = (directory.to_str().unwrap(), address.to_string());
    Server::start(&["--data-dir", directory, "--grpc-listen", &address])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_workers_come_back_to_a_killed_server_as_they_were() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), SocketAddr::from(([127, 0, 0, 1], 0)));
    let address = server.grpc;
    let endpoint = Endpoint::from_shared(server.url()).unwrap();
    let mut workers = tokio::task::JoinSet::new();
    for unit in 0..UNITS {
        // One worker of each application shares a connection, as on one machine.
        let channel = endpoint.connect_lazy();
        for application in 0..APPLICATIONS {
            workers.spawn(work(channel.clone(), application, unit));
        }
    }
    let before = current(&server).await;
    assert_eq!(before.len(), APPLICATIONS * UNITS);
    let history = events(&server).await;
    server.kill();
    let server = start(directory.path(), address);
    let after = current(&server).await;
    assert_eq!(after, before, "no status changed, nor since when it is");
    assert_eq!(events(&server).await, history, "nothing happened to anybody");
    workers.shutdown().await;
}
