//! Tests of a store that two processes share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;

use crate::domain::name::{PartName, UnitName};
use crate::domain::revision::Revision;
use crate::store::{
    Broadcast, BroadcastKind, CommitError, ConflictCause, Position, ReadError, Store,
};

use super::deployment::Pair;
use super::driver::{Driver, Recorder, Seen, mk_app, mk_conflict, mk_report, until};

pub(super) async fn each_process_has_an_id_and_beats([one, other]: Pair) {
    assert!(one.is_shared() && other.is_shared());
    assert_ne!(one.replica(), other.replica());
    assert_eq!((one.epoch(), one.buckets()), (other.epoch(), other.buckets()));

    let first = one.beat().await.unwrap()[&one.replica()];
    assert!(one.now().since(first) < Duration::from_secs(10), "{first:?} is a time of the store");
    let seen = other.beat().await.unwrap();
    assert_eq!(seen[&one.replica()], first);
    let latest = first.max(seen[&other.replica()]);
    until("time passes", async || latest < one.now()).await;
    let living = one.beat().await.unwrap();
    assert!(first < living[&one.replica()]);
    assert_eq!(living[&other.replica()], seen[&other.replica()], "it beats for itself alone");
    assert_eq!(other.beat().await.unwrap()[&one.replica()], living[&one.replica()]);
}

pub(super) async fn a_broadcast_reaches_both_after_what_was_committed([one, other]: Pair) {
    let recorders = [Recorder::on(&one), Recorder::on(&other)];
    let mut web = Driver::new(&one, "web").await;
    web.report("web/0", "up").await;
    let question = BroadcastKind::Collect {
        id: 7,
        component: Some(PartName::new("db").unwrap()),
        recompute: true,
        deadline: one.now(),
    };
    let units = vec![(UnitName::new("web/0").unwrap(), Revision(1))];
    let answer = BroadcastKind::Collected { id: 7, to: one.replica(), units };
    let send = async |from: &Arc<dyn Store>, word| -> Result<Broadcast, ReadError> {
        let message = Broadcast { app: mk_app("web"), from: from.replica(), word };
        from.broadcast(message.clone()).await?;
        Ok(message)
    };
    let sent = [send(&one, question).await.unwrap(), send(&other, answer).await.unwrap()];
    for recorder in &recorders {
        until("both messages arrive", async || recorder.record().broadcasts == sent).await;
        assert_eq!(recorder.last("web"), Some((1, false)));
    }
    for store in [&one, &other] {
        assert_eq!(Recorder::on(store).record().broadcasts, [], "a message is not stored");
    }
}

pub(super) async fn a_process_that_is_behind_is_refused_and_catches_up([one, other]: Pair) {
    let mut web = Driver::new(&one, "web").await;
    web.report("web/0", "one").await;
    let mut behind = Driver::new(&other, "web").await;
    let recorder = Recorder::on(&other);
    web.report("web/0", "two").await;
    let conflict = mk_conflict(Revision(2), ConflictCause::Revision);
    let nothing_to_write = behind.draft_all([]);
    for late in [behind.draft(mk_report("web/1", "late")), nothing_to_write] {
        assert_eq!(behind.commit(late).await, conflict);
    }
    assert_eq!(behind.confirm().await, conflict);
    until("the change arrives", async || recorder.last("web") == Some((2, false))).await;
    let mut behind = Driver::new(&other, "web").await;
    behind.check().await;
    assert_eq!(behind.confirm().await, Ok(()));
    behind.report("web/1", "three").await;
    web = Driver::new(&one, "web").await;
    assert_eq!(web.revision(), Revision(3));
    web.check().await;
}

/// In each round, both processes commit at the same revision.
/// A release saves work and changes nothing that a reader sees.
pub(super) async fn a_released_application_is_the_same_for_both([one, other]: Pair) {
    let recorder = Recorder::on(&other);
    other.release(&mk_app("never-loaded")).await;
    let mut web = Driver::new(&one, "web").await;
    for turn in 1..=6 {
        for store in [&one, &other] {
            store.beat().await.unwrap();
        }
        web.report("web/0", &format!("turn {turn}")).await;
        until("the change arrives", async || recorder.last("web") == Some((turn, false))).await;
        let copy = Driver::new(&other, "web").await;
        copy.check().await;
        assert_eq!((copy.revision(), copy.confirm().await), (Revision(turn), Ok(())));
        if turn % 2 == 0 {
            other.release(&mk_app("web")).await;
            one.release(&mk_app("web")).await;
        }
    }
    recorder.check_order();
}

pub(super) async fn two_writers_lose_nothing_and_make_one_order(stores: Pair) {
    const ROUNDS: usize = 40;
    let recorders = [Recorder::on(&stores[0]), Recorder::on(&stores[1])];
    let barrier = Barrier::new(2);
    let write = async |n: usize| {
        let mut conflicts = 0;
        for round in 0..ROUNDS {
            let mut web = Driver::new(&stores[n], "web").await;
            barrier.wait().await;
            loop {
                let report = web.draft(mk_report(&format!("u/{n}"), &"x".repeat(round)));
                match web.commit(report).await {
                    Ok(()) => break,
                    Err(CommitError::Conflict { .. }) => conflicts += 1,
                    Err(other) => panic!("{other}"),
                }
                web = Driver::new(&stores[n], "web").await;
            }
            assert!(Some((web.revision().0, false)) <= recorders[n].last("web"));
        }
        conflicts
    };
    let conflicts = tokio::join!(write(0), write(1));
    assert!(ROUNDS <= conflicts.0 + conflicts.1, "{conflicts:?}");

    let end = Driver::new(&stores[0], "web").await;
    let last = 2 * ROUNDS as u64;
    assert_eq!(end.revision(), Revision(last));
    for n in 0..2 {
        let unit = UnitName::new(&format!("u/{n}")).unwrap();
        let (_, status) = end.state.statuses().of(&unit, None).next().unwrap();
        assert_eq!(status.report.message.len(), ROUNDS - 1);
    }
    let numbers = end.events().await.into_iter().map(|e| e.number).rev();
    assert!(numbers.eq(0..end.state.head().next_event));
    for recorder in &recorders {
        until("the last change arrives", async || recorder.last("web") == Some((last, false)))
            .await;
        assert!(recorder.positions().into_iter().eq(1..=last));
    }
    let [changes, others] = recorders.map(|recorder| recorder.record().changes);
    for (change, other) in changes.iter().zip(&others) {
        assert_eq!((change.bucket, &change.head), (other.bucket, &other.head));
        assert_eq!(change.position, Position(change.head.revision.0));
        let transitions = [change, other].map(|change| change.transition.as_ref());
        for transition in transitions.into_iter().flatten() {
            assert_eq!(transition.base.next(), change.head.revision);
            assert_eq!(transition.head, change.head);
        }
    }
    assert_eq!(Recorder::on(&stores[1]).last("web"), Some((last, false)));
}

/// The store keeps no tombstones.
pub(super) async fn a_prune_reaches_both([one, other]: Pair) {
    let recorders = [Recorder::on(&one), Recorder::on(&other)];
    let mut app = Driver::new(&one, "app").await;
    app.report("u/0", "here").await;
    app.delete().await;
    let changed = |n, deleted| Seen::Changed("app".to_string(), Position(n), Revision(n), deleted);
    let expected = [changed(1, false), changed(2, true), Seen::Forgotten(Position(2))];
    for recorder in &recorders {
        until("the prune arrives", async || recorder.notified() == expected).await;
    }
    let mut again = Driver::new(&other, "app").await;
    assert_eq!(again.revision(), Revision(2));
    again.report("u/0", "again").await;
    until("the change arrives", async || recorders[0].positions() == [1, 2, 3]).await;
}
