//! Faults of Redis and of the network to it: no acknowledged write is lost, none appears twice, and
//! the server recovers without help.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use tonic_types::StatusExt;

use crate::load::{insist, reported};
use crate::redis::Redis;
use crate::server::{Server, eventually, get, mk_report, reason, refused};

fn over(redis: &Redis) -> Server {
    Server::start(&["--store", &redis.url()])
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_and_scripts_vanish_under_load_and_each_report_is_there_once() {
    let Some(redis) = Redis::start(&[]) else { return };
    let servers = Arc::new([over(&redis), over(&redis)]);
    let (writers, reports) = (6, 60);
    let acknowledged = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..writers)
        .map(|w| {
            let (servers, acknowledged) = (servers.clone(), acknowledged.clone());
            tokio::spawn(async move {
                for n in 0..reports {
                    let level = if n % 2 == 0 { Level::Active } else { Level::Waiting };
                    let (unit, message) = (format!("web/{w}"), format!("{w}.{n}"));
                    // Two applications, each written through both servers.
                    let report = mk_report(&format!("app{}", w % 2), &unit, level, &message);
                    insist(&servers[w / 2 % 2], report).await;
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let total = (writers * reports) as u64;
    for (faults, before) in (0..total).step_by(20).enumerate() {
        eventually("more acknowledged reports", async || {
            (before <= acknowledged.load(Ordering::Relaxed)).then_some(())
        })
        .await;
        match faults % 3 {
            0 => redis.cli(&["script", "flush"]),
            1 => redis.cli(&["client", "kill", "type", "normal"]),
            // Both: the new connection has no script loaded.
            _ => {
                redis.cli(&["script", "flush"]);
                redis.cli(&["client", "kill", "type", "normal"])
            }
        };
    }
    for task in tasks {
        task.await.unwrap();
    }
    for server in servers.iter() {
        for app in 0..2 {
            let counts = reported(server, &format!("app{app}")).await;
            let expected: BTreeMap<String, usize> = (0..writers)
                .filter(|w| w % 2 == app)
                .flat_map(|w| (0..reports).map(move |n| (format!("{w}.{n}"), 1)))
                .collect();
            assert_eq!(counts, expected, "none is lost, none is there twice");
        }
    }
}

async fn application(server: &Server, min_revision: u64) -> v1::Application {
    let request = v1::GetApplicationRequest { min_revision, ..get("web") };
    let got = server.applications().await.get_application(request).await.unwrap();
    got.into_inner().application.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_slept_through_a_decision_overwrites_nothing() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (awake, sleeper) = (over(&redis), Arc::new(over(&redis)));
    let rounds = 8;
    let mut acknowledged = BTreeMap::new();
    let mut note = |message: String, revision: u64| {
        assert!(acknowledged.insert(revision, message).is_none(), "{revision} is given twice");
    };
    for round in 0..rounds {
        // The history contains the changes of the level.
        let level =
            |turn: usize| if turn.is_multiple_of(2) { Level::Active } else { Level::Waiting };
        let first = format!("first {round}");
        let report = mk_report("web", "web/0", Level::Active, &first);
        let before = insist(&sleeper, report).await.revision;
        note(first, before);
        // Some reports are in flight when the process stops, and arrive late.
        let late = format!("late {round}");
        let report = mk_report("web", "web/1", level(round / 2), &late);
        let server = sleeper.clone();
        let on_its_way = (round % 2 == 1)
            .then(|| tokio::spawn(async move { insist(&server, report).await.revision }));
        sleeper.signal("STOP");
        let decided = format!("decided {round}");
        let report = mk_report("web", "web/0", Level::Blocked, &decided);
        let between = insist(&awake, report).await.revision;
        assert!(before < between);
        note(decided, between);
        sleeper.signal("CONT");
        let woken = format!("woken {round}");
        let report = mk_report("web", "web/2", level(round), &woken);
        let after = insist(&sleeper, report).await.revision;
        assert!(between < after, "{between} was decided while it slept, and it gave {after}");
        if let Some(on_its_way) = on_its_way {
            let revision = on_its_way.await.unwrap();
            // One commit may contain both reports as one change.
            if revision != after {
                note(late, revision);
            }
        }
        note(woken, after);
        let seen = application(&sleeper, after).await;
        assert_eq!(seen.status.as_ref().unwrap().level(), Level::Blocked, "as it was decided");
        assert_eq!(seen, application(&awake, seen.revision).await);
    }
    let counts = reported(&sleeper, "web").await;
    for message in acknowledged.values() {
        assert_eq!(counts.get(message), Some(&1), "{message}");
    }
    assert_eq!(counts.values().sum::<usize>(), rounds * 3 + rounds / 2);
    assert_eq!(counts, reported(&awake, "web").await);
}

/// Makes Redis refuse writes and accept them again: reads work, reports are refused with the
/// reason, and the stored data stay the same.
async fn without_writes(redis: &Redis, take: &[&str], give_back: &[&str]) {
    let server = over(redis);
    let report = mk_report("web", "web/0", Level::Active, "before");
    let revision = insist(&server, report).await.revision;
    let before = application(&server, revision).await;
    assert_eq!(redis.cli(take), "OK");
    let mut reports = server.reports().await;
    let refused = eventually("a refusal", async || {
        let report = mk_report("web", "web/0", Level::Blocked, "during");
        reports.report_status(report).await.err()
    })
    .await;
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    assert!(refused.get_error_details().retry_info().is_some(), "{refused:?}");
    // New applications are refused too, although there is nothing to read first.
    let refused = reports.report_status(mk_report("new", "new/0", Level::Active, "")).await;
    assert_eq!(reason(&refused.unwrap_err()), "STORE_UNAVAILABLE");
    assert_eq!(application(&server, 0).await, before);
    let list = v1::ListApplicationsRequest::default();
    let listed = server.applications().await.list_applications(list).await.unwrap().into_inner();
    assert_eq!(listed.applications, slice::from_ref(&before));
    assert_eq!(redis.cli(give_back), "OK");
    let after = insist(&server, mk_report("web", "web/1", Level::Active, "after")).await;
    let seen = application(&server, after.revision).await;
    assert_eq!((seen.unit_count, seen.status.unwrap().level()), (2, Level::Active));
    let expected = [("after".to_string(), 1), ("before".to_string(), 1)];
    assert_eq!(
        reported(&server, "web").await,
        BTreeMap::from(expected),
        "nothing was refused half"
    );
    // A server that starts now has the same data.
    assert_eq!(application(&over(redis), 0).await.revision, seen.revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_reports_are_refused_reads_go_on_and_it_recovers() {
    let Some(redis) = Redis::start(&["--maxmemory-policy", "noeviction"]) else { return };
    let memory = |max| ["config", "set", "maxmemory", max];
    without_writes(&redis, &memory("1mb"), &memory("0")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_becomes_a_replica_is_left_and_found_again() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (take, give_back) = (["replicaof", "127.0.0.1", "1"], ["replicaof", "no", "one"]);
    without_writes(&redis, &take, &give_back).await;
}

#[test]
fn a_wrong_password_is_refused_at_the_start() {
    let Some(redis) = Redis::start(&[]) else { return };
    assert_eq!(redis.cli(&["config", "set", "requirepass", "right"]), "OK");
    let place = redis.url();
    let of = |password: &str| place.replace("://", &format!("://:{password}@"));
    for url in [place.clone(), of("wrong")] {
        let (code, said) = refused(&["--store", &url]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("does not accept the user and password of --store"), "{said}");
        assert!(!said.contains("panicked") && !said.contains("wrong@"), "{said}");
    }
    drop(Server::start(&["--store", &of("right")]));
}

#[test]
fn the_keys_of_other_programs_are_left_alone() {
    let Some(redis) = Redis::start(&[]) else { return };
    for (make, look, kept) in [
        (vec!["set", "bw:meta", "x"], vec!["get", "bw:meta"], "x"),
        (vec!["hset", "bw:meta", "theirs", "x"], vec!["hvals", "bw:meta"], "x"),
    ] {
        redis.cli(&["flushall"]);
        redis.cli(&make);
        let (code, said) = refused(&["--store", &redis.url()]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("key bw:meta in Redis is not a key of bellwether"), "{said}");
        assert!(said.contains("of its own"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        assert_eq!((redis.cli(&look).as_str(), redis.cli(&["dbsize"]).as_str()), (kept, "1"));
    }
}
