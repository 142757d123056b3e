//! The real binary over a real Valkey, which has a feature that the Redis of most distributions
//! lacks: it can wait for disks.

use std::time::Instant;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use tonic_types::StatusExt;

use crate::redis::Redis;
use crate::server::{DEADLINE, Server, eventually, get, mk_report, reason};

fn over(valkey: &Redis, durability: &str) -> Server {
    Server::start(&["--store", &valkey.url(), "--durability", durability])
}

/// Sends a report; returns the message of the refusal if it is refused.
async fn report(server: &Server, message: &str) -> Result<(), String> {
    // The same message again is the same request.
    let report = v1::ReportStatusRequest {
        request_id: message.to_string(),
        ..mk_report("web", "web/0", Level::Active, message)
    };
    match server.reports().await.report_status(report).await {
        Ok(_) => Ok(()),
        Err(refused) => {
            assert_eq!(reason(&refused), "STORE_UNAVAILABLE", "{refused:?}");
            let details = refused.get_error_details();
            assert!(details.retry_info().is_some(), "{refused:?}");
            Err(refused.message().to_string())
        }
    }
}

async fn message(server: &Server) -> Option<String> {
    let got = server.applications().await.get_application(get("web")).await.ok()?;
    Some(got.into_inner().application?.status?.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_a_valkey() {
    let Some(mut valkey) = Redis::start_valkey(&["--appendonly", "yes", "--appendfsync", "always"])
    else {
        return;
    };
    let servers = [over(&valkey, "acknowledged"), over(&valkey, "acknowledged")];
    for (n, server) in servers.iter().enumerate() {
        let said = format!("from {n}");
        report(server, &said).await.unwrap();
        for server in &servers {
            eventually("both say it", async || {
                message(server).await.filter(|found| *found == said)
            })
            .await;
        }
    }
    valkey.kill();
    valkey.restart();
    let mut tries = 0;
    eventually("a report is taken again", async || {
        tries += 1;
        report(&servers[0], &format!("after {tries}")).await.ok()
    })
    .await;
    let said = format!("after {tries}");
    eventually("the other one says it", async || {
        message(&servers[1]).await.filter(|found| *found == said)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_on_disk_before_it_is_acknowledged() {
    let Some(master) = Redis::start_valkey(&["--appendonly", "yes"]) else { return };
    let port = master.port().to_string();
    let replica = ["--appendonly", "yes", "--replicaof", "127.0.0.1", &port];
    let Some(replica) = Redis::start_valkey(&replica) else { return };
    let (alone, both) = (over(&master, "synced:0"), over(&master, "synced:1"));
    let mut tries = 0;
    eventually("the replica has a log", async || {
        tries += 1;
        report(&both, &format!("try {tries}")).await.ok()
    })
    .await;
    report(&alone, "on one disk").await.unwrap();

    replica.signal("STOP");
    let asked = Instant::now();
    let said = report(&both, "on no second disk").await.unwrap_err();
    assert!(said.contains("0 of 1 replicas have it on disk"), "{said}");
    assert!(asked.elapsed() < DEADLINE, "after {:?}", asked.elapsed());
    // The repeated report is stored already, and still on one disk only.
    let said = report(&both, "on no second disk").await.unwrap_err();
    assert!(said.contains("0 of 1 replicas have it on disk"), "{said}");
    // The refused report is stored, and a server that requires less continues.
    assert_eq!(message(&alone).await.as_deref(), Some("on no second disk"));
    report(&alone, "on one disk again").await.unwrap();
    replica.signal("CONT");
    eventually("the replica has it", async || report(&both, "on no second disk").await.ok()).await;

    assert_eq!(master.cli(&["config", "set", "appendonly", "no"]), "OK");
    for server in [&alone, &both] {
        tries += 1;
        let said = report(server, &format!("try {tries}")).await.unwrap_err();
        assert!(said.contains("set `appendonly yes`"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_too_old_to_wait_for_disks_is_named() {
    let Some(redis) = Redis::start(&["--appendonly", "yes"]) else { return };
    if redis.cli(&["waitaof", "0", "0", "1"]).starts_with("ERR") {
        let said = report(&over(&redis, "synced:0"), "one").await.unwrap_err();
        assert!(said.contains("synced needs Redis or Valkey 7.2"), "{said}");
    }
}
