//! Several servers over a Redis Cluster: one fleet over all masters. The loss of one master affects
//! only the applications on it.

use std::collections::BTreeSet;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;

use crate::load::{Load, agree, check_digests, check_history, check_refusal, insist, list};
use crate::ops::fetch;
use crate::server::{DEADLINE, Server, eventually, get, mk_report};
use crate::testing::{Cluster, RedisServer};
use crate::watch::{Copy, Stream};

/// Enough applications that each of three masters has some.
const APPLICATIONS: usize = 20;

async fn watch(server: &Server) -> Stream {
    let request = v1::WatchApplicationsRequest::default();
    server.applications().await.watch_applications(request).await.unwrap().into_inner()
}

/// Returns the applications on a master.
async fn applications_on(node: &RedisServer) -> BTreeSet<String> {
    let keys: Vec<String> = node.call(&["KEYS", "bw:*:app:default/*"]).await.unwrap();
    keys.iter().map(|key| key.rsplit('/').next().unwrap().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_write_one_fleet_over_all_masters() {
    let Some(cluster) = Cluster::start().await else { return };
    let start = || Server::start(&["--store", &cluster.url()]);
    let servers = [start(), start()];
    // The watch starts before the first write and covers all masters.
    let mut stream = watch(&servers[1]).await;
    let load = Load::start(&servers, APPLICATIONS, 2 * APPLICATIONS, 20).await;
    let expected = load.finish(&servers).await;
    for node in &cluster.nodes {
        assert!(!applications_on(node).await.is_empty(), "every master has a part");
    }
    check_history(&servers, &expected).await;
    let listed = agree(&servers).await;
    assert_eq!(listed.len(), APPLICATIONS);
    check_digests(&servers, &listed).await;
    let mut copy = Copy::default();
    while copy.0 != listed {
        copy.read_to_bookmark(&mut stream).await;
    }
    // Both servers write each application at the same time: some commits conflicted and were
    // decided again.
    let conflicts: u64 = servers.iter().map(conflicts).sum();
    println!("{conflicts} conflicts in {} reports", 2 * APPLICATIONS * 20);
    assert!(0 < conflicts);
    // A server that starts now lists the same applications.
    assert_eq!(list(&start()).await, listed);
}

/// Returns the number of commits that conflicted with those of another server, from the metrics.
fn conflicts(server: &Server) -> u64 {
    let (_, metrics) = fetch(server.ops, "/metrics");
    let name = r#"bellwether_commits_total{result="conflict"} "#;
    let count = metrics.lines().find_map(|line| line.strip_prefix(name));
    count.unwrap_or_else(|| panic!("no conflicts in:\n{metrics}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_master_dies_under_load_the_others_go_on_and_it_heals() {
    let arguments = "--cluster-require-full-coverage no --appendonly yes --appendfsync always";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let Some(mut cluster) = Cluster::start_with(&arguments).await else { return };
    let start = || Server::start(&["--store", &cluster.url()]);
    let servers = [start(), start()];
    let mut stream = watch(&servers[1]).await;
    let before = insist(&servers[0], mk_report("app0", "web/x", Level::Active, "0")).await;
    assert_eq!(before.revision, 1);
    let load = Load::start(&servers, APPLICATIONS, 2 * APPLICATIONS, 20).await;
    load.go_on(200).await;
    let all: Vec<String> = (0..APPLICATIONS).map(|n| format!("app{n}")).collect();
    let victim = 1;
    let away = applications_on(&cluster.nodes[victim]).await;
    cluster.nodes[victim].kill();
    assert!(!away.is_empty() && away.len() < all.len(), "{away:?}");
    for server in &servers {
        for application in &all {
            check_one(server, application, away.contains(application)).await;
        }
    }
    cluster.nodes[victim].restart().await;
    let mut expected = load.finish(&servers).await;
    let after = insist(&servers[1], mk_report("app0", "web/x", Level::Waiting, "1")).await;
    assert!(before.revision < after.revision);
    // The list includes the reports that were sent while the master was down.
    let listed = agree(&servers).await;
    let mut copy = Copy::default();
    while copy.0 != listed {
        copy.read_to_bookmark(&mut stream).await;
    }
    expected.get_mut("app0").unwrap().extend([("0".to_string(), 1), ("1".to_string(), 1)]);
    for application in &all {
        let messages = expected.get_mut(application).unwrap();
        match away.contains(application) {
            // Every report was refused, and none was stored.
            true => assert_eq!(crate::load::reported(&servers[0], application).await, *messages),
            false => drop(messages.insert("meanwhile".to_string(), 1)),
        }
    }
    check_history(&servers, &expected).await;
}

/// Checks the answers of a server about an application while one of the masters is down.
async fn check_one(server: &Server, application: &str, is_away: bool) {
    let report = mk_report(application, "web/meanwhile", Level::Active, "meanwhile");
    if !is_away {
        insist(server, report).await;
        return;
    }
    let mut reports = server.reports().await;
    let answer = tokio::time::timeout(DEADLINE, reports.report_status(report)).await;
    check_refusal(&answer.expect("it is answered").unwrap_err());
    // The server reads from memory, and the answer carries its age.
    eventually("a read that says how old it is", async || {
        let got = server.applications().await.get_application(get(application)).await.unwrap();
        got.metadata().contains_key("bellwether-as-of").then_some(())
    })
    .await;
}
