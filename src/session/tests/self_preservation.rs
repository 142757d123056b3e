//! Ends without a goodbye: which sessions are disconnected, when, and when self-preservation
//! starts.

use super::*;

#[tokio::test(start_paused = true)]
async fn one_silent_unit_of_ten_is_judged_after_a_check_of_the_others() {
    let replica = Replica::new();
    let mut workers = replica.workers("web", 10).await;
    assert!(matches!(workers.remove(3).lose_sight().await, End::Closed));
    let took = replica.gone("web/3").await;
    assert!(secs(1) <= took && took < secs(2), "{took:?}");
    assert!(!replica.is_suspect("web"));
    assert_eq!(replica.freshness("web/3").await, Freshness::Fresh, "it may come back");
    let took = after(async || replica.freshness("web/3").await == Freshness::Stale).await;
    assert!(secs(28) < took && took < secs(35), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn five_silent_units_of_ten_are_judged_and_six_are_held_for_a_time() {
    let replica = Replica::new();
    let mut workers = replica.workers("web", 10).await;
    for worker in workers.drain(..5) {
        worker.lose_sight().await;
    }
    assert!(replica.gone("web/0").await < secs(2));
    assert!(!replica.is_suspect("web"));

    let replica = Replica::new();
    let mut workers = replica.workers("web", 10).await;
    for worker in workers.drain(..6) {
        worker.lose_sight().await;
    }
    let took = after(async || replica.is_suspect("web")).await;
    assert!(took < secs(2), "{took:?}");
    let released = after(async || !replica.is_suspect("web")).await;
    assert!(secs(26) < released && released < secs(31), "{released:?}");
    assert!(replica.gone("web/0").await < secs(1));
    // Their ttl has passed.
    assert_eq!(replica.freshness("web/0").await, Freshness::Stale);
    assert!(replica.is_connected("web/9").await);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_judged_while_this_server_may_be_at_fault() {
    let replica = Replica::new();
    let workers = replica.workers("web", 10).await;
    let commits = replica.store.commits();
    for worker in workers {
        worker.lose_sight().await;
    }
    tokio::time::sleep(secs(25)).await;
    assert_eq!(replica.store.commits(), commits);
    assert!(replica.is_suspect("web"));
    assert!(replica.is_connected("web/0").await);
    assert_eq!(replica.freshness("web/0").await, Freshness::Fresh);
}

#[tokio::test(start_paused = true)]
async fn a_single_silent_unit_is_judged_within_one_ttl() {
    let replica = Replica::new();
    let workers = replica.workers("web", 1).await;
    for worker in workers {
        worker.lose_sight().await;
    }
    let took = replica.gone("web/0").await;
    assert!(secs(26) < took && took < secs(32), "{took:?}");
    assert!(!replica.is_suspect("web"));
    assert_eq!(replica.freshness("web/0").await, Freshness::Stale);
    let lost = after(async || replica.freshness("web/0").await == Freshness::Lost).await;
    assert!(lost < secs(122), "{lost:?}");
    // Of two, one is not more than half.
    let mut workers = replica.workers("two", 2).await;
    workers.remove(0).lose_sight().await;
    assert!(replica.gone("two/0").await < secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_returns_during_self_preservation_leaves_no_event() {
    let replica = Replica::new();
    let workers = replica.workers("web", 10).await;
    let history = replica.store.events(&mk_app("web"), None, 1000).await.unwrap();
    for worker in workers {
        worker.lose_sight().await;
    }
    after(async || replica.is_suspect("web")).await;
    let mut back = Vec::new();
    for n in 0..10 {
        back.push(replica.open(&format!("web/{n}"), Some(1)).await.unwrap());
    }
    back.iter().for_each(Worker::keep_alive);
    let released = after(async || !replica.is_suspect("web")).await;
    assert!(released < secs(31), "{released:?}");
    tokio::time::sleep(secs(300)).await;
    assert_eq!(replica.store.events(&mk_app("web"), None, 1000).await.unwrap(), history);
    for n in 0..10 {
        assert!(replica.is_connected(&format!("web/{n}")).await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_share_is_configured() {
    let options = Options { vanish_percent_max: 100, ..Options::default() };
    let replica = Replica::with(mk_store(), options);
    for worker in replica.workers("web", 3).await {
        worker.lose_sight().await;
    }
    assert!(replica.gone("web/0").await < secs(2));
    let options = Options { vanish_percent_max: 0, ..Options::default() };
    let replica = Replica::with(mk_store(), options);
    let mut workers = replica.workers("web", 10).await;
    workers.remove(0).lose_sight().await;
    let took = replica.gone("web/0").await;
    assert!(secs(26) < took && took < secs(32), "any one is held: {took:?}");
}
