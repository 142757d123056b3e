//! Several processes over one Redis.

use crate::store::conformance::driver::mk_app;

use super::*;

fn web() -> AppName {
    mk_app("web")
}

fn bucket_of_web() -> Bucket {
    mk_keys().bucket_of(&web())
}

/// Returns whether the last entry of a log has the transition.
async fn last_has_transition(server: &RedisServer, bucket: Bucket) -> bool {
    let log = format!("bw:{}:log", tag(bucket));
    let last: Value = server.call(&["XREVRANGE", &log, "+", "-", "COUNT", "1"]).await.unwrap();
    format!("{last:?}").contains("bulk-string('\"t\"')")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_without_other_readers_are_left_out_of_the_log() {
    let Some(server) = RedisServer::start().await else { return };
    let one = open(&server.url()).await;
    let recorder = Recorder::on(&one);
    let write = async |words: &str| {
        insist(&one, "web", words).await;
        let change = recorder.record().changes.last().cloned().unwrap();
        assert!(change.transition.is_some(), "its own it knows in any case");
        last_has_transition(&server, change.bucket).await
    };
    assert!(write("before the first heartbeat").await);
    one.beat().await.unwrap();
    assert!(!write("alone").await);
    // A new process is known before its first heartbeat.
    let other = open(&server.url()).await;
    let others = Recorder::on(&other);
    assert!(write("another process has joined").await);
    until("the other has it", async || others.last("web") == Some((3, false))).await;
    assert!(others.record().changes.last().unwrap().transition.is_some());
    one.beat().await.unwrap();
    assert!(!write("the other follows nothing").await);
    other.load(&web()).await.unwrap();
    assert!(write("the other has loaded the application").await);
    assert!(write("and follows it").await);
    until("the other has it", async || others.last("web") == Some((6, false))).await;
    assert!(others.record().changes.last().unwrap().transition.is_some());
    other.release(&web()).await;
    assert!(!write("the other has released it").await);
    insist(&other, "web", "the other writes").await;
    assert!(write("and so follows it").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_packs_the_heads_that_others_write() {
    let Some(server) = RedisServer::start().await else { return };
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    let (own, others) = (Recorder::on(&one), Recorder::on(&other));
    let last = |recorder: &Recorder| recorder.record().changes.last().cloned().unwrap();
    for (revision, words) in [(1, "the first words"), (2, "others")] {
        insist(&one, "web", words).await;
        until("the other has it", async || others.last("web") == Some((revision, false))).await;
    }
    let (written, followed) = (last(&own), last(&others));
    assert!(written.packed.is_none(), "its state shares the head");
    assert_eq!(followed.head, written.head);
    assert_eq!(followed.packed.as_ref().map(|_| followed.kept().head()), Some(written.head));
    let late = [Recorder::on(&other), Recorder::on(&open(&server.url()).await)];
    for found in late.iter().map(|recorder| last(recorder)) {
        assert_eq!((found.head, found.position), (followed.head.clone(), followed.position));
        assert_eq!(found.packed, followed.packed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_has_ended_needs_no_transitions() {
    let Some(server) = RedisServer::start().await else { return };
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    insist(&other, "web", "a mark of the other").await;
    one.beat().await.unwrap();
    let write = async |words: &str| {
        insist(&one, "web", words).await;
        last_has_transition(&server, bucket_of_web()).await
    };
    assert!(write("the other is alive").await);
    // Its last heartbeat is older than any that counts.
    let id = format!("{:016x}", other.replica().0);
    server.call::<()>(&["HSET", "bw:replicas", &id, "1"]).await.unwrap();
    drop(other);
    one.beat().await.unwrap();
    let third = open(&server.url()).await;
    // The notice that the third has joined may arrive after a heartbeat.
    let mut attempts = 0;
    until("no transition is written for the third, which follows nothing", async || {
        attempts += 1;
        one.beat().await.unwrap();
        !write(&format!("attempt {attempts}")).await
    })
    .await;
    drop(third);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_process_removes_its_marks() {
    let Some(server) = RedisServer::start().await else { return };
    let store = open(&server.url()).await;
    store.beat().await.unwrap();
    insist(&store, "web", "alone").await;
    let key = format!("bw:{}:app:{}", tag(bucket_of_web()), web());
    let marks = async || server.call::<Option<String>>(&["HGET", &key, "w"]).await.unwrap();
    assert!(marks().await.is_some());
    store.release(&web()).await;
    assert_eq!(marks().await, None);
}

/// A mark does not create what does not exist, and does not hide a commit that is sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_changes_no_record() {
    let Some(server) = RedisServer::start().await else { return };
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    other.load(&web()).await.unwrap();
    let key = format!("bw:{}:app:{}", tag(bucket_of_web()), web());
    let exists: u64 = server.call(&["EXISTS", &key]).await.unwrap();
    assert_eq!(exists, 0);
    insist(&one, "web", "first").await;
    let before = one.load(&web()).await.unwrap();
    for _ in 0..3 {
        other.load(&web()).await.unwrap();
    }
    let marks: String = server.call(&["HGET", &key, "w"]).await.unwrap();
    let own = format!("{:016x}:f;", other.replica().0);
    assert_eq!(marks.matches(&own).count(), 1, "{marks}");
    assert_eq!(one.load(&web()).await.unwrap(), before);
    one.release(&web()).await;
    other.release(&web()).await;
    let marks: Option<String> = server.call(&["HGET", &key, "w"]).await.unwrap();
    assert_eq!(marks, None);
    insist(&other, "web", "after all marks are gone").await;
    assert_eq!(one.load(&web()).await.unwrap().head.revision, Revision(2));
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_an_observer_shows_in_health() {
    let Some(server) = RedisServer::start().await else { return };
    let (store, other) = (open(&server.url()).await, open(&server.url()).await);
    store.follow(Arc::new(PanickingObserver));
    insist(&other, "web", "a change").await;
    until("health names the panic", async || {
        let health = store.health();
        health.is_err_and(|reason| reason.contains("stopped by a panic: as the test wants"))
    })
    .await;
    other.health().unwrap();
}
