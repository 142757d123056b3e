//! A silent worker is disconnected; heartbeats cost no commit.

use super::*;

#[tokio::test(start_paused = true)]
async fn silence_for_three_intervals_is_the_end_then_stale_then_lost() {
    let replica = Replica::new();
    let _others = replica.workers("web", 3).await;
    let silent = replica.worker("web/9").await;
    let ttl = silent.welcome.heartbeat_interval * 3;
    let start = Instant::now();
    let End::Silent(after) = silent.session.await.unwrap() else { panic!() };
    assert_eq!(after, ttl, "as often as it was told");
    let took = start.elapsed();
    assert!(ttl <= took && took < ttl + secs(1), "{took:?}");
    assert!(replica.gone("web/9").await < secs(2), "after a look around");
    assert_eq!(replica.freshness("web/9").await, Freshness::Stale);
    let lost = after_lost(&replica).await;
    assert!(secs(118) < lost && lost < secs(122), "{lost:?}");
    assert!(replica.is_connected("web/0").await);
}

async fn after_lost(replica: &Replica) -> Duration {
    after(async || replica.freshness("web/9").await == Freshness::Lost).await
}

#[tokio::test(start_paused = true)]
async fn heartbeats_write_nothing() {
    let replica = Replica::new();
    let workers = replica.workers("web", 20).await;
    let before = replica.store.commits();
    assert!(20 <= before);
    tokio::time::sleep(secs(3600)).await;
    assert_eq!(replica.store.commits(), before);
    assert!(workers.iter().all(|worker| !worker.session.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn later_sessions_get_longer_intervals_and_earlier_ones_keep_theirs() {
    let options = Options { heartbeats_per_second_max: 1, ..Options::default() };
    let replica = Replica::with(mk_store(), options);
    let early = replica.worker("web/0").await;
    let few = early.welcome.heartbeat_interval;
    assert!(secs(9) <= few && few <= secs(11), "{few:?}");
    let crowd = replica.workers("crowd", 100).await;
    let late = replica.worker("web/1").await;
    let many = late.welcome.heartbeat_interval;
    assert!(secs(91) <= many && many <= secs(113), "{many:?}");
    let intervals: std::collections::BTreeSet<_> =
        crowd.iter().map(|worker| worker.welcome.heartbeat_interval).collect();
    assert!(50 < intervals.len(), "they differ, so that not all are heard at once");
    for worker in crowd {
        worker.say(Inbound::Goodbye { removed: true }).await;
        worker.session.await.unwrap();
    }
    // The load is gone, but a session keeps the longer interval of its welcome.
    tokio::time::sleep(many * 2).await;
    assert!(early.session.is_finished() && !late.session.is_finished());
    tokio::time::sleep(many + secs(1)).await;
    assert!(late.session.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_read_its_messages_is_disconnected() {
    let replica = Replica::new();
    let _others = replica.workers("web", 3).await;
    let deaf = replica.worker("web/9").await;
    deaf.keep_alive();
    let start = Instant::now();
    let mut sent = 0;
    let command = Command::Clear {
        reporter: deaf.reporter(),
        component: None,
        key: None,
        kind: Some(Kind::Push),
    };
    loop {
        // Once the session stops reading, the connection's flow control stops the sender.
        let said = Inbound::Command { seq: sent + 1, command: command.clone(), answers: None };
        match tokio::time::timeout(secs(1), deaf.say.send(said)).await {
            Ok(Ok(())) => sent += 1,
            Ok(Err(_ended)) => break,
            Err(_held_back) => {}
        }
    }
    assert!(matches!(deaf.session.await.unwrap(), End::Silent(_)));
    assert!(start.elapsed() < secs(40), "{:?}", start.elapsed());
    assert!(sent < 10_000, "{sent} were taken of one who does not listen");
    assert!(replica.gone("web/9").await < secs(3));
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_shows_immediately_and_a_removed_unit_is_gone() {
    let replica = Replica::new();
    let [stays, goes] = ["web/0", "web/1"];
    let (one, other) = (replica.worker(stays).await, replica.worker(goes).await);
    one.say(Inbound::Goodbye { removed: false }).await;
    assert!(matches!(one.session.await.unwrap(), End::Goodbye));
    assert!(!replica.is_connected(stays).await);
    other.say(Inbound::Goodbye { removed: true }).await;
    other.session.await.unwrap();
    assert!(replica.read("web", |state| state.unit(&mk_unit(goes)).is_none()).await);
    assert_eq!(replica.freshness(stays).await, Freshness::Fresh, "it may come back");
}
