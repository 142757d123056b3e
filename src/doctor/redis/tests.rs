//! The doctor on real Sentinels and Clusters. `tests/it/doctor.rs` examines a single server.

use std::time::Duration;

use crate::doctor::{Finding, Level};
use crate::store::Store;
use crate::store::redis::link::{Target, TlsFiles};
use crate::store::redis::testing::{Cluster, Sentinels, until};
use crate::store::redis::{Durability, Layout, Options, RedisStore};

use super::examine;

async fn look(url: &str, durability: Durability) -> Vec<Finding> {
    let target = Target::parse(url, TlsFiles::default()).unwrap();
    examine(&target, durability, &Layout::default(), Duration::from_secs(5)).await
}

/// Returns the level and text of a check.
fn of(findings: &[Finding], check: &str) -> (Level, String) {
    let finding = findings.iter().find(|finding| finding.check == check);
    let finding = finding.unwrap_or_else(|| panic!("no {check} in {findings:#?}"));
    (finding.level, finding.found.clone())
}

#[tokio::test]
async fn sentinels_are_looked_at() {
    let arguments = ["--appendonly", "yes", "--min-replicas-to-write", "1"];
    let Some(mut sentinels) = Sentinels::start_with(&arguments).await else { return };
    let durability = Durability::Replicated { replicas: 1, patience: Duration::from_secs(1) };
    let findings = look(&sentinels.url(), durability).await;
    let worst: Vec<&Finding> = findings.iter().filter(|f| f.level == Level::Error).collect();
    assert!(worst.is_empty(), "{worst:#?}");
    for (check, expected) in [
        ("sentinels", "3 answer, 3 watch the master"),
        ("quorum", "OK 3 usable Sentinels"),
        ("failover-delay", "1000 ms"),
        ("failover-candidates", "2 of 2"),
        ("replicas", "2 online"),
        ("permissions", "may call all needed commands"),
        ("store", "there is no store yet"),
    ] {
        let (level, found) = of(&findings, check);
        assert!(level == Level::Ok && found.contains(expected), "{check}: {level:?} {found}");
    }
    assert_eq!(of(&findings, "replication-backlog").0, Level::Warning);

    // Two of three are gone: the last one cannot promote a master.
    sentinels.sentinels.drain(..2).for_each(drop);
    let url = sentinels.url();
    let mut found = Vec::new();
    until("the quorum is lost", async || {
        found = look(&url, durability).await;
        of(&found, "quorum").0 == Level::Error
    })
    .await;
    assert!(of(&found, "quorum").1.contains("NOQUORUM"), "{found:#?}");
}

#[tokio::test]
async fn each_master_of_a_cluster_is_looked_at() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let findings = look(&cluster.url(), Durability::Acknowledged).await;
    assert_eq!(of(&findings, "cluster-state").0, Level::Ok, "{findings:#?}");
    assert_eq!(of(&findings, "cluster-size"), (Level::Ok, "3 masters with slots".into()));
    assert_eq!(of(&findings, "cluster-coverage").0, Level::Warning);
    assert_eq!(of(&findings, "permissions").0, Level::Ok, "{findings:#?}");
    let replicas = findings.iter().find(|f| f.check == "replicas").unwrap();
    assert_eq!((replicas.level, replicas.servers.len()), (Level::Warning, 3), "{replicas:?}");
    // One of them has the store's keys.
    assert_eq!(findings.iter().filter(|f| f.check == "store").count(), 1);
    let target = Target::parse(&cluster.url(), TlsFiles::default()).unwrap();
    let store = RedisStore::open(target, Options::default()).await.unwrap();
    store.close().await;
    let findings = look(&cluster.url(), Durability::Acknowledged).await;
    assert_eq!(of(&findings, "store").1, "format 1, 256 buckets");

    let gone = cluster.nodes[2].address();
    cluster.nodes[2].kill();
    let url = cluster.url();
    let mut found = Vec::new();
    until("the loss is found", async || {
        found = look(&url, Durability::Acknowledged).await;
        found.iter().any(|f| f.check == "cluster-state" && f.level == Level::Error)
    })
    .await;
    let lost = found.iter().find(|f| f.check == "connection").unwrap();
    assert_eq!((lost.level, &lost.servers), (Level::Error, &vec![gone]));
}
