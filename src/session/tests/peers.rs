//! Replicas that are gone, and those that only seem to be.

use super::*;

/// Stops everything that a replica does without a message, like `kill -9`.
async fn kill(replica: &Replica) {
    let inner = &replica.sessions.inner;
    inner.stopped.cancel();
    inner.tasks.close();
    inner.tasks.wait().await;
}

#[tokio::test(start_paused = true)]
async fn the_units_of_a_dead_replica_are_without_a_session_then_stale() {
    let [one, other] = Replica::two();
    let dies = one.worker("web/0").await;
    dies.keep_alive();
    tokio::time::sleep(secs(60)).await;
    assert!(other.is_connected("web/0").await);
    kill(&one).await;
    let took = other.gone("web/0").await;
    assert!(secs(8) <= took && took <= secs(13), "{took:?}");
    assert_eq!(other.freshness("web/0").await, Freshness::Fresh, "it may connect elsewhere");
    let took = after(async || other.freshness("web/0").await == Freshness::Stale).await;
    // Another replica may have received calls of the unit since. It writes their time only after a
    // third of the ttl.
    assert!(secs(28) <= took && took <= secs(43), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_connects_to_another_replica_in_time_leaves_no_event() {
    let [one, other] = Replica::two();
    let _dies = one.worker("web/0").await;
    let history = one.store.events(&mk_app("web"), None, 1000).await.unwrap();
    kill(&one).await;
    other.gone("web/0").await;
    let back = other.open("web/0", Some(1)).await.unwrap();
    back.keep_alive();
    tokio::time::sleep(secs(600)).await;
    assert!(other.is_connected("web/0").await);
    assert_eq!(other.store.events(&mk_app("web"), None, 1000).await.unwrap(), history);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_the_list_of_replicas_ends_no_session() {
    let [one, other] = Replica::two();
    let worker = one.worker("web/0").await;
    worker.keep_alive();
    let commits = other.store.commits();
    for _ in 0..10 {
        for (forgets, seconds) in [(true, 3), (false, 4)] {
            [&one, &other].iter().for_each(|replica| replica.store.forget_replicas(forgets));
            tokio::time::sleep(secs(seconds)).await;
        }
    }
    assert_eq!((one.store.commits(), other.store.commits()), (1, commits));
    // The same after an hour without the store, for both.
    [&one, &other].iter().for_each(|replica| replica.store.set_away(true));
    tokio::time::sleep(secs(3600)).await;
    other.store.set_away(false);
    tokio::time::sleep(secs(5)).await;
    one.store.set_away(false);
    tokio::time::sleep(secs(60)).await;
    assert_eq!((one.store.commits(), other.store.commits()), (1, commits));
    assert!(!worker.session.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_store_of_one_process_has_no_other_replica() {
    let replica = Replica::new();
    let before = crate::domain::unit::presence::ReplicaId(99);
    let session = SessionId { replica: before, number: 1 };
    let labels = BTreeMap::new();
    let unit = mk_unit("web/0");
    let who = Newcomer { unit, incarnation: None, stateless: false, labels };
    replica.apply("web", Command::Connect(who, session)).await;
    assert!(replica.gone("web/0").await < secs(3));
}

/// A process that is restarted again and again sees no peer for as long as the ttl of replicas. The
/// first beat that it sees has its age.
#[tokio::test(start_paused = true)]
async fn short_lived_processes_end_the_sessions_of_the_one_before_them() {
    let memory = MemoryStore::new(Retention::default()).shared();
    let start = || Replica::with(FaultyStore::over(memory.another()), Options::default());
    let first = start();
    let _dies = first.worker("web/0").await;
    kill(&first).await;
    let died = Instant::now();
    loop {
        let next = start();
        tokio::time::sleep(secs(4)).await;
        let is_connected = next.is_connected("web/0").await;
        kill(&next).await;
        if !is_connected {
            break;
        }
        assert!(died.elapsed() < secs(60), "its session never ends");
    }
    let took = died.elapsed();
    assert!(secs(8) <= took && took <= secs(16), "{took:?}");
}
