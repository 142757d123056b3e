//! Two Bellwethers in one Redis: each has a prefix and buckets of its own, and reads nothing of the
//! other.

use std::collections::BTreeSet;
use std::process::Command;

use bellwether::proto::v1::Level;

use crate::load::{agree, insist, list};
use crate::server::{BINARY, Server, mk_report, refused};
use crate::testing::{Cluster, RedisServer};

/// Returns all keys of a server up to the first colon.
async fn prefixes(server: &RedisServer) -> BTreeSet<String> {
    let keys: Vec<String> = server.call(&["KEYS", "*"]).await.unwrap();
    keys.iter().map(|key| key.split(':').next().unwrap().to_string()).collect()
}

/// Starts two servers of each store, lets each write the same application, and checks that each
/// store has its own.
async fn check_apart(url: &str, flags: [&[&str]; 2]) {
    let start = |flags: &[&str]| Server::start(&[&["--store", url], flags].concat());
    let stores = flags.map(|flags| [start(flags), start(flags)]);
    for (number, servers) in stores.iter().enumerate() {
        for (at, server) in servers.iter().enumerate() {
            let unit = format!("web/{at}");
            let report = mk_report("web", &unit, Level::Active, &number.to_string());
            insist(server, report).await;
        }
        insist(&servers[0], mk_report(&format!("only-{number}"), "a/0", Level::Active, "x")).await;
    }
    for (number, servers) in stores.iter().enumerate() {
        let listed = agree(servers).await;
        let names: Vec<_> = listed.keys().map(|(_, name)| name.clone()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.iter().any(|name| *name == format!("only-{number}")), "{names:?}");
        assert_eq!(list(&servers[1]).await, listed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_share_a_cluster() {
    let Some(cluster) = Cluster::start().await else { return };
    let first: &[&str] = &["--store-prefix", "first"];
    check_apart(&cluster.url(), [first, &["--store-prefix", "second.2", "--store-buckets", "8"]])
        .await;
    let mut found = BTreeSet::new();
    let mut buckets = BTreeSet::new();
    for node in &cluster.nodes {
        found.extend(prefixes(node).await);
        for meta in ["first:meta", "second.2:meta"] {
            if let Ok(Some(number)) = node.call::<Option<String>>(&["HGET", meta, "buckets"]).await
            {
                buckets.insert(format!("{meta} {number}"));
            }
        }
    }
    assert_eq!(found, BTreeSet::from(["first", "second.2"].map(String::from)));
    let expected = ["first:meta 256", "second.2:meta 8"].map(String::from);
    assert_eq!(buckets, BTreeSet::from(expected), "a new store of a Cluster has 256");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_share_a_redis_and_each_keeps_its_buckets() {
    let Some(redis) = RedisServer::start().await else { return };
    let second = ["--store-prefix", "second", "--store-buckets", "8"];
    check_apart(&redis.url(), [&[], &second]).await;
    assert_eq!(prefixes(&redis).await, BTreeSet::from(["bw", "second"].map(String::from)));
    let url = redis.url();
    let stored = async |meta: &str| {
        redis.call::<String>(&["HGET", meta, "buckets"]).await.unwrap().parse::<u16>().unwrap()
    };
    assert_eq!((stored("bw:meta").await, stored("second:meta").await), (64, 8));
    // Without the flag the number is that of the store, with another one the start is refused.
    drop(Server::start(&["--store", &url, "--store-prefix", "second"]));
    for (flags, held, asked) in
        [(["--store-buckets", "16"].as_slice(), 64, 16), (&[&second[..3], &["9"]].concat(), 8, 9)]
    {
        let (code, text) = refused(&[&["--store", &url], flags].concat());
        assert_eq!(code, Some(1), "{text}");
        let expected = format!("has {held} buckets, and --store-buckets is {asked}");
        assert!(text.contains(&expected), "{text}");
        assert!(text.contains(&format!("give {held} or leave the flag out")), "{text}");
    }
}

#[test]
fn the_configuration_shows_the_prefix_and_the_buckets() {
    let print = |flags: &[&str]| {
        let store = ["config", "print", "--store", "redis://127.0.0.1:1"];
        let output = Command::new(BINARY).args(store).args(flags).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let given = print(&["--store-prefix", "eu-1", "--store-buckets", "128"]);
    assert!(given.contains("store_prefix = \"eu-1\""), "{given}");
    assert!(given.contains("store_buckets = 128 "), "a number, as the file has it: {given}");
    let default = print(&[]);
    assert!(default.contains("store_prefix = \"bw\""), "{default}");
    assert!(default.contains("# store_buckets is not set"), "{default}");
}
