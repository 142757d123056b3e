//! Gets, lists, counts, and waiting for a revision.

use std::collections::BTreeSet;
use std::future::Future;

use super::*;
use crate::telemetry::FleetCounts;
use crate::watch::{Entry, WaitError};

fn names(entries: &[Arc<Entry>]) -> String {
    let names: Vec<String> = entries.iter().map(|e| e.app.to_string()).collect();
    names.join(" ")
}

#[tokio::test(start_paused = true)]
async fn lists_are_by_name_and_skip_what_is_deleted() {
    let mut feed = Feed::new();
    for app in ["b/web", "a/0", "a/zz", "a-b/x", "b/db", "a/Mid"] {
        feed.set(app, Level::Active);
    }
    feed.set("a/zz", Level::Blocked);
    feed.delete("b/db");
    let list = |namespace, after: Option<&str>, levels: &[Level], count_max| {
        let levels: BTreeSet<Level> = levels.iter().copied().collect();
        let after = after.map(mk_app);
        let found = feed.hub.list(namespace, after.as_ref(), &levels, count_max);
        names(&found)
    };
    assert_eq!(list(None, None, &[], 9), "a/0 a/Mid a/zz a-b/x b/web");
    assert_eq!(list(None, None, &[], 2), "a/0 a/Mid");
    assert_eq!(list(None, Some("a/Mid"), &[], 9), "a/zz a-b/x b/web");
    assert_eq!(list(None, None, &[], 0), "");
    assert_eq!(list(Some("a"), None, &[], 9), "a/0 a/Mid a/zz");
    assert_eq!(list(Some("a"), Some("a/0"), &[], 1), "a/Mid");
    assert_eq!(list(Some("b"), Some("a/0"), &[], 9), "b/web");
    assert_eq!(list(Some("a"), Some("b/web"), &[], 9), "");
    assert_eq!(list(None, None, &[Level::Blocked], 9), "a/zz");
    for namespace in ["c", "not a name", "/"] {
        assert_eq!(list(Some(namespace), None, &[], 9), "");
    }
    assert_eq!(feed.hub.application_count(), 5);
    assert!(feed.hub.get(&mk_app("b/db")).is_none());
    assert_eq!(feed.hub.get(&mk_app("a/zz")).unwrap().level(), Level::Blocked);
    assert_eq!(*feed.hub.cursors(), Cursors::from_iter([Position(8)]));
    assert_eq!(feed.hub.epoch(), EPOCH);
}

#[tokio::test(start_paused = true)]
async fn a_list_finds_the_last_of_many() {
    let mut feed = Feed::new();
    for number in 0..3000 {
        feed.set(&format!("app-{number:04}"), Level::Active);
    }
    feed.set("app-2999", Level::Error);
    let found = feed.hub.list(None, None, &[Level::Error].into(), 10);
    assert_eq!(names(&found), "default/app-2999");
}

#[tokio::test(start_paused = true)]
async fn the_fleet_is_counted_by_level() {
    let mut feed = Feed::new();
    let totals = |head: &mut Head, units: u32, lost: u32| {
        head.deleted = false;
        Arc::make_mut(&mut head.summary).totals.units_by_level[Level::Active as usize] = units;
        Arc::make_mut(&mut head.summary).totals.contributions[Level::Waiting as usize] = 2 * units;
        Arc::make_mut(&mut head.summary).totals.lost_units = lost;
    };
    feed.change("web", |head| totals(head, 3, 1));
    feed.change("db", |head| totals(head, 2, 0));
    feed.change("web", |head| totals(head, 5, 2));
    let fleet = feed.hub.fleet();
    assert_eq!(fleet.applications, [2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(fleet.units, [0, 0, 7, 0, 0, 0, 0]);
    assert_eq!(fleet.statuses, [0, 0, 0, 14, 0, 0, 0]);
    assert_eq!(fleet.silent_units, [0, 2, 0]);
    feed.delete("web");
    feed.delete("db");
    feed.forget();
    assert_eq!(feed.hub.fleet(), FleetCounts::default());
    assert_eq!(feed.hub.application_count(), 0);
    assert!(feed.hub.locked().entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_revision_is_waited_for() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    let waits = [1, 2, 4, 5].map(|revision| {
        let hub = feed.hub.clone();
        tokio::spawn(async move { hub.wait_for(&mk_app("web"), Revision(revision)).await })
    });
    let done = async || {
        tokio::time::sleep(Duration::from_millis(1)).await;
        waits.each_ref().map(|wait| wait.is_finished())
    };
    assert_eq!(done().await, [true, false, false, false]);
    feed.set("db", Level::Active);
    feed.set("web", Level::Blocked);
    assert_eq!(done().await, [true, true, false, false]);
    feed.set("web", Level::Active);
    feed.delete("web");
    assert_eq!(done().await, [true, true, true, false]);
    // An abandoned wait leaves no entry.
    assert!(!feed.hub.locked().waits.is_empty());
    waits[3].abort();
    done().await;
    assert!(feed.hub.locked().waits.is_empty());
}

#[tokio::test]
async fn a_change_wakes_the_readers_whose_revision_it_reaches() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    let polls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let never = Revision(u64::MAX);
    let waits: Vec<_> = (0..100)
        .map(|n| {
            let (hub, polls) = (feed.hub.clone(), polls.clone());
            tokio::spawn(async move {
                let revision = if n == 0 { Revision(3) } else { never };
                let app = mk_app("web");
                let mut wait = std::pin::pin!(hub.wait_for(&app, revision));
                std::future::poll_fn(|context| {
                    polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    wait.as_mut().poll(context)
                })
                .await
            })
        })
        .collect();
    let polled = async || {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        polls.load(std::sync::atomic::Ordering::Relaxed)
    };
    assert_eq!(polled().await, 100);
    feed.set("web", Level::Blocked);
    assert_eq!(polled().await, 100, "nobody waits for the second revision");
    feed.set("web", Level::Active);
    assert_eq!(polled().await, 101);
    assert!(waits[0].is_finished());
    feed.hub.end_waits();
    for wait in waits.into_iter().skip(1) {
        assert_eq!(wait.await.unwrap(), Err(WaitError::Ended));
    }
    assert_eq!(feed.hub.wait_for(&mk_app("web"), never).await, Err(WaitError::Ended));
}

#[tokio::test]
async fn the_waiting_readers_of_an_application_are_bounded() {
    let feed = Feed::with(Limits { waits_max: 1, ..Limits::default() });
    let (hub, app) = (feed.hub.clone(), mk_app("web"));
    let wait = tokio::spawn(async move { hub.wait_for(&app, Revision(1)).await });
    tokio::task::yield_now().await;
    let refused = feed.hub.wait_for(&mk_app("web"), Revision(1)).await;
    assert_eq!(refused, Err(WaitError::TooMany(1)));
    let other = mk_app("db");
    let mut other = std::pin::pin!(feed.hub.wait_for(&other, Revision(1)));
    assert!(futures_util::poll!(other.as_mut()).is_pending(), "another application");
    wait.abort();
}
