//! Several processes over one Redis.

use crate::domain::name::UnitName;
use crate::store::CommitError;

use super::super::testing::Proxy;
use super::*;

/// Adds `count` statuses to one application from each of several stores. Returns the number of
/// conflicts.
async fn write_from_each(stores: &[Arc<dyn Store>], count: usize) -> usize {
    let writers = stores.iter().enumerate().map(|(n, store)| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut conflicts = 0;
            for i in 0..count {
                loop {
                    let mut driver = Driver::new(&store, "web").await;
                    let report = driver.draft(mk_report(&format!("u/{n}"), &"x".repeat(i)));
                    match driver.commit(report).await {
                        Ok(()) => break,
                        Err(CommitError::Conflict { .. }) => conflicts += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            conflicts
        })
    });
    let mut conflicts = 0;
    for writer in writers.collect::<Vec<_>>() {
        conflicts += writer.await.unwrap();
    }
    conflicts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_on_two_replicas_lose_nothing() {
    const COUNT: usize = 40;
    let Some(server) = RedisServer::start().await else { return };
    let stores = [open(&server.url()).await, open(&server.url()).await];
    let diaries = [Diary::on(&stores[0]), Diary::on(&stores[1])];
    let conflicts = write_from_each(&stores, COUNT).await;
    assert!(0 < conflicts, "they did not meet");
    let end = Driver::new(&stores[0], "web").await;
    assert_eq!(end.revision().0, 2 * COUNT as u64);
    for n in 0..2 {
        let unit = UnitName::new(&format!("u/{n}")).unwrap();
        let (_, status) = end.state.statuses_of(&unit, None).next().unwrap();
        assert_eq!(status.report.message.len(), COUNT - 1);
    }
    until("both know the last", async || {
        diaries.iter().all(|diary| diary.last("web") == Some((80, false)))
    })
    .await;
    // Both receive the same changes in the same order, each with its transition.
    let changes = diaries.map(|diary| diary.pages().changes);
    for (one, other) in changes[0].iter().zip(&changes[1]) {
        assert_eq!((one.position, &one.head), (other.position, &other.head));
        assert_eq!(one.transition, other.transition);
        let transition = one.transition.as_ref().unwrap();
        assert_eq!(transition.base.next(), one.head.revision);
    }
    let revisions: Vec<u64> = changes[0].iter().map(|c| c.head.revision.0).collect();
    assert_eq!(revisions, (1..=80).collect::<Vec<_>>());
    let numbers = end.events().await.into_iter().map(|e| e.number).rev();
    assert!(numbers.eq(0..end.state.head().next_event));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_else_reads_is_not_put_into_the_log() {
    let Some(server) = RedisServer::start().await else { return };
    let one = open(&server.url()).await;
    let diary = Diary::on(&one);
    let is_in_log = async |bucket: Bucket| {
        let log = format!("bw:{}:log", Tag(bucket));
        let last: Value = server.call(&["XREVRANGE", &log, "+", "-", "COUNT", "1"]).await.unwrap();
        format!("{last:?}").contains("bulk-string('\"t\"')")
    };
    let write = async |words: &str| {
        insist(&one, "web", words).await;
        let change = diary.pages().changes.last().cloned().unwrap();
        assert!(change.transition.is_some(), "its own it knows in any case");
        is_in_log(change.bucket).await
    };
    assert!(write("whoever may be there").await);
    one.beat().await.unwrap();
    assert!(!write("nobody else is there").await);
    // A new process is known before its first heartbeat.
    let other = open(&server.url()).await;
    let others = Diary::on(&other);
    assert!(write("the other is there").await);
    until("the other is told", async || others.last("web") == Some((3, false))).await;
    assert!(others.pages().changes.last().unwrap().transition.is_some());
    one.beat().await.unwrap();
    assert!(write("the other is there still").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_joins_on_a_cluster_is_written_for() {
    let Some(cluster) = Cluster::start().await else { return };
    let one = open(&cluster.url()).await;
    one.beat().await.unwrap();
    insist(&one, "web", "nobody else is there").await;
    let other = open(&cluster.url()).await;
    let others = Diary::on(&other);
    insist(&one, "web", "the other is there").await;
    until("the other is told", async || others.last("web") == Some((2, false))).await;
    assert!(others.pages().changes.last().unwrap().transition.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_may_be_flushed_at_any_time() {
    let Some(server) = RedisServer::start().await else { return };
    let store = open(&server.url()).await;
    let diary = Diary::on(&store);
    for n in 0..10 {
        server.call::<()>(&["SCRIPT", "FLUSH"]).await.unwrap();
        let commits = (0..5).map(|app| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut driver = Driver::new(&store, &format!("app-{app}")).await;
                driver.report("u/0", &"x".repeat(n)).await;
            })
        });
        for commit in commits.collect::<Vec<_>>() {
            commit.await.unwrap();
        }
    }
    assert_eq!(diary.pages().changes.len(), 50);
    assert!(diary.is_in_order());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_that_kept_everything_is_no_loss() {
    let arguments = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut server) = RedisServer::start_with(&arguments).await else { return };
    let store = open(&server.url()).await;
    let diary = Diary::on(&store);
    insist(&store, "web", "before").await;
    server.restart().await;
    insist(&store, "web", "after").await;
    assert_eq!(diary.last("web"), Some((2, false)));
    assert_eq!(diary.pages().changes.len(), 2);
    assert_eq!(diary.pages().doubts, []);
    assert_eq!(store.epoch().losses, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_away_while_the_log_was_trimmed_reads_the_heads() {
    let Some(server) = RedisServer::start().await else { return };
    let proxy = Proxy::to(&server.address()).await;
    let (near, far) = (open(&server.url()).await, open(&proxy.url()).await);
    let diary = Diary::on(&far);
    insist(&near, "web", "first").await;
    until("the far one knows", async || diary.last("web").is_some()).await;
    proxy.cut();
    for n in 0..10 {
        insist(&near, "web", &"x".repeat(n)).await;
        insist(&near, "other", &"x".repeat(n)).await;
    }
    let mut gone = insist(&near, "gone", "soon").await;
    gone.delete().await;
    for bucket in 0..4 {
        let log = format!("bw:{{b{bucket:02}}}:log");
        server.call::<()>(&["XTRIM", &log, "MAXLEN", "0"]).await.unwrap();
    }
    proxy.heal();
    until("the far one knows all", async || {
        diary.last("web") == Some((11, false))
            && diary.last("other") == Some((10, false))
            && diary.last("gone") == Some((2, true))
    })
    .await;
    assert!(diary.is_in_order());
    assert_eq!(diary.pages().doubts, []);
    assert_eq!(far.epoch(), near.epoch());
    // Both accept commits.
    insist(&far, "web", "again").await;
    assert_eq!(diary.last("web"), Some((12, false)));
}
