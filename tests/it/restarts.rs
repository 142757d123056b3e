//! Servers that are restarted again and again: a lease ends on time while another replica is up,
//! and after its length of uptime if there is none.
//!
//! `BELLWETHER_RESTARTS_SECONDS` is how long each loop goes on at least, for a longer look.

use std::time::{Duration, Instant, SystemTime};

use bellwether::proto::v1;
use bellwether::proto::v1::operation_service_client::OperationServiceClient;
use bellwether::proto::v1::{Level, OperationState};

use crate::leader::{claim, configure, leader, seconds};
use crate::load::insist;
use crate::peer::{Peer, hello};
use crate::redis::Redis;
use crate::server::{DEADLINE, Server, eventually, get, mk_report};

const SECONDS: &str = "BELLWETHER_RESTARTS_SECONDS";
/// How long a replica must be silent before its sessions end.
const REPLICA_TTL: Duration = Duration::from_secs(10);

fn lasts() -> Duration {
    Duration::from_secs(std::env::var(SECONDS).map_or(0, |given| given.parse().unwrap()))
}

fn time_of(time: Option<prost_types::Timestamp>) -> SystemTime {
    SystemTime::try_from(time.unwrap()).unwrap()
}

/// Starts a server, reports something new through it and kills it, then waits for the next turn.
async fn turn(store: &[&str], every: Duration, number: usize) {
    let started = Instant::now();
    let server = Server::start(store);
    insist(&server, mk_report("web", "web/5", Level::Active, &format!("turn {number}"))).await;
    server.kill();
    tokio::time::sleep(every.saturating_sub(started.elapsed())).await;
}

/// Restarts a server in a loop beside a healthy one until another unit leads. Returns the new
/// lease, and what the healthy one showed as the end of the former one.
async fn succession(
    healthy: &Server,
    store: &[&str],
    every: Duration,
) -> (v1::Lease, Vec<SystemTime>) {
    let (began, mut ends, mut next, mut turns) = (Instant::now(), Vec::new(), None, 0);
    while next.is_none() || began.elapsed() < lasts() {
        turns += 1;
        turn(store, every, turns).await;
        let lease = leader(healthy, "web").await.lease;
        if let Some(held) = lease.as_ref().filter(|lease| lease.unit == "web/0") {
            ends.extend(held.expire_time.map(|at| time_of(Some(at))));
        }
        next = next.or(claim(healthy, "web", "web/1").await.ok());
        assert!(began.elapsed() < 2 * DEADLINE + lasts(), "web/0 leads for ever: {ends:?}");
    }
    (next.unwrap(), ends)
}

/// Claims for a unit that is silent from then on, and for a candidate.
async fn lead(server: &Server, lease_seconds: i64) -> SystemTime {
    configure(server, "web", lease_seconds).await;
    let lease = claim(server, "web", "web/0").await.unwrap();
    claim(server, "web", "web/1").await.unwrap_err();
    time_of(lease.expire_time)
}

async fn ends_on_time(every: Duration) {
    let Some(redis) = Redis::start(&[]) else { return };
    let url = redis.url();
    let store = ["--store", &url];
    let healthy = Server::start(&store);
    let ends = lead(&healthy, 6).await;
    let (next, shown) = succession(&healthy, &store, every).await;
    assert!(shown.iter().all(|at| *at == ends), "{ends:?} became {shown:?}");
    let late = time_of(next.acquire_time).duration_since(ends).unwrap();
    eprintln!("restarts every {every:?}: web/1 leads {late:?} after the end");
    assert!(late < Duration::from_secs(1), "{late:?} after {ends:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_on_time_beside_a_server_that_restarts_every_600_ms() {
    ends_on_time(Duration::from_millis(600)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_on_time_beside_a_server_that_restarts_every_2_s() {
    ends_on_time(Duration::from_secs(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_on_time_beside_a_server_that_restarts_every_4_s() {
    ends_on_time(Duration::from_secs(4)).await;
}

/// The session ends with its server, and the lease one length later.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_by_session_ends_on_time_beside_a_server_that_restarts() {
    let Some(redis) = Redis::start(&[]) else { return };
    let url = redis.url();
    let store = ["--store", &url];
    let healthy = Server::start(&store);
    configure(&healthy, "web", 5).await;
    let first = Server::start(&store);
    let worker = Peer::connect(&first, hello("web", "web/0")).await;
    claim(&first, "web", "web/0").await.unwrap();
    claim(&healthy, "web", "web/1").await.unwrap_err();
    let died = SystemTime::now();
    first.kill();
    let (next, shown) = succession(&healthy, &store, Duration::from_secs(2)).await;
    drop(worker);
    // From the end of the session on, the lease has an end, which stays.
    let ends = shown.first().expect("the session ends before the lease");
    assert!(shown.iter().all(|at| at == ends), "{shown:?}");
    let took = ends.duration_since(died).unwrap();
    let late = time_of(next.acquire_time).duration_since(*ends).unwrap();
    eprintln!("by session: the lease ends {took:?} after its server, web/1 leads {late:?} later");
    assert!(late < Duration::from_secs(1), "{late:?} after {ends:?}");
    assert!(took < 2 * REPLICA_TTL, "{took:?}");
}

/// Begins an operation whose holder is silent from then on.
async fn begin(server: &Server) {
    let begin = v1::BeginOperationRequest {
        application: "web".into(),
        unit: "web/0".into(),
        operation_id: "upgrade".into(),
        target_version: "v2".into(),
        lease_duration: seconds(7),
        ..v1::BeginOperationRequest::default()
    };
    let mut client = OperationServiceClient::new(server.channel().await);
    client.begin_operation(begin).await.unwrap();
}

async fn state_of_work(server: &Server) -> OperationState {
    let (application, operation_id) = ("web".into(), "upgrade".into());
    let get = v1::GetOperationRequest { application, operation_id, ..Default::default() };
    let mut client = OperationServiceClient::new(server.channel().await);
    client.get_operation(get).await.unwrap().into_inner().operation.unwrap().state()
}

/// Ends a server, waits, and starts another one on its data. Returns it with the time for which
/// none was up.
async fn again(server: Server, data: &std::path::Path, is_killed: bool) -> Server {
    match is_killed {
        true => server.kill(),
        false => {
            server.terminate();
            let mut server = server;
            assert!(server.wait().success());
        }
    }
    Server::on(data)
}

/// A lease, a ttl, a silence and the lease of an operation count the time for which the only server
/// is up.
async fn ends_after_its_uptime(is_killed: bool) {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::on(data.path());
    let mut up = Instant::now();
    let mut uptime = Duration::ZERO;
    lead(&server, 7).await;
    let mut report = mk_report("web", "web/0", Level::Active, "up");
    report.status.as_mut().unwrap().ttl = seconds(7);
    insist(&server, report).await;
    begin(&server).await;
    let (mut led, mut fresh, mut held) = (None, None, None);
    while led.is_none() || fresh.is_none() || held.is_none() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let passed = uptime + up.elapsed();
        let lease = leader(&server, "web").await.lease;
        if lease.is_none_or(|lease| lease.unit != "web/0") {
            led = led.or(Some(passed));
        }
        let got = server.applications().await.get_application(get("web")).await.unwrap();
        let application = got.into_inner().application.unwrap();
        if application.status.unwrap().stale_units != 0 {
            fresh = fresh.or(Some(passed));
        }
        if state_of_work(&server).await == OperationState::Interrupted {
            held = held.or(Some(passed));
        }
        assert!(passed < DEADLINE, "{led:?} {fresh:?} {held:?} in {passed:?} of uptime");
        if Duration::from_secs(2) < up.elapsed() {
            uptime += up.elapsed();
            server = again(server, data.path(), is_killed).await;
            up = Instant::now();
        }
    }
    let ends = [led, fresh, held].map(Option::unwrap);
    eprintln!("restarts every 2 s, killed {is_killed}: lease, ttl, operation end at {ends:?}");
    // A restart allows for a repeat of the status that was not written: a third of its ttl.
    for (end, latest) in ends.into_iter().zip([10, 13, 10]) {
        assert!(Duration::from_secs(6) < end, "{end:?} of uptime is too early");
        assert!(end < Duration::from_secs(latest), "{end:?} of uptime is too late");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_count_the_uptime_of_a_server_that_is_killed_every_2_s() {
    ends_after_its_uptime(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_count_the_uptime_of_a_server_that_stops_every_2_s() {
    ends_after_its_uptime(false).await;
}

/// All servers are down for longer than the lease, and then all of them start.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_outlives_a_time_without_any_server() {
    let Some(redis) = Redis::start(&[]) else { return };
    let url = redis.url();
    let store = ["--store", &url];
    let server = Server::start(&store);
    let ends = lead(&server, 5).await;
    server.kill();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let (server, other) = (Server::start(&store), Server::start(&store));
    let moved = leader(&server, "web").await.lease.expect("web/0 still leads");
    assert_eq!(leader(&other, "web").await.lease, Some(moved.clone()));
    let (moved, second) = (time_of(moved.expire_time), Duration::from_secs(1));
    let by = moved.duration_since(ends).unwrap();
    assert!(Duration::from_secs(8) - second < by, "{by:?}");
    let next = eventually("web/1 leads", async || claim(&other, "web", "web/1").await.ok()).await;
    assert!(time_of(next.acquire_time).duration_since(moved).unwrap() < second);
}
