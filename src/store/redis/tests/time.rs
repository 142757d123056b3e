//! The time of the store with a real Redis: differences of clocks, signs of life, and outages.

use crate::domain::outage::{Downtime, OUTAGES_MAX};
use crate::domain::time::Timestamp;
use crate::store::Store;
use crate::store::moment::{OUTAGE_MIN, to_text};
use crate::store::redis::RedisStore;
use crate::store::redis::record::key::KeySpace;
use crate::store::redis::record::layout::Prefix;
use crate::store::redis::time::{Ask, Reading};

use super::{RedisServer, mk_options, try_open, until};

/// A store time of its own, beside that of the store which the connections belong to.
struct Bench {
    server: RedisServer,
    store: RedisStore,
    keys: KeySpace,
}

impl Bench {
    async fn start() -> Option<Bench> {
        let server = RedisServer::start().await?;
        let store = try_open(&server.url(), mk_options()).await.unwrap();
        Some(Bench { server, store, keys: KeySpace::new(&Prefix::parse("bench").unwrap(), 1) })
    }

    async fn ask(&self, known: u64, own: &str, acts: bool) -> Reading {
        self.send(Ask { known: Timestamp::new(known), own, acts, beaten: None }).await
    }

    /// Asks as a process that starts and has found a heartbeat of this time.
    async fn start_after(&self, beaten: u64) -> Reading {
        let beaten = Some(Timestamp::new(beaten));
        self.send(Ask { known: Timestamp::default(), own: "new", acts: true, beaten }).await
    }

    async fn send(&self, ask: Ask<'_>) -> Reading {
        ask.send(&*self.store.buckets.servers, &self.keys).await.unwrap()
    }

    /// Sets a field of `bench:clock`.
    async fn set(&self, field: &str, value: impl ToString) {
        let value = value.to_string();
        self.server.call::<()>(&["HSET", "bench:clock", field, &value]).await.unwrap();
    }

    async fn get(&self, field: &str) -> Option<u64> {
        self.server.call(&["HGET", "bench:clock", field]).await.unwrap()
    }

    /// Lets the time of the store be ahead of the clock, as after the clock was set back. To a
    /// process that knows an earlier time, the clock has jumped ahead.
    async fn jump(&self, micros: u64) {
        let time: Vec<u64> = self.server.call(&["TIME"]).await.unwrap();
        self.set("behind", micros).await;
        self.set("since", time[0] * 1_000_000 + time[1]).await;
    }
}

fn millis(reading: &Reading) -> u64 {
    reading.sample.micros / 1000
}

/// The first outage of a reading begins at this time.
fn begin(reading: &Reading) -> Option<u64> {
    reading.outages.iter().next().map(|outage| outage.from.millis())
}

/// A process without an answer sends heartbeats too. Seed 1 of 4 minutes of the simulation showed
/// that the start of another process shortened an outage by them, and a status ended early.
#[tokio::test]
async fn a_heartbeat_does_not_shorten_an_outage() {
    let Some(bench) = Bench::start().await else { return };
    let first = millis(&bench.ask(0, "a", true).await);
    bench.set("alive", (first - 20_000) * 1000).await;
    assert_eq!(begin(&bench.start_after(first - 5_000).await), Some(first - 20_000));
    // Processes of earlier versions give heartbeats alone.
    bench.server.call::<()>(&["DEL", "bench:clock"]).await.unwrap();
    assert_eq!(begin(&bench.start_after(first - 5_000).await), Some(first - 5_000));
}

#[tokio::test]
async fn a_clock_that_jumps_is_not_followed_unless_another_process_confirms_it() {
    let Some(bench) = Bench::start().await else { return };
    let first = millis(&bench.ask(0, "a", true).await);
    for jump in [20_000_000, 3_600_000_000] {
        bench.jump(jump).await;
        let known = bench.ask(first, "a", true).await;
        assert!(millis(&known) < first + 1000, "{known:?}");
        assert!(known.outages.iter().next().is_none(), "{known:?}");
    }
    // The process stood still, and another one did not.
    bench.jump(20_000_000).await;
    bench.set("by", "b").await;
    bench.set("alive", (first + 19_500) * 1000).await;
    let known = bench.ask(first, "a", true).await;
    assert!(first + 20_000 <= millis(&known), "{known:?}");
    assert!(known.outages.iter().next().is_none(), "{known:?}");
    // The time never goes back below what any process has had, known to the next one or not.
    bench.server.call::<()>(&["HDEL", "bench:clock", "behind"]).await.unwrap();
    let behind = bench.ask(0, "c", true).await;
    assert!(first + 20_000 <= millis(&behind) && 0 < behind.ahead, "{behind:?}");
}

#[tokio::test]
async fn a_time_without_a_process_is_an_outage_once() {
    let Some(bench) = Bench::start().await else { return };
    let first = millis(&bench.ask(0, "a", true).await);
    bench.set("alive", (first - 8_000) * 1000).await;
    let outages =
        |reading: &Reading| -> Vec<Downtime> { reading.outages.iter().copied().collect() };
    // A process that cannot act sees the outage go on.
    let unable = bench.ask(0, "b", false).await;
    assert_eq!(outages(&unable)[0].from.millis(), first - 8_000);
    let later = bench.ask(0, "b", false).await;
    assert_eq!(outages(&later).len(), 1);
    assert!(outages(&unable)[0].until <= outages(&later)[0].until);
    let known = bench.ask(0, "b", true).await;
    let ended = outages(&known);
    assert_eq!((ended.len(), ended[0].until.millis()), (1, millis(&known)));
    for own in ["a", "b", "c"] {
        assert_eq!(outages(&bench.ask(millis(&known), own, true).await), ended);
    }
    // A Redis that refuses writes lets no process act.
    bench.set("alive", (millis(&known) - 5_000) * 1000).await;
    let alive = bench.get("alive").await;
    let refuse = ["CONFIG", "SET", "min-replicas-to-write", "1"];
    bench.server.call::<()>(&refuse).await.unwrap();
    assert_eq!(outages(&bench.ask(0, "a", true).await).len(), 2);
    assert_eq!(bench.get("alive").await, alive);
}

#[tokio::test]
async fn the_oldest_outages_are_joined() {
    let Some(bench) = Bench::start().await else { return };
    let first = millis(&bench.ask(0, "a", true).await);
    let many = (1..=OUTAGES_MAX).map(|n| format!("{}-{} ", 10 * n, 10 * n + 1 + n % 2));
    bench.set("outages", many.collect::<String>()).await;
    bench.set("alive", (first - 9_000) * 1000).await;
    let known = bench.ask(0, "a", true).await.outages;
    assert_eq!(known.iter().count(), OUTAGES_MAX);
    assert!(to_text(&known).starts_with("18-21 30-32 40-41 "), "{}", to_text(&known));
}

/// The store returns to a clock that is ahead once no process knows better.
#[tokio::test]
async fn a_start_of_all_processes_takes_over_a_clock_that_is_ahead() {
    let Some(bench) = Bench::start().await else { return };
    let first = millis(&bench.ask(0, "a", true).await);
    bench.set("ahead", 60_000_000_u64).await;
    bench.set("since", first * 1000).await;
    bench.set("alive", (first - 60_000) * 1000).await;
    // Not while another process is there.
    let beside = bench.ask(0, "b", true).await;
    assert!(millis(&beside) < first - 50_000 && beside.ahead < -50_000_000, "{beside:?}");
    bench.set("alive", (first - 70_000) * 1000).await;
    let alone = bench.ask(0, "c", true).await;
    assert!(first <= millis(&alone) && alone.ahead == 0, "{alone:?}");
    assert_eq!(alone.outages.uptime(Timestamp::default(), Timestamp::new(first)).as_millis(), {
        u128::from(first - 70_000)
    });
}

/// A Redis that stood still executes the requests that it got meanwhile.
#[tokio::test]
async fn a_process_without_a_recent_answer_gives_no_sign_of_life() {
    let Some(server) = RedisServer::start().await else { return };
    let store = try_open(&server.url(), mk_options()).await.unwrap();
    // Requests are those of this test alone.
    store.readers.iter().for_each(|reader| reader.abort());
    let alive = async || server.call::<u64>(&["HGET", "bw:clock", "alive"]).await.unwrap();
    let ask = async || store.log.time.ask(Timestamp::default(), store.health().is_ok()).await;
    let first = alive().await;
    tokio::time::pause();
    tokio::time::advance(OUTAGE_MIN).await;
    tokio::time::resume();
    assert!(!store.moment().is_certain());
    let mut answer = None;
    until("it has an answer", async || {
        answer = ask().await.ok();
        answer.is_some()
    })
    .await;
    assert_eq!(alive().await, first);
    store.log.time.clock.hear(answer.unwrap());
    until("it gives a sign of life", async || ask().await.is_ok() && first < alive().await).await;
}

/// Two processes in turn: the one that stops last says so, and the next start counts from there.
#[tokio::test]
async fn a_process_that_starts_alone_knows_the_outage_before_it() {
    let Some(server) = RedisServer::start().await else { return };
    let open = async || try_open(&server.url(), mk_options()).await.unwrap();
    let first = open().await;
    assert_eq!(first.moment().outages.iter().count(), 0);
    let beside = open().await;
    first.close().await;
    until("it gives signs of life", async || beside.moment().is_certain()).await;
    beside.close().await;
    let alive: u64 = server.call(&["HGET", "bw:clock", "alive"]).await.unwrap();
    // As if the last one had ended ten seconds earlier.
    let earlier = (alive - 10_000_000).to_string();
    server.call::<()>(&["HSET", "bw:clock", "alive", &earlier]).await.unwrap();
    server.call::<()>(&["DEL", "bw:replicas"]).await.unwrap();
    let third = open().await;
    let outages = third.moment().outages;
    let outage = *outages.iter().next().unwrap();
    assert_eq!(outage.from.millis(), alive / 1000 - 10_000);
    assert!(outage.until <= third.now() && third.moment().is_certain());
    let fourth = open().await;
    assert_eq!(fourth.moment().outages, outages);
}
