//! An outage of the server or its store does not count as silence of workers or peers.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_store_counts_as_silence_of_no_unit() {
    let replica = Replica::new();
    let _others = replica.workers("web", 3).await;
    let silent = replica.worker("web/9").await;
    let ttl = silent.welcome.heartbeat_interval * 3;
    tokio::time::sleep(secs(10)).await;
    replica.store.set_away(true);
    tokio::time::sleep(secs(3600)).await;
    assert!(!silent.session.is_finished());
    replica.store.set_away(false);
    let start = Instant::now();
    assert!(matches!(silent.session.await.unwrap(), End::Silent(_)));
    let rest = ttl - secs(10);
    let took = start.elapsed();
    assert!(rest - secs(2) < took && took < rest + secs(2), "{took:?} of {rest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stall_of_the_process_counts_as_silence_of_no_unit() {
    let replica = Replica::new();
    let _others = replica.workers("web", 3).await;
    let silent = replica.worker("web/9").await;
    // All tasks sleep too long, as when the process is stopped.
    for _ in 0..5 {
        tokio::time::advance(secs(3600)).await;
        tokio::task::yield_now().await;
    }
    assert!(!silent.session.is_finished());
    assert!(matches!(silent.session.await.unwrap(), End::Silent(_)));
}

#[tokio::test(start_paused = true)]
async fn a_slow_commit_holds_the_sender_back_and_is_no_silence() {
    let replica = Replica::new();
    let _others = replica.workers("web", 3).await;
    let mut worker = replica.worker("web/9").await;
    replica.store.set_hanging(true);
    let first = worker.report(Level::Active, "slow").await;
    tokio::time::sleep(secs(1)).await;
    for n in 0..500 {
        worker.report(Level::Active, &format!("{n}")).await;
    }
    tokio::time::sleep(secs(600)).await;
    // The first one is being committed; none of the others was read.
    assert_eq!(worker.say.capacity(), worker.say.max_capacity() - 500);
    replica.store.set_hanging(false);
    worker.acknowledged(first).await;
    let last = worker.seq;
    worker.acknowledged(last).await;
    worker.keep_alive();
    tokio::time::sleep(secs(100)).await;
    assert!(!worker.session.is_finished() && replica.is_connected("web/9").await);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_committed_once_the_store_is_back() {
    let replica = Replica::new();
    let mut workers = replica.workers("web", 6).await;
    replica.store.set_away(true);
    let goodbye = workers.remove(0);
    goodbye.say(Inbound::Goodbye { removed: false }).await;
    assert!(matches!(goodbye.session.await.unwrap(), End::Goodbye));
    assert!(matches!(workers.remove(0).lose_sight().await, End::Closed));
    tokio::time::sleep(secs(600)).await;
    assert!(replica.is_connected("web/0").await && replica.is_connected("web/1").await);
    replica.store.set_away(false);
    assert!(replica.gone("web/0").await < secs(5));
    assert!(replica.gone("web/1").await < secs(5));
    assert!(replica.is_connected("web/2").await);
}

#[tokio::test(start_paused = true)]
async fn a_session_with_an_unanswered_begin_is_ended() {
    let replica = Replica::new();
    let _others = replica.workers("web", 3).await;
    replica.store.lose_answers(usize::MAX);
    assert!(replica.open("web/9", None).await.is_err());
    replica.store.lose_answers(0);
    let unit = async || {
        let read = |state: &AppState| state.unit(&mk_unit("web/9")).cloned();
        replica.read("web", read).await
    };
    // A reader of the store sees a session that no replica holds, but not for long.
    let records = replica.store.load(&mk_app("web")).await.unwrap();
    let stored = records.units.iter().find(|(name, _)| *name == mk_unit("web/9"));
    assert!(stored.unwrap().1.session().is_some());
    let ended = async || unit().await.is_some_and(|unit| unit.session().is_none());
    assert!(after(ended).await < secs(10));
    // The session of a unit that reconnected meanwhile stays.
    replica.store.lose_answers(usize::MAX);
    assert!(replica.open("web/8", None).await.is_err());
    replica.store.lose_answers(0);
    let back = replica.worker("web/8").await;
    back.keep_alive();
    tokio::time::sleep(secs(60)).await;
    assert!(replica.is_connected("web/8").await);
}

#[tokio::test(start_paused = true)]
async fn reports_during_an_outage_are_refused_and_the_session_goes_on() {
    let replica = Replica::new();
    let mut worker = replica.worker("web/0").await;
    worker.keep_alive();
    replica.store.set_away(true);
    let seq = worker.report(Level::Blocked, "no volume").await;
    let Outbound::Rejected { seq: refused, error } = worker.next().await else { panic!() };
    assert_eq!(refused, seq);
    assert!(matches!(error, aggregator::Error::Unavailable { .. }), "{error}");
    worker.acknowledged(seq).await;
    replica.store.set_away(false);
    let seq = worker.report(Level::Blocked, "no volume").await;
    worker.acknowledged(seq).await;
    assert_eq!(replica.read("web", |state| state.head().summary.level).await, Level::Blocked);
}
