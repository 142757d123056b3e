//! What a commit waits for.

use super::*;

const PATIENCE: Duration = Duration::from_millis(300);

async fn commit_with(url: &str, durability: Durability) -> Result<(), CommitError> {
    let options = Options { durability, ..mk_options() };
    let store: Arc<dyn Store> = Arc::new(try_open(url, options).await.unwrap());
    let mut driver = Driver::new(&store, "web").await;
    let message = format!("{durability:?}");
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
    assert_eq!(commit_with(&master.url(), replicas(1)).await, Ok(()));
    assert!(commit_with(&master.url(), replicas(2)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_are_waited_for_where_the_server_can() {
    let Some(server) = RedisServer::start_with(&["--appendonly", "yes"]).await else { return };
    let synced = Durability::Synced { replicas: 0, patience: PATIENCE };
    let committed = commit_with(&server.url(), synced).await;
    let knows = server.call::<Vec<u64>>(&["WAITAOF", "0", "0", "1"]).await.is_ok();
    assert_eq!(committed.is_ok(), knows, "{committed:?}");
}
