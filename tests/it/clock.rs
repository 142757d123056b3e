//! A replica with a wrong clock: times and deadlines come from the store, so nothing changes.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;

use crate::leader::{claim, configure, leader};
use crate::load::insist;
use crate::redis::Redis;
use crate::server::{Server, command, eventually, get, mk_report};
use crate::testing::RedisServer;

/// Returns the library that shifts the clock of a process. Prints a warning if it is missing; in CI
/// that is a failure.
pub fn shifting_library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let files = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let found = files.into_iter().find(|file| file.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "libfaketime is missing; run tools/install");
        eprintln!("SKIPPED: libfaketime is missing; run tools/install");
    }
    found
}

/// Returns the application with the times of its units, and the offset of the server's clock.
async fn look(server: &Server) -> (v1::Application, Vec<v1::Unit>, Duration) {
    let mut client = server.applications().await;
    let got = client.get_application(get("web")).await.unwrap();
    let date = got.metadata().get("date").unwrap().to_str().unwrap().to_string();
    let date = jiff::fmt::rfc2822::parse(&date).unwrap().timestamp();
    let off = SystemTime::from(date).duration_since(SystemTime::now()).unwrap_or_default();
    let list = v1::ListUnitsRequest { application: "web".into(), ..Default::default() };
    let units = client.list_units(list).await.unwrap().into_inner().units;
    (got.into_inner().application.unwrap(), units, off)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_off_on_one_replica_changes_nothing() {
    let (Some(redis), Some(library)) = (RedisServer::start().await, shifting_library()) else {
        return;
    };
    let right = Server::start(&["--store", &redis.url()]);
    let mut command = command(&["--store", &redis.url()]);
    // A jump of the wall clock does not move the monotonic clock of a real machine either.
    command.env("LD_PRELOAD", library).env("FAKETIME", "+3600s");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let wrong = Server::spawn(command);
    let ttl = Duration::from_secs(3);
    let before = SystemTime::now();
    let reported = Instant::now();
    for (server, unit) in [(&wrong, "web/0"), (&right, "web/1")] {
        let mut report = mk_report("web", unit, Level::Active, "up");
        report.status.as_mut().unwrap().ttl = Some(ttl.try_into().unwrap());
        insist(server, report).await;
    }
    let after = SystemTime::now();
    // Each server has read the writes of the other one.
    let (seen, units) = eventually("both say the same", async || {
        let (ours, theirs) = (look(&right).await, look(&wrong).await);
        assert!(ours.2 < Duration::from_secs(60), "the clock is right");
        assert!(Duration::from_secs(3000) < theirs.2, "the clock is not shifted: {:?}", theirs.2);
        let is_same = (&ours.0, &ours.1) == (&theirs.0, &theirs.1) && ours.0.unit_count == 2;
        is_same.then_some((ours.0, ours.1))
    })
    .await;
    let status = seen.status.as_ref().unwrap();
    if reported.elapsed() < ttl {
        assert_eq!((status.level(), status.stale_units), (Level::Active, 0), "{status:?}");
    }
    let second = Duration::from_secs(1);
    let times = [seen.create_time, seen.update_time, status.since_time];
    let of_units = units.iter().map(|unit| unit.last_seen_time);
    for time in times.into_iter().chain(of_units) {
        let time = SystemTime::try_from(time.unwrap()).unwrap();
        assert!(before - second < time && time < after + second, "{before:?} {time:?} {after:?}");
    }
    for server in [&wrong, &right] {
        eventually("both are stale", async || {
            (look(server).await.0.status?.stale_units == 2).then_some(())
        })
        .await;
        assert!(ttl <= reported.elapsed(), "stale before its time");
    }
}

/// Simulates a master whose clock is an hour ahead of the clock of its successor. Servers know the
/// first time from the note in Redis, and that note is lost with the first master.
#[tokio::test(flavor = "multi_thread")]
async fn time_goes_on_while_the_clock_of_redis_is_behind() {
    let Some(redis) = Redis::start(&[]) else { return };
    let hour = Duration::from_secs(3600).as_micros().to_string();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    redis.cli(&["hset", "bw:clock", "behind", &hour, "since", &now.to_string()]);
    let server = Server::start(&["--store", &redis.url()]);
    configure(&server, "web", 2).await;
    let ttl = Duration::from_secs(2);
    let mut report = mk_report("web", "web/0", Level::Active, "up");
    report.status.as_mut().unwrap().ttl = Some(ttl.try_into().unwrap());
    insist(&server, report.clone()).await;
    let soon = SystemTime::now() + Duration::from_secs(3500);
    let seen_at = |units: &[v1::Unit]| {
        let time = units[0].last_seen_time.unwrap();
        SystemTime::try_from(time).unwrap()
    };
    assert!(soon < seen_at(&look(&server).await.1), "the clock of this Redis is ahead");
    redis.cli(&["del", "bw:clock"]);
    eventually("the difference is noted", async || {
        let micros: u64 = redis.cli(&["hget", "bw:clock", "behind"]).parse().unwrap_or_default();
        (3_500_000_000 < micros).then_some(())
    })
    .await;
    claim(&server, "web", "web/0").await.unwrap();
    eventually("the lease ends", async || {
        leader(&server, "web").await.lease.is_none().then_some(())
    })
    .await;
    eventually("the status is stale", async || {
        (look(&server).await.0.status?.stale_units == 1).then_some(())
    })
    .await;
    // A server that never saw the earlier times agrees with the server that did.
    let other = Server::start(&["--store", &redis.url()]);
    insist(&other, report).await;
    assert!(soon < seen_at(&look(&other).await.1), "the time of the store went back");
    for server in [&server, &other] {
        eventually("the status is stale again", async || {
            (look(server).await.0.status?.stale_units == 1).then_some(())
        })
        .await;
    }
}
