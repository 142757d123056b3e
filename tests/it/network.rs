//! A slow or broken network to Redis, and a frozen Redis: every report ends, as accepted or as a
//! typed refusal, each accepted report is stored once, and the server recovers with the network.

use std::time::{Duration, Instant};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;

use crate::load::{Load, agree, check_history, check_refusal, insist};
use crate::ops::fetch;
use crate::server::{DEADLINE, Server, eventually, get, mk_report};
use crate::testing::{Proxy, RedisServer};

/// Starts one server behind a proxy, and one with a direct connection.
async fn mk_servers(redis: &RedisServer, proxy: &Proxy) -> [Server; 2] {
    let start = |url: &str| Server::start(&["--store", url]);
    [start(&proxy.url()), start(&redis.url())]
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_cut_anywhere_and_each_report_is_there_once() {
    let Some(redis) = RedisServer::start().await else { return };
    let proxy = Proxy::to(&redis.address()).await;
    let servers = mk_servers(&redis, &proxy).await;
    let load = Load::start(&servers, 4, 16, 40).await;
    for answer_bytes in [0, 1, 7, 60, 200, 999, 5000, 1, 20_000] {
        load.go_on(40).await;
        proxy.cut_after(answer_bytes);
        tokio::time::timeout(DEADLINE, proxy.until_cut()).await.expect("so much is answered");
        proxy.heal();
    }
    let expected = load.finish(&servers).await;
    check_history(&servers, &expected).await;
    agree(&servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_way_slows_down_and_breaks_nothing() {
    let Some(redis) = RedisServer::start().await else { return };
    let proxy = Proxy::to(&redis.address()).await;
    let servers = mk_servers(&redis, &proxy).await;
    let load = Load::start(&servers, 4, 16, 12).await;
    load.go_on(20).await;
    // The delay applies in each direction, so an answer takes twice as long.
    proxy.delay(Duration::from_millis(200));
    load.go_on(60).await;
    let start = Instant::now();
    insist(&servers[0], mk_report("slow", "slow/0", Level::Active, "")).await;
    assert!(Duration::from_millis(400) <= start.elapsed(), "the proxy does not delay");
    // A busy machine adds to the delay, so that a ping may be late once.
    let is_ready = async || (fetch(servers[0].ops, "/readyz").1 == "ok\n").then_some(());
    eventually("slow is not away", is_ready).await;
    proxy.heal();
    let expected = load.finish(&servers).await;
    check_history(&servers, &expected).await;
    agree(&servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_black_hole_every_report_is_refused_in_time() {
    let Some(redis) = RedisServer::start().await else { return };
    let proxy = Proxy::to(&redis.address()).await;
    let servers = mk_servers(&redis, &proxy).await;
    let load = Load::start(&servers, 4, 16, 30).await;
    load.go_on(100).await;
    proxy.black_hole();
    let mut reports = servers[0].reports().await;
    for n in 0..3 {
        let report = mk_report("swallowed", "swallowed/0", Level::Active, &n.to_string());
        let refused = tokio::time::timeout(DEADLINE, reports.report_status(report.clone())).await;
        check_refusal(&refused.expect("it is refused in time").unwrap_err());
        // A client with a shorter timeout than the server's, unless the server already knows that
        // Redis is down.
        let mut request = tonic::Request::new(report);
        request.set_timeout(Duration::from_millis(1));
        let refused = reports.report_status(request).await.unwrap_err();
        match refused.code() {
            tonic::Code::DeadlineExceeded | tonic::Code::Cancelled => (),
            _ => check_refusal(&refused),
        }
    }
    proxy.heal();
    let expected = load.finish(&servers).await;
    check_history(&servers, &expected).await;
    agree(&servers).await;
}

async fn read(server: &Server) -> (v1::AggregatedStatus, bool) {
    let got = server.applications().await.get_application(get("web")).await.unwrap();
    let is_old = got.metadata().contains_key("bellwether-as-of");
    (got.into_inner().application.unwrap().status.unwrap(), is_old)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_stall_of_redis_makes_nothing_stale() {
    let Some(redis) = RedisServer::start().await else { return };
    let server = Server::start(&["--store", &redis.url()]);
    let ttl = Duration::from_secs(5);
    let mut report = mk_report("web", "web/0", Level::Active, "up");
    report.status.as_mut().unwrap().ttl = Some(ttl.try_into().unwrap());
    insist(&server, report).await;
    redis.stop();
    let stopped = Instant::now();
    eventually("it is noticed", async || read(&server).await.1.then_some(())).await;
    let mut reports = server.reports().await;
    // Twice the ttl, during which the server reports the failure and refuses.
    let mut refusals = 0;
    while stopped.elapsed() < 2 * ttl {
        let ready = fetch(server.ops, "/readyz");
        assert!(ready.0.contains("503"), "{ready:?}");
        let (status, is_old) = read(&server).await;
        assert_eq!((status.level(), status.stale_units, is_old), (Level::Active, 0, true));
        let refused = reports.report_status(mk_report("web", "web/1", Level::Error, "")).await;
        check_refusal(&refused.unwrap_err());
        refusals += 1;
    }
    assert!(1 < refusals);
    redis.cont();
    let (status, _) = eventually("it is back", async || {
        let read = read(&server).await;
        (!read.1).then_some(read)
    })
    .await;
    assert_eq!(status.stale_units, 0, "nobody could repeat anything meanwhile");
    let back = Instant::now();
    // From now on the unit can report again, and does not.
    eventually("it is stale", async || (read(&server).await.0.stale_units == 1).then_some(()))
        .await;
    assert!(ttl / 2 < back.elapsed(), "stale {:?} after it was back", back.elapsed());
}
