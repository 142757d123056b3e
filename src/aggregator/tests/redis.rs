//! Several aggregators on a real Redis, each with its own connection.

use super::replicas::summary;
use super::*;
use crate::store::redis::link::{Target, TlsFiles};
use crate::store::redis::testing::RedisServer;
use crate::store::redis::{Options as RedisOptions, RedisStore};

async fn open(server: &RedisServer) -> Arc<FaultyStore> {
    let target = Target::parse(&server.url(), TlsFiles::default()).unwrap();
    FaultyStore::over(RedisStore::open(target, RedisOptions::default()).await.unwrap())
}

/// A request without a change is not broadcast, and still the other replica does not repeat it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_answered_by_another_replica_as_by_the_first() {
    let Some(server) = RedisServer::start().await else { return };
    let stores = [open(&server).await, open(&server).await];
    let [one, other] = stores.map(|store| start(store));
    let (app, id) = (mk_app("web"), Some("once".into()));
    let report = |level| mk_report("web/0", level, "", None);
    let made = one.apply(&app, report(Level::Active)).await.unwrap();
    summary(&other, &app, made.revision).await;
    let request = Request { id: id.clone(), ..report(Level::Active) };
    let answer = one.apply(&app, request.clone()).await.unwrap();
    assert!(!answer.changed);
    // The other replica has received a newer report, which the late duplicate must not undo.
    let newer = other.apply(&app, report(Level::Blocked)).await.unwrap();
    assert_eq!(other.apply(&app, request.clone()).await, Ok(answer));
    assert_eq!(summary(&other, &app, newer.revision).await.level, Level::Blocked);
    assert_eq!(one.apply(&app, request.clone()).await, Ok(answer));

    // The duplicate must not create the application again after a deletion by a replica without the
    // answer.
    let second = Request { id: Some("twice".into()), ..report(Level::Blocked) };
    let answer = one.apply(&app, second.clone()).await.unwrap();
    assert!(!answer.changed);
    other.delete(&app, None).await.unwrap();
    for replica in [&other, &one] {
        assert_eq!(replica.apply(&app, second.clone()).await, Ok(answer));
        assert!(replica.read(&app, Revision(0), |_| ()).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_conflict_costs_the_round_trip_that_found_it_and_no_other() {
    const REPORTS: usize = 200;
    let Some(server) = RedisServer::start().await else { return };
    let stores = [open(&server).await, open(&server).await];
    let replicas = stores.clone().map(|store| start(store));
    let app = mk_app("web");
    let reporters = (0..4).map(|n| {
        let (aggregator, app) = (replicas[n % 2].clone(), app.clone());
        tokio::spawn(async move {
            for count in 0..REPORTS {
                let report =
                    mk_report(&format!("web/{n}"), Level::Active, &format!("{n} x{count}"), None);
                while aggregator.apply(&app, report.clone()).await.is_err() {}
            }
        })
    });
    for reporter in reporters.collect::<Vec<_>>() {
        reporter.await.unwrap();
    }
    let sum = |of: fn(&FaultyStore) -> usize| stores.iter().map(|store| of(store)).sum::<usize>();
    let (conflicts, loads) = (sum(FaultyStore::conflicts), sum(FaultyStore::loads));
    let commits = sum(FaultyStore::commits);
    println!("{commits} commits, {conflicts} conflicts, {loads} loads");
    assert!(50 < conflicts, "they did not meet: {conflicts} conflicts");
    // The first read of each replica finds no application yet.
    assert!(loads <= 2 + conflicts / 20, "{loads} loads after {conflicts} conflicts");
}
