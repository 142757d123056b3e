//! The events of a watch: snapshot, changes, bookmarks, a drain; and that none is missing.

use std::collections::BTreeMap;
use std::time::Instant;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::watch_applications_response::Event;
use tonic::transport::Channel;
use tonic_types::StatusExt;

use crate::server::{DEADLINE, Server, eventually, mk_report, reason};

pub type Client = ApplicationServiceClient<Channel>;

pub type Stream = tonic::Streaming<v1::WatchApplicationsResponse>;

/// Returns the next event; the test fails if none arrives.
pub async fn next(stream: &mut Stream) -> v1::WatchApplicationsResponse {
    let next = tokio::time::timeout(DEADLINE, stream.message()).await;
    next.expect("an event in time").unwrap().expect("the stream goes on")
}

/// A copy of the watched applications, as a client keeps it.
#[derive(Default)]
pub struct Copy(pub BTreeMap<(String, String), (u64, i32)>);

impl Copy {
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Upserted(app) => {
                let level = app.status.as_ref().unwrap().level;
                let key = (app.namespace.clone(), app.name.clone());
                self.0.insert(key, (app.revision, level));
            }
            Event::Removed(removed) => {
                self.0.remove(&(removed.namespace.clone(), removed.name.clone()));
            }
            _ => {}
        }
    }

    /// Returns the digest that the comment at `Bookmark.digest` defines.
    pub fn digest(&self) -> String {
        let hash = |text: String| {
            text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        };
        let sum = self.0.iter().map(|((namespace, name), (revision, level))| {
            let level = Level::try_from(*level).unwrap().as_str_name();
            let level = level.trim_start_matches("LEVEL_").to_lowercase();
            hash(format!("{namespace}/{name}@{revision}={level}"))
        });
        format!("{:016x}", sum.fold(0_u64, u64::wrapping_add))
    }

    /// Reads up to the next bookmark, which must match the copy.
    pub async fn read_to_bookmark(&mut self, stream: &mut Stream) -> String {
        loop {
            let response = next(stream).await;
            let event = response.event.unwrap();
            self.apply(&event);
            if let Event::Bookmark(bookmark) = event {
                assert_eq!(bookmark.digest, self.digest());
                assert_eq!(bookmark.application_count as usize, self.0.len());
                return response.resume_token;
            }
        }
    }
}

/// Returns the token at the end of the snapshot.
pub async fn snapshot_token(client: &mut Client, request: v1::WatchApplicationsRequest) -> String {
    let mut stream = client.watch_applications(request).await.unwrap().into_inner();
    loop {
        let response = next(&mut stream).await;
        if let Some(Event::SnapshotComplete(_)) = response.event {
            return response.resume_token;
        }
    }
}

#[tokio::test]
async fn snapshot_then_changes_then_bookmarks() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for name in ["b", "a", "c"] {
        reports.report_status(mk_report(name, "u/0", Level::Active, "")).await.unwrap();
    }
    let mut client = server.applications().await;
    let request = v1::WatchApplicationsRequest { include_units: true, ..Default::default() };
    let mut stream = client.watch_applications(request).await.unwrap().into_inner();
    let mut copy = Copy::default();
    for name in ["a", "b", "c"] {
        let response = next(&mut stream).await;
        let Some(Event::Upserted(app)) = &response.event else { panic!("{response:?}") };
        assert_eq!((app.name.as_str(), response.units.len()), (name, 1));
        copy.apply(response.event.as_ref().unwrap());
    }
    let response = next(&mut stream).await;
    let Some(Event::SnapshotComplete(done)) = response.event else { panic!("{response:?}") };
    assert_eq!(done.application_count, 3);
    assert!(!response.resume_token.is_empty() && !response.store_epoch.is_empty());

    reports.report_status(mk_report("b", "u/0", Level::Error, "down")).await.unwrap();
    let response = next(&mut stream).await;
    let Some(Event::Upserted(app)) = &response.event else { panic!("{response:?}") };
    assert_eq!((app.name.as_str(), app.revision), ("b", 2));
    copy.apply(response.event.as_ref().unwrap());
    let delete = v1::DeleteApplicationRequest { application: "c".into(), ..Default::default() };
    client.delete_application(delete).await.unwrap();
    let response = next(&mut stream).await;
    assert!(matches!(&response.event, Some(Event::Removed(r)) if r.name == "c"));
    copy.apply(response.event.as_ref().unwrap());
    let quiet = Instant::now();
    copy.read_to_bookmark(&mut stream).await;
    copy.read_to_bookmark(&mut stream).await;
    assert!(quiet.elapsed() < DEADLINE, "bookmarks come every 5 s");
}

#[tokio::test]
async fn a_token_resumes_after_the_server_restarted() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::on(directory.path());
    let mut reports = server.reports().await;
    for name in ["kept", "deleted", "changed"] {
        reports.report_status(mk_report(name, "u/0", Level::Active, "")).await.unwrap();
    }
    let request = v1::WatchApplicationsRequest::default();
    let mut client = server.applications().await;
    let mut stream = client.watch_applications(request.clone()).await.unwrap().into_inner();
    let mut copy = Copy::default();
    let token = copy.read_to_bookmark(&mut stream).await;
    drop(stream);
    reports.report_status(mk_report("changed", "u/0", Level::Blocked, "x")).await.unwrap();
    reports.report_status(mk_report("new", "u/0", Level::Active, "")).await.unwrap();
    let delete =
        v1::DeleteApplicationRequest { application: "deleted".into(), ..Default::default() };
    client.delete_application(delete).await.unwrap();
    server.kill();

    let server = Server::on(directory.path());
    let resume = v1::WatchApplicationsRequest { resume_token: token, ..request };
    let mut client = server.applications().await;
    let mut stream = client.watch_applications(resume).await.unwrap().into_inner();
    // Only the changes arrive, and then the bookmark that verifies the copy.
    copy.read_to_bookmark(&mut stream).await;
    let names: Vec<_> = copy.0.keys().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["changed", "kept", "new"]);
    assert_eq!(copy.0[&("default".into(), "changed".into())].1, Level::Blocked as i32);
}

#[tokio::test]
async fn a_status_expires_without_a_request_and_the_watcher_gets_it() {
    let server = Server::ephemeral();
    let mut report = mk_report("web", "web/0", Level::Active, "up");
    let ttl = prost_types::Duration { seconds: 1, nanos: 0 };
    report.status.as_mut().unwrap().ttl = Some(ttl);
    server.reports().await.report_status(report).await.unwrap();
    let mut client = server.applications().await;
    let request =
        v1::WatchApplicationsRequest { applications: vec!["web".into()], ..Default::default() };
    let mut stream = client.watch_applications(request).await.unwrap().into_inner();
    let min_revision = loop {
        let response = next(&mut stream).await;
        let Some(Event::Upserted(app)) = response.event else {
            continue;
        };
        if app.status.as_ref().unwrap().stale_units == 1 {
            break app.revision;
        }
        assert_eq!(app.revision, 1);
    };
    // A watcher may have a revision before the reads have it: they wait for the one that is given.
    let application = "web".into();
    let list = v1::ListStatusesRequest { application, min_revision, ..Default::default() };
    let statuses = client.list_statuses(list).await.unwrap().into_inner().statuses;
    assert_eq!(statuses[0].freshness(), v1::Freshness::Stale);
    assert_eq!(statuses[0].report.as_ref().unwrap().level(), Level::Active);
}

#[tokio::test]
async fn a_slow_reader_gets_the_newest_state_only() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "0")).await.unwrap();
    let mut client = server.applications().await;
    let request = v1::WatchApplicationsRequest::default();
    let mut stream = client.watch_applications(request).await.unwrap().into_inner();
    // Fills every buffer between the server and the client, which does not read.
    let text = "x".repeat(4000);
    let changes = 3000;
    for n in 1..=changes {
        let message = format!("{n} {text}");
        reports.report_status(mk_report("web", "web/0", Level::Active, &message)).await.unwrap();
    }
    let (mut received, mut coalesced) = (0, 0);
    loop {
        let response = next(&mut stream).await;
        coalesced += response.coalesced_count;
        let Some(Event::Upserted(app)) = response.event else {
            continue;
        };
        received += 1;
        if app.status.unwrap().message.starts_with(&format!("{changes} ")) {
            break;
        }
    }
    assert!(received < changes, "{received} of {changes} were sent one by one");
    assert_eq!(received + coalesced, changes + 1, "what was left out is counted");
}

#[tokio::test]
async fn level_filters_send_the_applications_that_leave() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Blocked, "x")).await.unwrap();
    reports.report_status(mk_report("api", "api/0", Level::Active, "")).await.unwrap();
    let mut client = server.applications().await;
    let request =
        v1::WatchApplicationsRequest { min_level: Level::Blocked as i32, ..Default::default() };
    let mut stream = client.watch_applications(request).await.unwrap().into_inner();
    let first = next(&mut stream).await.event.unwrap();
    assert!(matches!(first, Event::Upserted(app) if app.name == "web"));
    let done = next(&mut stream).await.event.unwrap();
    assert!(matches!(done, Event::SnapshotComplete(done) if done.application_count == 1));
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let left = next(&mut stream).await.event.unwrap();
    assert!(matches!(left, Event::Removed(removed) if removed.name == "web"));
}

#[tokio::test]
async fn a_stopping_server_gives_its_watchers_a_token_to_resume() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::on(directory.path());
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let mut client = server.applications().await;
    let request = v1::WatchApplicationsRequest::default();
    let mut stream = client.watch_applications(request).await.unwrap().into_inner();
    while !matches!(next(&mut stream).await.event, Some(Event::SnapshotComplete(_))) {}
    server.terminate();
    let token = loop {
        let response = next(&mut stream).await;
        if let Some(Event::Drain(drain)) = response.event {
            assert!(drain.reconnect_after.is_some());
            break response.resume_token;
        }
    };
    let end = stream.message().await.unwrap_err();
    assert_eq!((end.code(), reason(&end).as_str()), (tonic::Code::Unavailable, "DRAINING"));
    drop((stream, client, reports));
    assert_eq!(server.wait().code(), Some(0));

    let server = Server::on(directory.path());
    server
        .reports()
        .await
        .report_status(mk_report("web", "web/0", Level::Error, ""))
        .await
        .unwrap();
    let resume = v1::WatchApplicationsRequest { resume_token: token, ..Default::default() };
    let mut client = server.applications().await;
    let mut stream = client.watch_applications(resume).await.unwrap().into_inner();
    let first = next(&mut stream).await.event.unwrap();
    assert!(matches!(first, Event::Upserted(app) if app.revision == 2));
}

#[tokio::test]
async fn one_client_cannot_fill_the_server_with_filters() {
    let server = Server::ephemeral();
    let mut client = server.applications().await;
    let mut open = Vec::new();
    let mut refused = None;
    for n in 1..128 {
        let levels = (1..8).filter(|level| n >> (level - 1) & 1 == 1).collect();
        let request = v1::WatchApplicationsRequest { levels, ..Default::default() };
        match client.watch_applications(request).await {
            Ok(stream) => open.push(stream),
            Err(error) => refused = Some(error),
        }
    }
    assert_eq!(open.len(), 64);
    let error = refused.unwrap();
    assert_eq!(reason(&error), "TOO_MANY_STREAMS");
    let details = error.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["limit"], "filters_per_peer_max");
    drop(open);
    let again =
        v1::WatchApplicationsRequest { levels: vec![1, 2, 3, 4, 5, 6], ..Default::default() };
    eventually("there is room again", async || client.watch_applications(again.clone()).await.ok())
        .await;
}

#[tokio::test]
async fn a_refused_watch_of_the_client_is_refused_again() {
    let server = Server::ephemeral();
    let client = bellwether_client::Client::connect(&server.url()).await.unwrap();
    let request = v1::WatchApplicationsRequest {
        namespace: "-".into(),
        applications: vec!["web".into()],
        ..v1::WatchApplicationsRequest::default()
    };
    let mut watch = bellwether_client::Watch::new(&client, request);
    for _ in 0..2 {
        let error = watch.next().await.unwrap_err();
        assert_eq!(error.reason(), Some("INVALID_VALUE"), "{error}");
    }
}
