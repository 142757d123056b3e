//! Sessions on one of two replicas over one Redis: asked from the other replica, taken over by it,
//! and their state after the death or a freeze of their own replica.

use std::time::{Duration, Instant};

use bellwether::proto::v1;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::{Freshness, Level};

use crate::peer::{Peer, hello, status};
use crate::redis::Redis;
use crate::server::{Server, eventually, reason};
use crate::sessions::{level, unit};

/// Short times, so that half a minute of waiting takes a few seconds.
pub const TIMES: &str = "[sessions]\nheartbeat_interval_seconds = 1\nreplica_ttl_seconds = 2\n";

/// Starts a server over this Redis.
fn over(redis: &Redis) -> Server {
    Server::configured(&["--store", &redis.url()], TIMES)
}

async fn is_connected(server: &Server, name: &str) -> bool {
    unit(server, "web", name).await.is_some_and(|unit| unit.connected)
}

async fn causes(server: &Server) -> Vec<String> {
    let request = v1::ListStatusEventsRequest { application: "web".into(), ..Default::default() };
    let events = server.applications().await.list_status_events(request).await.unwrap();
    events.into_inner().events.into_iter().map(|event| event.cause).collect()
}

/// Returns a hello that continues with the incarnation.
fn again() -> v1::Hello {
    v1::Hello { incarnation: Some(1), ..hello("web", "web/0") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_of_one_replica_is_asked_and_read_through_the_other() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (one, other) = (over(&redis), over(&redis));
    let mut peer = Peer::connect(&one, hello("web", "web/0")).await;
    peer.keep_alive();
    let question = peer.question().await;
    let seq = peer.replace(&question.collect_id, vec![status(Level::Active, "first")]).await;
    peer.acknowledged(seq).await;
    let request = v1::CollectApplicationRequest {
        application: "web".into(),
        deadline: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
        ..Default::default()
    };
    for n in 0..5 {
        let (mut client, request) = (other.applications().await, request.clone());
        let call = tokio::spawn(async move { client.collect_application(request).await });
        let question = peer.question().await;
        let message = format!("answer {n}");
        peer.replace(&question.collect_id, vec![status(Level::Waiting, &message)]).await;
        let collected = call.await.unwrap().unwrap().into_inner();
        assert_eq!((collected.asked_count, collected.answered_count), (1, 1));
        let [answer] = &collected.answers[..] else { panic!("{collected:?}") };
        assert!(answer.answered && answer.unit.as_ref().unwrap().connected);
        assert_eq!(answer.statuses[0].report.as_ref().unwrap().message, message);
        assert_eq!(level(&other, "web").await, Level::Waiting);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_one_ends_that_on_the_other() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (one, other) = (over(&redis), over(&redis));
    let mut old = Peer::connect(&one, hello("web", "web/0")).await;
    let mut same = Peer::connect(&other, again()).await;
    assert!(matches!(old.answer().await, Told::Superseded(s) if s.incarnation == 1));
    assert_eq!(reason(&old.end().await.unwrap_err()), "STALE_INCARNATION");
    let new = Peer::connect(&one, hello("web", "web/0")).await;
    assert_eq!(new.welcome.incarnation, 2);
    assert!(matches!(same.answer().await, Told::Superseded(s) if s.incarnation == 2));
    assert_eq!(reason(&same.end().await.unwrap_err()), "STALE_INCARNATION");
    new.keep_alive();
    assert!(is_connected(&other, "web/0").await && is_connected(&one, "web/0").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_units_of_a_killed_replica_have_one_ttl_to_connect_elsewhere() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (one, other) = (over(&redis), over(&redis));
    let mut comes_back = Peer::connect(&one, hello("web", "web/0")).await;
    let mut stays_away = Peer::connect(&one, hello("web", "web/1")).await;
    for peer in [&mut comes_back, &mut stays_away] {
        peer.keep_alive();
        let seq = peer.replace("", vec![status(Level::Active, "serving")]).await;
        peer.acknowledged(seq).await;
    }
    let history = causes(&other).await;
    one.kill();
    let killed = Instant::now();
    eventually("its units are not connected", async || {
        (!is_connected(&other, "web/0").await && !is_connected(&other, "web/1").await).then_some(())
    })
    .await;
    let took = killed.elapsed();
    assert!((1..=5).contains(&took.as_secs()), "{took:?}");
    for name in ["web/0", "web/1"] {
        let found = unit(&other, "web", name).await.unwrap();
        assert_eq!((found.freshness(), found.level()), (Freshness::Fresh, Level::Active));
    }
    let back = Peer::connect(&other, again()).await;
    back.keep_alive();
    assert_eq!(back.welcome.incarnation, 1);
    eventually("who stays away is stale", async || {
        let found = unit(&other, "web", "web/1").await?;
        (found.freshness() == Freshness::Stale).then_some(())
    })
    .await;
    let found = unit(&other, "web", "web/0").await.unwrap();
    assert_eq!((found.freshness(), found.connected), (Freshness::Fresh, true));
    // The history has one new event, that the other unit did not return; the unit that reconnected
    // adds none.
    assert_eq!(causes(&other).await.len(), history.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_was_frozen_asserts_its_sessions_again() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (one, other) = (over(&redis), over(&redis));
    let mut peer = Peer::connect(&one, hello("web", "web/0")).await;
    peer.keep_alive();
    let mut moves = Peer::connect(&one, hello("web", "web/1")).await;
    moves.keep_alive();
    one.signal("STOP");
    let seq = peer.report(vec![status(Level::Blocked, "said meanwhile")]).await;
    eventually("its units are not connected", async || {
        (!is_connected(&other, "web/0").await && !is_connected(&other, "web/1").await).then_some(())
    })
    .await;
    let moved = v1::Hello { incarnation: Some(1), ..hello("web", "web/1") };
    let moved = Peer::connect(&other, moved).await;
    moved.keep_alive();
    one.signal("CONT");
    // No report of the worker is refused.
    peer.acknowledged(seq).await;
    eventually("it is connected again", async || is_connected(&other, "web/0").await.then_some(()))
        .await;
    // The other replica reads the report from the log.
    let is_blocked = async || (level(&other, "web").await == Level::Blocked).then_some(());
    eventually("the other replica has the report", is_blocked).await;
    // The unit that moved stays on the other replica.
    assert!(matches!(moves.answer().await, Told::Superseded(_)));
    assert_eq!(reason(&moves.end().await.unwrap_err()), "STALE_INCARNATION");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        assert!(is_connected(&other, "web/1").await && is_connected(&other, "web/0").await);
    }
}
