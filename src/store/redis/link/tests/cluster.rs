//! Clusters: every tag finds the master of its slot, wherever the slot moves.

use std::collections::BTreeSet;

use crate::store::redis::link::{is_unserved, slot};
use crate::store::redis::testing::Cluster;

use super::*;

fn tags() -> Vec<String> {
    (0..64).map(|bucket| format!("{{b{bucket:02}}}")).collect()
}

#[tokio::test]
async fn every_tag_finds_its_master_through_failover_and_moved_slots() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let links = connect(&cluster.url()).await;
    let mut masters = BTreeSet::new();
    for tag in tags() {
        let replies = links.run(&tag, &set(&format!("{tag}a"), "1")).await.unwrap();
        assert_eq!(replies, [Value::Okay], "{tag}");
        masters.insert(links.master(&tag).borrow().clone().unwrap().address);
    }
    assert_eq!(masters.len(), 3);
    let error = refusal(&cluster.nodes[0].url()).await;
    assert!(error.reason().contains("part of a cluster"), "{error}");

    let slot = slot::slot_of("{moving}");
    let from = links.master("{moving}").borrow().clone().unwrap().address;
    let to = cluster.nodes.iter().position(|node| node.address() != from).unwrap();
    cluster.move_slot(slot, to).await;
    let mut was_unserved = false;
    until("the slot is followed", async || {
        let replies = links.run("{moving}", &set("{moving}a", "1")).await.unwrap();
        was_unserved |= is_unserved(&replies[0]);
        replies == [Value::Okay]
    })
    .await;
    assert!(was_unserved);
    let now = links.master("{moving}").borrow().clone().unwrap().address;
    assert_eq!(now, cluster.nodes[to].address());

    let replica = cluster.add_replica(0).await;
    let old = cluster.nodes[0].address();
    cluster.failover(replica).await;
    for tag in tags() {
        until_served(&links, &tag).await;
        assert_ne!(links.master(&tag).borrow().clone().unwrap().address, old, "{tag}");
    }
    // This time no command makes the replica take over.
    cluster.nodes[replica].kill();
    for tag in tags() {
        until_served(&links, &tag).await;
    }
    cluster.nodes[1].kill();
    until("health says so", async || links.health().is_err()).await;
    let health = links.health().unwrap_err();
    assert!(health.contains(&cluster.nodes[1].address()), "{health}");
    cluster.nodes[1].restart().await;
}
