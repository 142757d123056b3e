//! A worker keeps its claim to leadership: while the store is down, after the store lost its data,
//! and after the session lapsed.

use std::time::{Duration, Instant};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether_client::Worker;
use bellwether_client::worker::{Event, Options};

use crate::failover::has_caught_up;
use crate::leader::{claim, configure, leader};
use crate::ops::fetch;
use crate::pair::Pair;
use crate::peer::{Peer, hello};
use crate::redis::Redis;
use crate::server::{Server, eventually, mk_report};
use crate::sessions_replicas::TIMES;
use crate::testing::Proxy;

/// Epochs up to this one belong to the first history of the store.
const COUNTS_PER_HISTORY: u64 = 1 << 32;

/// Longer than the time for which a server retries a write.
const REFUSED_AFTER: Duration = Duration::from_secs(4);

async fn work(server: &str, unit: &str) -> Worker {
    let options = Options::new(server, "web", unit);
    let worker = Worker::connect(options, |_| async { Vec::new() }).unwrap();
    worker.connected().await.unwrap();
    worker
}

async fn waits(server: &Server, unit: &str) {
    eventually("it waits", async || {
        (leader(server, "web").await.candidates == [unit]).then_some(())
    })
    .await;
}

async fn leads(worker: &Worker) -> u64 {
    eventually("it leads", async || worker.lease_epoch()).await
}

/// Waits until the server has on_broadcast that its store is down, or available again.
async fn is_ready(server: &Server, expected: bool) {
    eventually("the server notices", async || {
        (fetch(server.ops, "/readyz").0.contains("200") == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_and_a_release_are_made_again_once_the_store_is_back() {
    let Some(redis) = Redis::start(&[]) else { return };
    let server = Server::start(&["--store", &redis.url()]);
    let (first, second) = (work(&server.url(), "web/0").await, work(&server.url(), "web/1").await);
    redis.signal("STOP");
    is_ready(&server, false).await;
    first.claim_leadership();
    // The claim is refused, and the worker still receives the state of the leadership.
    let mut events = first.events();
    while !matches!(events.next().await, Some(Event::Leadership(_))) {}
    redis.signal("CONT");
    leads(&first).await;
    second.claim_leadership();
    waits(&server, "web/1").await;
    redis.signal("STOP");
    is_ready(&server, false).await;
    first.release_leadership();
    let released = Instant::now();
    while released.elapsed() < REFUSED_AFTER {
        claim(&server, "web", "web/1").await.unwrap_err();
    }
    redis.signal("CONT");
    leads(&second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_silent_for_its_lease_claims_again_in_the_same_session() {
    let server = Server::ephemeral();
    configure(&server, "web", 2).await;
    let way = Proxy::to(&server.grpc.to_string()).await;
    let worker = work(&format!("http://{}", way.address()), "web/0").await;
    worker.claim_leadership();
    let before = leads(&worker).await;
    way.black_hole();
    eventually("nobody leads", async || leader(&server, "web").await.lease.is_none().then_some(()))
        .await;
    way.heal();
    eventually("it leads again", async || worker.lease_epoch().filter(|epoch| before < *epoch))
        .await;
    let unit = crate::sessions::unit(&server, "web", "web/0").await.unwrap();
    assert_eq!(unit.incarnation, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_the_store_has_forgotten_are_made_again() {
    let Some(mut redis) = Redis::start(&[]) else { return };
    let server = Server::configured(&["--store", &redis.url()], TIMES);
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    peer.keep_alive();
    peer.say(Said::ClaimLeadership(v1::ClaimLeadership {})).await;
    eventually("it leads", async || leader(&server, "web").await.lease).await;
    // Nothing is on disk.
    redis.kill();
    redis.restart();
    loop {
        match peer.answer().await {
            Told::Leadership(led) if led.is_self && COUNTS_PER_HISTORY < led.lease_epoch => break,
            Told::Superseded(by) => panic!("{by:?}"),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_the_store_has_forgotten_is_made_again() {
    let arguments = ["--save", "3600 1000000", "--dbfilename", "dump.rdb"];
    let Some(mut redis) = Redis::start(&arguments) else { return };
    let server = Server::configured(&["--store", &redis.url()], TIMES);
    let (first, second) = (work(&server.url(), "web/0").await, work(&server.url(), "web/1").await);
    first.claim_leadership();
    let before = leads(&first).await;
    redis.cli(&["SAVE"]);
    first.release_leadership();
    second.claim_leadership();
    leads(&second).await;
    redis.kill();
    redis.restart();
    let after = eventually("it leads again", async || {
        second.lease_epoch().filter(|epoch| COUNTS_PER_HISTORY < *epoch)
    })
    .await;
    assert!(before < after);
    eventually("the first one knows", async || first.lease_epoch().is_none().then_some(())).await;
    // A unit that an operator chooses leads although it had stepped down, and keeps leading after
    // the next data loss.
    redis.cli(&["SAVE"]);
    let transfer = v1::TransferLeadershipRequest {
        application: "web".into(),
        to_unit: "web/0".into(),
        ..Default::default()
    };
    server.leaders().await.transfer_leadership(transfer).await.unwrap();
    let chosen = leads(&first).await;
    redis.cli(&["SAVE"]);
    configure(&server, "web", 20).await;
    redis.kill();
    redis.restart();
    eventually("it still leads", async || first.lease_epoch().filter(|epoch| chosen < *epoch))
        .await;
    eventually("it was heard again", async || {
        let unit = crate::sessions::unit(&server, "web", "web/0").await?;
        (unit.freshness() == v1::Freshness::Fresh).then_some(())
    })
    .await;
    assert_eq!(leader(&server, "web").await.lease.unwrap().unit, "web/0");
}

/// If its election was lost with the master, only the server that granted it has a record of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_of_one_server_is_not_given_again_by_the_other() {
    let Some(mut redis) = Pair::start().await else { return };
    let address = redis.master.address();
    let ways = [Proxy::to(&address).await, Proxy::to(&address).await];
    let server = |way: &Proxy| Server::start(&["--store", &way.url()]);
    let servers = ways.each_ref().map(server);
    for unit in ["web/0", "web/1"] {
        let report = mk_report("web", unit, Level::Active, "up");
        servers[0].reports().await.report_status(report).await.unwrap();
    }
    eventually("the other server knows the units", async || {
        crate::sessions::unit(&servers[1], "web", "web/1").await
    })
    .await;
    has_caught_up(&redis.replica, &redis.master).await;
    redis.part().await;
    ways[1].cut();
    let told = claim(&servers[0], "web", "web/0").await.unwrap().lease_epoch;
    ways[0].black_hole();
    redis.kill(&ways).await;
    ways[1].heal();
    let given = eventually("the other server grants", async || {
        claim(&servers[1], "web", "web/1").await.ok()
    })
    .await
    .lease_epoch;
    assert!(told < given, "{given} was given after {told}");
}
