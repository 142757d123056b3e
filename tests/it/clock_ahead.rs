//! A clock of Redis that jumps ahead deposes no leader and makes no status stale: the time of the
//! store advances at the pace of the servers.

use std::time::{Duration, Instant, SystemTime};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;

use crate::clock::shifting_library;
use crate::leader::{claim, configure, leader, seconds};
use crate::load::insist;
use crate::redis::Redis;
use crate::server::{LOOK_EVERY, Server, eventually, get, mk_report};
use crate::testing::Proxy;

/// How long each jump is watched: longer than the lease, and than the ttl.
const WATCHED: Duration = Duration::from_secs(8);
/// The lease, and the ttl of the status.
const LENGTH: i64 = 4;

/// Renews the lease of `web/0` and repeats its status each second on two servers, and looks for
/// anything that ended.
async fn watch_nothing_end(servers: [&Server; 2], epoch: u64) {
    let start = Instant::now();
    let mut renewed = start;
    while start.elapsed() < WATCHED {
        if Duration::from_secs(1) < renewed.elapsed() {
            renewed = Instant::now();
            keep(servers[0]).await;
        }
        for server in servers {
            let lease = leader(server, "web").await.lease.expect("web/0 leads");
            assert_eq!((&*lease.unit, lease.lease_epoch), ("web/0", epoch));
            let got = server.applications().await.get_application(get("web")).await.unwrap();
            let status = got.into_inner().application.unwrap().status.unwrap();
            assert_eq!((status.stale_units, status.level()), (0, Level::Active), "{status:?}");
        }
        let other = claim(servers[1], "web", "web/1").await;
        assert!(other.is_err(), "{other:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Renews the lease and repeats the status.
async fn keep(server: &Server) -> v1::Lease {
    let mut report = mk_report("web", "web/0", Level::Active, "up");
    report.status.as_mut().unwrap().ttl = seconds(LENGTH);
    insist(server, report).await;
    eventually("the lease is renewed", async || claim(server, "web", "web/0").await.ok()).await
}

/// Returns the time of the store, as a server sends it, against the clock of this machine.
async fn time_of(server: &Server) -> f64 {
    let request = v1::GetServerInfoRequest::default();
    let info = server.about().await.get_server_info(request).await.unwrap().into_inner();
    let time = SystemTime::try_from(info.time.unwrap()).unwrap();
    match time.duration_since(SystemTime::now()) {
        Ok(ahead) => ahead.as_secs_f64(),
        Err(behind) => -behind.duration().as_secs_f64(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_of_redis_that_is_set_ahead_ends_nothing() {
    let Some(library) = shifting_library() else { return };
    let Some(redis) = Redis::start_with_clock(&library, &[]) else { return };
    let url = redis.url();
    let servers = [Server::start(&["--store", &url]), Server::start(&["--store", &url])];
    configure(&servers[0], "web", LENGTH).await;
    let epoch = keep(&servers[0]).await.lease_epoch;
    for ahead in [20, 60, 3600] {
        redis.set_clock(ahead);
        watch_nothing_end(servers.each_ref(), epoch).await;
        for server in &servers {
            let off = time_of(server).await;
            assert!((-1.0..1.0).contains(&off), "the time of the store is {off} s off");
        }
        let noted: f64 = redis.cli(&["hget", "bw:clock", "ahead"]).parse().unwrap();
        assert!((f64::from(ahead) - 1.5..f64::from(ahead) + 1.5).contains(&(noted / 1e6)));
    }
    // A server that starts meanwhile reads the same time.
    let third = Server::start(&["--store", &url]);
    assert!(time_of(&third).await < 1.0);
    // The clock is corrected.
    redis.set_clock(0);
    watch_nothing_end(servers.each_ref(), epoch).await;
    eventually("the clock is right", async || {
        redis.cli(&["hget", "bw:clock", "ahead"]).is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_master_whose_clock_is_ahead_ends_nothing() {
    let Some(library) = shifting_library() else { return };
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let Some(mut former) = Redis::start(&at_once) else { return };
    let port = former.port().to_string();
    let replicaof = ["--replicaof", "127.0.0.1", &port];
    let Some(next) = Redis::start_with_clock(&library, &replicaof) else { return };
    next.set_clock(20);
    let replication = |redis: &Redis| redis.cli(&["info", "replication"]);
    eventually("the next master follows", async || {
        replication(&next).contains("master_link_status:up").then_some(())
    })
    .await;
    let way = Proxy::to(&format!("127.0.0.1:{port}")).await;
    let servers = [(); 2].map(|()| Server::start(&["--store", &way.url()]));
    configure(&servers[0], "web", LENGTH).await;
    keep(&servers[0]).await;
    eventually("the next master has everything", async || {
        let offset = |redis: &Redis| {
            let info = replication(redis);
            let line = info.lines().find(|line| line.starts_with("master_repl_offset"));
            line.map(str::to_string)
        };
        (offset(&former) == offset(&next)).then_some(())
    })
    .await;
    former.kill();
    next.cli(&["replicaof", "no", "one"]);
    way.lead_to(&format!("127.0.0.1:{}", next.port()));
    // Another master gives the leader another epoch, and no other leader.
    let epoch = eventually("the new master has given an epoch", async || {
        // While no master serves, a server that has not loaded the application cannot answer.
        let request = v1::GetLeaderRequest { application: "web".into(), ..Default::default() };
        let answer = servers[1].leaders().await.get_leader(request).await.ok()?.into_inner();
        let lease = answer.lease.expect("web/0 leads");
        assert_eq!(lease.unit, "web/0");
        (1 << 40 < lease.lease_epoch).then_some(lease.lease_epoch)
    })
    .await;
    watch_nothing_end(servers.each_ref(), epoch).await;
    assert!(time_of(&servers[1]).await < 1.0);
}
