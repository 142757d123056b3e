//! The servers that the tests start work as expected.

use std::path::Path;

use super::{Cluster, RedisServer, Sentinels, until};

#[tokio::test]
async fn a_server_starts_stops_and_starts_again() {
    let Some(mut server) = RedisServer::start().await else { return };
    let first = server.info("run_id").await;
    let pid = server.pid();
    server.stop();
    server.cont();
    server.call::<()>(&["SET", "a", "b"]).await.unwrap();
    server.kill();
    server.restart().await;
    assert_ne!(server.info("run_id").await, first);
    assert_eq!(server.call::<Option<String>>(&["GET", "a"]).await.unwrap(), None);
    drop(server);
    let gone = format!("/proc/{pid}");
    until("it is gone", async || !Path::new(&gone).exists()).await;
}

#[tokio::test]
async fn a_server_with_a_password_is_known_by_its_arguments() {
    let arguments = ["--requirepass", "secret", "--appendonly", "yes"];
    let Some(mut server) = RedisServer::start_with(&arguments).await else { return };
    server.call::<()>(&["SET", "a", "b"]).await.unwrap();
    server.call::<()>(&["SAVE"]).await.unwrap();
    server.restart().await;
    assert_eq!(server.info("redis_mode").await, "standalone");
}

#[tokio::test]
async fn a_replica_takes_over_and_a_slot_moves() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let replica = cluster.add_replica(0).await;
    cluster.failover(replica).await;
    cluster.move_slot(16_000, 1).await;
}

#[tokio::test]
async fn a_replica_takes_over() {
    let Some(sentinels) = Sentinels::start().await else { return };
    assert_eq!(sentinels.master().await, 0);
    assert_ne!(sentinels.failover().await, 0);
}
