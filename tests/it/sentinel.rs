//! Several servers over a Redis that Sentinels watch: they recover without help after the loss of
//! the master.

use bellwether::proto::v1::Level;

use crate::failover::{Witness, lose_writes};
use crate::load::{Load, agree, check_history};
use crate::server::{Server, eventually};
use crate::testing::sentinel::be_patient;
use crate::testing::{RedisServer, Sentinels};

#[tokio::test(flavor = "multi_thread")]
async fn the_master_dies_under_load_and_nothing_that_was_replicated_is_lost() {
    let Some(mut redis) = Sentinels::start().await else { return };
    let url = redis.url();
    let start = || Server::start(&["--store", &url, "--durability", "replicated:1"]);
    let servers = [start(), start()];
    let witness = Witness::of(&servers[1]).await;
    let load = Load::start(&servers, 5, 10, 60).await;
    load.go_on(150).await;
    let master = redis.master().await;
    let port = redis.servers[master].port;
    redis.servers[master].kill();
    let killed = std::time::Instant::now();
    load.go_on(50).await;
    println!("reports are taken again after {:?}", killed.elapsed());
    redis.servers[master].restart().await;
    let promoted = redis.settle_after(port).await;
    assert_ne!(promoted, master);
    let expected = load.finish(&servers).await;
    check_history(&servers, &expected).await;
    let listed = agree(&servers).await;
    // The watch from before the failover has received the final state.
    for ((_, name), (_, level)) in listed {
        witness.heard_last(&name, Level::try_from(level).ok()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_was_behind_takes_over_and_nothing_is_active_on_what_was_lost() {
    let Some(redis) = Sentinels::start().await else { return };
    let start = || Server::start(&["--store", &redis.url()]);
    let ours = [start(), start()];
    let Sentinels { mut servers, sentinels } = redis;
    lose_writes(&ours, &mut servers, async |redis| {
        redis[0].kill();
        // A Sentinel closes all connections of the server that it promotes, including ours.
        let is_master = async |redis: &RedisServer| {
            let role = redis.call::<String>(&["INFO", "replication"]).await;
            role.is_ok_and(|role| role.contains("role:master"))
        };
        eventually("a replica takes over", async || {
            (is_master(&redis[1]).await || is_master(&redis[2]).await).then_some(())
        })
        .await;
        be_patient(&sentinels).await;
    })
    .await;
}
