//! The start of a server with ten thousand stored applications.

use std::time::Instant;

use bellwether::proto::v1::Level;

use crate::load::{agree, check_digests, insist_on};
use crate::server::{Server, mk_report};
use crate::testing::RedisServer;

/// Returns the number of applications. The variable `APPLICATIONS` lowers it for a slow machine.
fn applications() -> usize {
    std::env::var("APPLICATIONS").map_or(10_000, |count| count.parse().unwrap())
}

/// Connections that fill the store, and reports in flight on each.
const CONNECTIONS: usize = 4;
const CONCURRENCY: usize = 32;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_knows_ten_thousand_applications() {
    let Some(redis) = RedisServer::start().await else { return };
    let first = Server::start(&["--store", &redis.url()]);
    let start = Instant::now();
    let mut writers = Vec::new();
    for c in 0..CONNECTIONS {
        let client = first.reports().await;
        for w in 0..CONCURRENCY {
            let mut client = client.clone();
            writers.push(tokio::spawn(async move {
                for n in (c * CONCURRENCY + w..applications()).step_by(CONNECTIONS * CONCURRENCY) {
                    let report = mk_report(&format!("app{n}"), "u/0", Level::Active, "up");
                    insist_on(&mut client, report).await;
                }
            }));
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    println!("{} applications reported in {:?}", applications(), start.elapsed());
    let start = Instant::now();
    let second = Server::start(&["--store", &redis.url()]);
    let listed = crate::load::list(&second).await;
    println!("started and listed in {:?}", start.elapsed());
    assert_eq!(listed.len(), applications());
    let servers = [first, second];
    assert_eq!(agree(&servers).await, listed);
    check_digests(&servers, &listed).await;
}
