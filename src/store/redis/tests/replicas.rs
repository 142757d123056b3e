//! Several processes over one Redis.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_without_other_readers_are_left_out_of_the_log() {
    let Some(server) = RedisServer::start().await else { return };
    let one = open(&server.url()).await;
    let recorder = Recorder::on(&one);
    let is_in_log = async |bucket: Bucket| {
        let log = format!("bw:{}:log", Tag(bucket));
        let last: Value = server.call(&["XREVRANGE", &log, "+", "-", "COUNT", "1"]).await.unwrap();
        format!("{last:?}").contains("bulk-string('\"t\"')")
    };
    let write = async |words: &str| {
        insist(&one, "web", words).await;
        let change = recorder.record().changes.last().cloned().unwrap();
        assert!(change.transition.is_some(), "its own it knows in any case");
        is_in_log(change.bucket).await
    };
    assert!(write("whoever may be there").await);
    one.beat().await.unwrap();
    assert!(!write("nobody else is there").await);
    // A new process is known before its first heartbeat.
    let other = open(&server.url()).await;
    let others = Recorder::on(&other);
    assert!(write("the other is there").await);
    until("the other is told", async || others.last("web") == Some((3, false))).await;
    assert!(others.record().changes.last().unwrap().transition.is_some());
    one.beat().await.unwrap();
    assert!(write("the other is there still").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_joins_a_cluster_receives_transitions() {
    let Some(cluster) = Cluster::start().await else { return };
    let one = open(&cluster.url()).await;
    one.beat().await.unwrap();
    insist(&one, "web", "nobody else is there").await;
    let other = open(&cluster.url()).await;
    let others = Recorder::on(&other);
    insist(&one, "web", "the other is there").await;
    until("the other is told", async || others.last("web") == Some((2, false))).await;
    assert!(others.record().changes.last().unwrap().transition.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_may_be_flushed_at_any_time() {
    let Some(server) = RedisServer::start().await else { return };
    let store = open(&server.url()).await;
    let recorder = Recorder::on(&store);
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
    assert_eq!(recorder.record().changes.len(), 50);
    recorder.check_order();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_behind_the_trimmed_log_reads_the_heads() {
    let Some(server) = RedisServer::start().await else { return };
    let proxy = Proxy::to(&server.address()).await;
    let (near, far) = (open(&server.url()).await, open(&proxy.url()).await);
    let recorder = Recorder::on(&far);
    insist(&near, "web", "first").await;
    until("the far one knows", async || recorder.last("web").is_some()).await;
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
        recorder.last("web") == Some((11, false))
            && recorder.last("other") == Some((10, false))
            && recorder.last("gone") == Some((2, true))
    })
    .await;
    recorder.check_order();
    assert_eq!(recorder.record().data_losses, []);
    assert_eq!(far.epoch(), near.epoch());
    // Both accept commits.
    insist(&far, "web", "again").await;
    assert_eq!(recorder.last("web"), Some((12, false)));
}
