//! One unit has one session: the newest.

use super::*;
use crate::domain::rejected::Rejected;
use crate::domain::unit::refused::IdentityError;

#[tokio::test(start_paused = true)]
async fn a_newer_session_ends_the_older_here() {
    let replica = Replica::new();
    let mut old = replica.worker("web/0").await;
    let new = replica.worker("web/0").await;
    assert_eq!(new.welcome.incarnation, 2);
    assert!(matches!(old.next().await, Outbound::Superseded { incarnation: 2 }));
    let End::Superseded { current, why, .. } = old.session.await.unwrap() else { panic!() };
    let unit = mk_unit("web/0");
    assert_eq!(current, 2);
    assert_eq!(why, IdentityError::StaleIncarnation { unit, given: 1, current: 2 });
    tokio::time::sleep(secs(5)).await;
    assert!(replica.is_connected("web/0").await, "its end is not that of the newer");
    assert_eq!(replica.sessions.inner.table.len(), 1);
}

/// The store observer and the newer session both end the older one, at any moment.
#[test]
fn a_session_that_several_threads_end_deadlocks_with_none() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    let (ended, end) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let replica = Replica::new();
        for round in 1..=50 {
            let old = replica.worker("web/0").await;
            let entry = replica.sessions.inner.table.get(&mk_app("web"), &mk_unit("web/0"));
            let entry = entry.unwrap();
            let enders = [(); 2].map(|()| {
                let (entry, is_over) = (entry.clone(), old.session.abort_handle());
                std::thread::spawn(move || {
                    while !is_over.is_finished() {
                        entry.end(round + 1);
                    }
                })
            });
            assert!(matches!(old.session.await.unwrap(), End::Superseded { .. }));
            enders.into_iter().for_each(|ender| ender.join().unwrap());
        }
        ended.send(()).unwrap();
    });
    let waited = end.recv_timeout(secs(60));
    // Without a wait for its threads: a deadlocked one does not end.
    runtime.shutdown_background();
    waited.expect("no deadlock");
}

#[tokio::test(start_paused = true)]
async fn a_newer_session_ends_the_older_elsewhere() {
    let [one, other] = Replica::two();
    let mut old = one.worker("web/0").await;
    let new = other.open("web/0", Some(1)).await.unwrap();
    assert!(matches!(old.next().await, Outbound::Superseded { incarnation: 1 }));
    let End::Superseded { current, why, .. } = old.session.await.unwrap() else { panic!() };
    let over = IdentityError::SessionOver { unit: mk_unit("web/0") };
    assert_eq!((current, why), (1, over), "it is of the same incarnation");
    tokio::time::sleep(secs(5)).await;
    let holds = other.unit("web/0").await.session().unwrap();
    assert_eq!(holds, new.welcome.session);
    assert!(!new.session.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_replica_taken_for_dead_asserts_its_sessions() {
    let [one, other] = Replica::two();
    let mut worker = one.worker("web/0").await;
    worker.keep_alive();
    let end_sessions = Command::EndSessions { replica: one.store.replica(), ttl: secs(30) };
    other.apply("web", end_sessions.clone()).await;
    // A report before the assertion is accepted.
    let seq = worker.report(Level::Blocked, "no volume").await;
    worker.acknowledged(seq).await;
    assert!(after(async || other.is_connected("web/0").await).await < secs(1));
    assert_eq!(other.unit("web/0").await.session(), Some(worker.welcome.session));
    // The same if the store is unavailable at that moment.
    let commits = one.store.commits();
    one.store.set_away(true);
    other.apply("web", end_sessions).await;
    tokio::time::sleep(secs(10)).await;
    assert!(!other.is_connected("web/0").await);
    assert_eq!(one.store.commits(), commits);
    one.store.set_away(false);
    assert!(after(async || other.is_connected("web/0").await).await < secs(3));
    assert!(!worker.session.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_replaced_session_does_not_take_the_unit_back() {
    let [one, other] = Replica::two();
    let stays = one.worker("web/0").await;
    let entry = one.sessions.inner.table.get(&mk_app("web"), &mk_unit("web/0")).unwrap();
    // The notification is late.
    let new = other.open("web/0", Some(1)).await.unwrap();
    assert!(!one.sessions.inner.assert_session(&entry).await);
    let who = entry.who.clone();
    let request =
        Request { id: None, command: Command::Reconnect(who, entry.session, entry.revision) };
    let refused = one.aggregator.apply(&mk_app("web"), request).await.unwrap_err();
    let over = Rejected::Identity(IdentityError::SessionOver { unit: mk_unit("web/0") });
    assert_eq!(refused, aggregator::Error::Rejected(over));
    assert_eq!(one.unit("web/0").await.session(), Some(new.welcome.session));
    assert!(matches!(stays.session.await.unwrap(), End::Superseded { .. }));
}

/// The newer session has ended, and the replica of the older one stood still meanwhile.
#[tokio::test(start_paused = true)]
async fn an_older_session_does_not_follow_a_newer_one_that_has_ended() {
    let [one, other] = Replica::two();
    let stale = one.worker("web/0").await;
    let entry = one.sessions.inner.table.get(&mk_app("web"), &mk_unit("web/0")).unwrap();
    let mut new = other.open("web/0", Some(1)).await.unwrap();
    let seq = new.report(Level::Blocked, "no volume").await;
    new.acknowledged(seq).await;
    new.say(Inbound::Goodbye { removed: false }).await;
    assert!(matches!(new.session.await.unwrap(), End::Goodbye));
    let who = entry.who.clone();
    let command = Command::Reconnect(who, entry.session, entry.revision);
    let request = Request { id: None, command };
    let refused = one.aggregator.apply(&mk_app("web"), request).await.unwrap_err();
    let over = Rejected::Identity(IdentityError::SessionOver { unit: mk_unit("web/0") });
    assert_eq!(refused, aggregator::Error::Rejected(over));
    assert!(matches!(stale.session.await.unwrap(), End::Superseded { .. }));
    assert!(!other.is_connected("web/0").await);
}

/// The store may have lost the opening of a session, and name the one before it.
#[tokio::test(start_paused = true)]
async fn a_session_replaces_an_older_one_that_a_data_loss_brought_back() {
    let [one, other] = Replica::two();
    let old = one.worker("web/0").await;
    let since = one.unit("web/0").await.session_since;
    let session = SessionId { replica: other.store.replica(), number: 1 };
    let labels = BTreeMap::new();
    let unit = mk_unit("web/0");
    let who = Newcomer { unit, incarnation: Some(1), stateless: false, labels };
    other.apply("web", Command::Reconnect(who, session, since.next())).await;
    assert!(matches!(old.session.await.unwrap(), End::Superseded { .. }));
    assert_eq!(one.unit("web/0").await.session(), Some(session));
}

#[tokio::test(start_paused = true)]
async fn a_removed_unit_or_application_ends_its_sessions() {
    let replica = Replica::new();
    let one = replica.worker("web/0").await;
    let other = replica.worker("web/1").await;
    replica.apply("web", Command::RemoveUnit(mk_unit("web/0"))).await;
    assert!(matches!(one.session.await.unwrap(), End::Superseded { .. }));
    assert!(!other.session.is_finished());
    replica.aggregator.delete(&mk_app("web"), None).await.unwrap();
    assert!(matches!(other.session.await.unwrap(), End::Superseded { .. }));
    tokio::time::sleep(secs(120)).await;
    let read = replica.aggregator.read(&mk_app("web"), Revision(0), |_| ()).await;
    assert!(read.is_err(), "their end does not bring it back");
}

#[tokio::test(start_paused = true)]
async fn there_are_no_more_sessions_than_there_may_be() {
    let options = Options { sessions_max: 2, ..Options::default() };
    let replica = Replica::with(mk_store(), options);
    let workers = replica.workers("web", 2).await;
    let refused = replica.open("web/9", None).await.err().unwrap();
    assert!(matches!(refused, OpenError::TooMany(2)), "{refused}");
    for worker in workers {
        worker.lose_sight().await;
    }
    assert!(replica.open("web/9", None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_drain_reaches_every_session_and_leaves_all_statuses_fresh() {
    let replica = Replica::new();
    let mut workers = replica.workers("web", 10).await;
    let drained = tokio::spawn({
        let sessions = replica.sessions.clone();
        async move { sessions.drain().await }
    });
    for worker in &mut workers {
        assert!(matches!(worker.next().await, Outbound::Drain { .. }));
    }
    drained.await.unwrap();
    for n in 0..10 {
        let unit = format!("web/{n}");
        assert!(!replica.is_connected(&unit).await);
        assert_eq!(replica.freshness(&unit).await, Freshness::Fresh);
    }
    assert!(replica.open("web/0", None).await.is_err());
}
