//! Sentinels: the link follows the master.

use crate::store::redis::testing::Sentinels;

use super::*;

#[tokio::test]
async fn a_failover_is_followed_whether_the_old_master_lives_or_not() {
    let Some(mut sentinels) = Sentinels::start().await else { return };
    let links = connect(&sentinels.url()).await;
    let first = master(&links).unwrap();
    assert_eq!(first.address, sentinels.servers[0].address());

    let promoted = sentinels.failover().await;
    let address = sentinels.servers[promoted].address();
    until("the link follows", async || {
        master(&links).is_some_and(|master| master.address == address)
    })
    .await;
    until_served(&links, "{b00}").await;
    assert_ne!(master(&links).unwrap().replid, first.replid);

    // Frozen, not killed: its connections stay open.
    let frozen = sentinels.servers[promoted].port;
    sentinels.servers[promoted].stop();
    let settled = sentinels.settle_after(frozen).await;
    let address = sentinels.servers[settled].address();
    until("the link follows", async || {
        master(&links).is_some_and(|master| master.address == address)
    })
    .await;
    until_served(&links, "{b00}").await;
    sentinels.servers[promoted].cont();

    // Without any Sentinel the link keeps its master; the next question fails.
    let before = master(&links).unwrap();
    sentinels.sentinels.clear();
    tokio::time::sleep(options().ping_interval * 2).await;
    assert_eq!(master(&links), Some(before));
    links.health().unwrap();
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_is_refused() {
    let Some(sentinels) = Sentinels::start().await else { return };
    let url = sentinels.url().replace("/flock", "/herd");
    let error = refusal(&url).await;
    assert!(matches!(&error, LinkError::Refused { .. }), "{error}");
    assert!(error.reason().contains("no master \"herd\""), "{error}");

    // The Sentinels do not know this user, and the link still connects to them.
    for server in &sentinels.servers {
        server.call::<()>(&["CONFIG", "SET", "masterauth", "wool"]).await.unwrap();
        server
            .call::<()>(&["ACL", "SETUSER", "flock", "on", ">wool", "~*", "&*", "+@all"])
            .await
            .unwrap();
    }
    let links = connect(&sentinels.url().replace("://", "://flock:wool@")).await;
    until_served(&links, "{b00}").await;
    let direct = connect(&format!("redis://{}", sentinels.servers[0].address())).await;
    until_served(&direct, "{b00}").await;
    let error = refusal(&sentinels.sentinels[0].url()).await;
    assert!(error.reason().contains("is a Sentinel"), "{error}");
}
