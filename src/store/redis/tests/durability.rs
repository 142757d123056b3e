//! The durability levels that a commit waits for.

use redis::streams::StreamRangeReply;
use tokio::time::Instant;

use super::*;

const PATIENCE: Duration = Duration::from_millis(300);

async fn commit_with(url: &str, durability: Durability) -> Result<(), CommitError> {
    let options = Options { durability, ..mk_options() };
    let store: Arc<dyn Store> = Arc::new(try_open(url, options).await.unwrap());
    let mut driver = Driver::new(&store, "web").await;
    // A new message each time: a repeat is not written, and nothing waits for it.
    let message = driver.revision().to_string();
    driver.commit(driver.draft(mk_report("u/0", &message))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_waited_for() {
    let Some(master) = RedisServer::start().await else { return };
    let replicas = |replicas| Durability::Replicated { replicas, patience: PATIENCE };
    let refused = commit_with(&master.url(), replicas(1)).await;
    let Err(CommitError::Unavailable { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("0 of 1 replicas have it"), "{reason}");
    let port = master.port.to_string();
    let Some(replica) = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await else {
        return;
    };
    until("it replicates", async || replica.info("master_link_status").await == "up").await;
    // A busy disk may keep the replica from confirming a commit in time.
    until("it has a commit", async || commit_with(&master.url(), replicas(1)).await.is_ok()).await;
    assert!(commit_with(&master.url(), replicas(2)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_are_waited_for_where_the_server_can() {
    let Some(server) = RedisServer::start_with(&["--appendonly", "yes"]).await else { return };
    let synced = Durability::Synced { replicas: 0, patience: PATIENCE };
    let committed = commit_with(&server.url(), synced).await;
    let knows = server.call::<Vec<u64>>(&["WAITAOF", "0", "0", "1"]).await.is_ok();
    match committed {
        Err(CommitError::Unavailable { reason, .. }) if !knows => {
            assert!(reason.contains("synced needs Redis or Valkey 7.2"), "{reason}");
        }
        committed => assert_eq!((committed, knows), (Ok(()), true)),
    }
}

/// A replica reports once a second what is on its disk, even if it syncs each write.
const SYNCED_PATIENCE: Duration = Duration::from_secs(3);

fn synced(replicas: u32) -> Durability {
    Durability::Synced { replicas, patience: SYNCED_PATIENCE }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_of_replicas_are_waited_for() {
    let on_disk = ["--appendonly", "yes"];
    let Some(master) = RedisServer::start_valkey(&on_disk).await else { return };
    let refused = async |durability| match commit_with(&master.url(), durability).await {
        Err(CommitError::Unavailable { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let reason = refused(synced(1)).await;
    assert!(reason.contains("0 of 1 replicas have it on disk"), "{reason}");
    let port = master.port.to_string();
    let arguments = [&on_disk[..], &["--replicaof", "127.0.0.1", &port]].concat();
    let Some(replica) = RedisServer::start_valkey(&arguments).await else { return };
    until("it replicates", async || replica.info("master_link_status").await == "up").await;
    until("its log is whole", async || commit_with(&master.url(), synced(1)).await.is_ok()).await;
    assert_eq!(commit_with(&master.url(), synced(0)).await, Ok(()));

    replica.stop();
    let asked = Instant::now();
    let reason = refused(synced(1)).await;
    assert!(reason.contains("0 of 1 replicas have it on disk"), "{reason}");
    let waited = asked.elapsed();
    assert!(SYNCED_PATIENCE <= waited, "refused after {waited:?}");
    assert_eq!(commit_with(&master.url(), synced(0)).await, Ok(()));
    replica.cont();
    until("it is back", async || commit_with(&master.url(), synced(1)).await.is_ok()).await;

    master.call::<()>(&["CONFIG", "SET", "appendonly", "no"]).await.unwrap();
    for durability in [synced(0), synced(1)] {
        let reason = refused(durability).await;
        assert!(reason.contains("set `appendonly yes`"), "{reason}");
    }
    // A commit that was refused for its durability is stored.
    let store = open(&master.url()).await;
    assert_eq!(Driver::new(&store, "web").await.revision().0, commits_of(&master).await);
}

/// With `everysec` a wait takes about a second. Several are under way at once, so that no commit
/// waits for the disk more often than for its predecessor and for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_of_commits_under_way_do_not_add_up() {
    let on_disk = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let Some(master) = RedisServer::start_valkey(&on_disk).await else { return };
    let port = master.port.to_string();
    let arguments = [&on_disk[..], &["--replicaof", "127.0.0.1", &port]].concat();
    let Some(replica) = RedisServer::start_valkey(&arguments).await else { return };
    until("it replicates", async || replica.info("master_link_status").await == "up").await;
    until("its log is whole", async || commit_with(&master.url(), synced(1)).await.is_ok()).await;

    let options = Options { durability: synced(1), ..mk_options() };
    let store: Arc<dyn Store> = Arc::new(try_open(&master.url(), options).await.unwrap());
    let commits = (0..16).map(|app| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut driver = Driver::new(&store, &format!("web-{app}")).await;
            for message in ["1", "2", "3"] {
                driver.commit(driver.draft(mk_report("u/0", message))).await?;
            }
            Ok::<(), CommitError>(())
        })
    });
    for commit in commits.collect::<Vec<_>>() {
        assert_eq!(commit.await.unwrap(), Ok(()));
    }
}

/// Returns the number of changes in the logs of all buckets.
async fn commits_of(server: &RedisServer) -> u64 {
    let mut count = 0;
    for bucket in 0..BUCKETS {
        let log = format!("bw:{{b{bucket:02}}}:log");
        let entries: StreamRangeReply = server.call(&["XRANGE", &log, "-", "+"]).await.unwrap();
        count += entries.ids.iter().filter(|entry| entry.contains_key("a")).count() as u64;
    }
    count
}

/// As in a failover by Sentinel, until the former master learns of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_leave_a_former_master_that_can_be_reached() {
    let Some(former) = RedisServer::start().await else { return };
    let port = former.port.to_string();
    let Some(next) = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await else {
        return;
    };
    let proxy = Proxy::to(&former.address()).await;
    let durability = Durability::Replicated { replicas: 0, patience: PATIENCE };
    let store = try_open(&proxy.url(), Options { durability, ..mk_options() }).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    insist(&store, "web", "before").await;
    let replicated = async || {
        let offsets = async |server: &RedisServer| server.info("master_repl_offset").await;
        next.info("master_link_status").await == "up"
            && offsets(&former).await == offsets(&next).await
    };
    until("the next master has it", replicated).await;
    next.call::<()>(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    proxy.lead_to(&next.address());
    // All connections but that of the commits, as the link leaves a master that Sentinels replaced.
    let clients: String = former.call(&["CLIENT", "LIST"]).await.unwrap();
    for client in clients.lines().filter(|client| !client.contains(" cmd=wait ")) {
        let id = client.split([' ', '=']).nth(1).unwrap();
        // The connection that has asked is gone already.
        let _ = former.call::<i64>(&["CLIENT", "KILL", "ID", id]).await;
    }
    insist(&store, "web", "after").await;
    let direct = open(&next.url()).await;
    assert_eq!(Driver::new(&direct, "web").await.revision(), Revision(2));
}

/// A script that runs longer than `lua-time-limit` makes Redis answer BUSY.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_outlasts_a_busy_server() {
    let Some(server) = RedisServer::start_with(&["--lua-time-limit", "1"]).await else { return };
    let store = open(&server.url()).await;
    let web = insist(&store, "web", "up").await;
    let refused = async || {
        let stats: String = server.call(&["INFO", "commandstats"]).await.unwrap();
        let scripts = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
        !scripts.contains("rejected_calls=0")
    };
    until("a confirmation was refused", async || {
        let mut connection = server.connection().await;
        let busy = tokio::spawn(async move {
            redis::cmd("EVAL")
                .arg("while true do end")
                .arg(0)
                .query_async::<()>(&mut connection)
                .await
        });
        until("a call is refused", async || server.call::<()>(&["PING"]).await.is_err()).await;
        let kill = async || server.call::<()>(&["SCRIPT", "KILL"]).await.unwrap();
        let (confirmed, ()) = tokio::join!(web.confirm(), kill());
        assert_eq!(confirmed, Ok(()));
        busy.await.unwrap().unwrap_err();
        refused().await
    })
    .await;
}
