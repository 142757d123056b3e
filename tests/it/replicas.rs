//! Several servers over one Redis: all have the same state, and the loss of one server loses no
//! acknowledged write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::watch_applications_response::Event;

use crate::cli::run;
use crate::redis::Redis;
use crate::server::{Server, eventually, get, mk_report, reason};

fn over(redis: &Redis) -> Server {
    Server::start(&["--store", &redis.url()])
}

async fn application(server: &Server, name: &str, min_revision: u64) -> v1::Application {
    let request = v1::GetApplicationRequest { min_revision, ..get(name) };
    let got = server.applications().await.get_application(request).await.unwrap();
    got.into_inner().application.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_on_three_replicas_have_one_history() {
    let Some(redis) = Redis::start(&[]) else { return };
    let servers = [over(&redis), over(&redis), over(&redis)];
    let reports = 60;
    let mut writers = Vec::new();
    for (s, server) in servers.iter().enumerate() {
        let mut client = server.reports().await;
        writers.push(tokio::spawn(async move {
            let mut revisions = Vec::new();
            for n in 0..reports {
                let level = if n % 2 == 0 { Level::Active } else { Level::Waiting };
                let report = mk_report("web", &format!("web/{s}"), level, &format!("{s}.{n}"));
                let answer = client.report_status(report).await.unwrap().into_inner();
                assert!(answer.changed);
                revisions.push(answer.revision);
            }
            revisions
        }));
    }
    let mut last = 0;
    for writer in writers {
        let revisions = writer.await.unwrap();
        assert!(revisions.is_sorted(), "each writer sees time go forward");
        last = last.max(*revisions.last().unwrap());
    }
    let mut seen = Vec::new();
    for server in &servers {
        let got = application(server, "web", last).await;
        assert_eq!((got.unit_count, got.revision), (3, last));
        seen.push(got);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[1], seen[2]);
    let events = v1::ListStatusEventsRequest {
        application: "web".into(),
        page_size: 1000,
        ..Default::default()
    };
    let mut client = servers[0].applications().await;
    let events = client.list_status_events(events).await.unwrap().into_inner().events;
    let reported = events.iter().filter(|e| e.cause == "Reported").count();
    // Every report changed the level, so each one is in the history: none was lost.
    assert_eq!(reported, 3 * reports, "no update is lost, none is there twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_killed_under_load_and_nothing_acknowledged_is_lost() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (first, second) = (over(&redis), over(&redis));
    // A watcher of the first server, up to its first bookmark.
    let request = v1::WatchApplicationsRequest::default();
    let mut client = first.applications().await;
    let token = crate::watch::snapshot_token(&mut client, request.clone()).await;
    let acknowledged: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let writers: Vec<_> = (0..4)
        .map(|w| {
            let (url, acknowledged) = (first.url(), acknowledged.clone());
            tokio::spawn(crate::durability::write_until_killed(url, w, acknowledged))
        })
        .collect();
    eventually("two hundred acknowledged reports", async || {
        let count: u64 = acknowledged.lock().unwrap().values().sum();
        (200 <= count).then_some(())
    })
    .await;
    first.kill();
    for writer in writers {
        writer.await.unwrap();
    }
    crate::durability::check(&second, &acknowledged).await;
    // The watcher continues at the other server with its token, and reaches the same state.
    let resume = v1::WatchApplicationsRequest { resume_token: token, ..request };
    let mut client = second.applications().await;
    let mut stream = client.watch_applications(resume).await.unwrap().into_inner();
    let mut copy = crate::watch::Copy::default();
    copy.read_to_bookmark(&mut stream).await;
    for (key, (revision, _)) in &copy.0 {
        assert_eq!(application(&second, &key.1, 0).await.revision, *revision);
    }
    assert_eq!(copy.0.len(), 3, "three applications were written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_on_one_replica_reaches_the_watchers_of_the_other() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (first, second) = (over(&redis), over(&redis));
    let mut client = second.applications().await;
    let request = v1::WatchApplicationsRequest::default();
    let mut stream = client.watch_applications(request).await.unwrap().into_inner();
    let mut reports = first.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Blocked, "x")).await.unwrap();
    loop {
        let next = stream.message().await.unwrap().unwrap();
        if let Some(Event::Upserted(app)) = next.event {
            assert_eq!(app.status.unwrap().level(), Level::Blocked);
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_reads_continue_and_reports_are_refused() {
    let Some(mut redis) = Redis::start(&["--appendonly", "yes", "--appendfsync", "always"]) else {
        return;
    };
    let server = over(&redis);
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let before = application(&server, "web", 0).await;
    redis.kill();
    let refused = eventually("a refusal", async || {
        reports.report_status(mk_report("web", "web/0", Level::Error, "down")).await.err()
    })
    .await;
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    assert_eq!(application(&server, "web", 0).await, before);
    let read = server.applications().await.get_application(get("web")).await.unwrap();
    assert!(read.metadata().contains_key("bellwether-as-of"), "{:?}", read.metadata());
    let from_memory = "no contact with its store since";
    let said = run(&server, &["status", "web"]);
    assert_eq!(said.err.matches(from_memory).count(), 1, "{}", said.err);
    let page = crate::web::get(&server, crate::web::Version::Http1, "/").await.text();
    for part in ["role=\"alert\"", from_memory, " data-as-of=\"", "<title id=\"title\">stale "] {
        assert!(page.contains(part), "{part}: {page}");
    }
    redis.restart();
    eventually("reports are taken again", async || {
        reports.report_status(mk_report("web", "web/0", Level::Error, "down")).await.ok()
    })
    .await;
    assert_eq!(application(&server, "web", 0).await.status.unwrap().level(), Level::Error);
    let said = run(&server, &["status", "web"]);
    assert!(!said.err.contains(from_memory), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_redis_is_noticed_and_found_again() {
    let Some(redis) = Redis::start(&[]) else { return };
    let server = over(&redis);
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    redis.signal("STOP");
    let refused = reports.report_status(mk_report("web", "web/0", Level::Waiting, "")).await;
    assert_eq!(reason(&refused.unwrap_err()), "STORE_UNAVAILABLE");
    assert_eq!(application(&server, "web", 0).await.unit_count, 1);
    redis.signal("CONT");
    eventually("reports are taken again", async || {
        reports.report_status(mk_report("web", "web/0", Level::Blocked, "b")).await.ok()
    })
    .await;
    assert_eq!(application(&server, "web", 0).await.status.unwrap().level(), Level::Blocked);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_writes_move_the_epoch_and_nothing_stays_active_on_them() {
    // Redis keeps nothing over a restart.
    let Some(mut redis) = Redis::start(&["--appendonly", "no"]) else { return };
    let server = over(&redis);
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.unwrap();
    let mut client = server.applications().await;
    let request = v1::WatchApplicationsRequest::default();
    let mut stream = client.watch_applications(request.clone()).await.unwrap().into_inner();
    let epoch = stream.message().await.unwrap().unwrap().store_epoch;
    redis.kill();
    redis.restart();
    // The watch receives lost applications as deleted, and later events have a new epoch.
    loop {
        let next = stream.message().await.unwrap().unwrap();
        match next.event {
            Some(Event::Removed(removed)) => assert_eq!(removed.name, "web"),
            Some(Event::Bookmark(_)) if next.store_epoch != epoch => break,
            _ => {}
        }
    }
    eventually("reports are taken again", async || {
        reports.report_status(mk_report("web", "web/0", Level::Active, "")).await.ok()
    })
    .await;
    assert_eq!(application(&server, "web", 0).await.status.unwrap().level(), Level::Active);
}

#[test]
fn another_number_of_buckets_is_refused() {
    let Some(redis) = Redis::start(&[]) else { return };
    drop(over(&redis));
    let keys = redis.cli(&["keys", "*"]);
    assert!(keys.contains("bw"), "{keys}");
    redis.cli(&["hset", "bw:meta", "buckets", "7"]);
    // Without the flag, the number that the store has counts.
    let url = redis.url();
    let (code, said) = crate::server::refused(&["--store", &url, "--store-buckets", "64"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains('7') && said.contains("64"), "{said}");
}
