//! Tests of notifications: which changes observers receive, in which order; and of pruning.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::revision::Revision;
use crate::store::{Position, Store};

use super::driver::{Driver, Recorder, Seen, mk_app};

pub(super) async fn followers_are_told_in_order_before_commit_returns(store: Arc<dyn Store>) {
    let recorder = Recorder::on(&store);
    let tasks = (0..8).map(|n| {
        let (store, recorder) = (store.clone(), recorder.clone());
        tokio::spawn(async move {
            let name = format!("app-{n}");
            let mut driver = Driver::new(&store, &name).await;
            for i in 0..20 {
                driver.report("u/0", &format!("step {}", "x".repeat(i))).await;
                let revision = driver.revision();
                let is_this = |notified: &Seen| match notified {
                    Seen::Changed(app, _, at, _) => (app, *at) == (&name, revision),
                    Seen::Forgotten(_) => false,
                };
                assert!(recorder.notified().iter().any(is_this));
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let expected: Vec<u64> = (1..=160).collect();
    assert_eq!(recorder.positions(), expected);
}

pub(super) async fn following_in_the_middle_leaves_nothing_out(store: Arc<dyn Store>) {
    let tasks = (0..4).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut driver = Driver::new(&store, &format!("app-{n}")).await;
            for i in 0..40 {
                driver.report("u/0", &"x".repeat(i)).await;
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let first = Recorder::on(&store);
    let mut observers = vec![first.clone()];
    while !tasks.iter().all(|task| task.is_finished()) {
        // One more after each few changes: adding observers all the time would leave no time for
        // commits.
        if 5 * observers.len() < first.positions().len() {
            observers.push(Recorder::on(&store));
        }
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    let last_of_each = |recorder: &Recorder| {
        let notified = recorder.notified().into_iter();
        let changed = notified.filter_map(|notified| match notified {
            Seen::Changed(app, position, revision, _) => Some((app, (position, revision))),
            Seen::Forgotten(_) => None,
        });
        changed.collect::<BTreeMap<_, _>>()
    };
    let all = last_of_each(&Recorder::on(&store));
    assert_eq!(all.len(), 4);
    assert!(all.values().all(|(_, revision)| *revision == Revision(40)));
    for observer in observers {
        let positions = observer.positions();
        assert!(positions.windows(2).all(|pair| pair[0] < pair[1]));
        // Its initial notifications may leave out replaced changes; later ones must be complete.
        let tail = positions.iter().rev().zip((1..=160).rev());
        let followed = tail.take_while(|(got, expected)| *got == expected).count();
        assert!(positions.len() <= followed + 4, "{positions:?}");
        assert_eq!(last_of_each(&observer), all);
    }
}

pub(super) async fn a_deletion_leaves_a_tombstone(store: Arc<dyn Store>) {
    let recorder = Recorder::on(&store);
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "one").await;
    web.delete().await;
    web.check().await;
    let records = store.load(&mk_app("web")).await.unwrap();
    assert!(records.head.deleted && records.statuses.is_empty() && records.units.is_empty());
    let tombstone = Seen::Changed("web".to_string(), Position(2), Revision(2), true);
    assert_eq!(recorder.notified().last(), Some(&tombstone));
    assert_eq!(Recorder::on(&store).notified(), [tombstone]);

    let mut again = Driver::new(&store, "web").await;
    again.report("web/0", "again").await;
    again.check().await;
    assert_eq!(again.revision(), Revision(3));
    let events = again.events().await;
    let numbers: Vec<u64> = events.iter().map(|e| e.number).collect();
    let expected: Vec<u64> = (0..again.state.head().next_event).rev().collect();
    assert_eq!(numbers, expected);
    let notified = Seen::Changed("web".to_string(), Position(3), Revision(3), false);
    assert_eq!(Recorder::on(&store).notified(), [notified]);
}

pub(super) async fn tombstones_are_forgotten(store: Arc<dyn Store>) {
    let recorder = Recorder::on(&store);
    let mut kept = Driver::new(&store, "kept").await;
    kept.report("u/0", "here").await;
    for n in 0..4 {
        let mut app = Driver::new(&store, &format!("app-{n}")).await;
        for i in 0..=n {
            app.report("u/0", &"x".repeat(i)).await;
        }
        app.delete().await;
    }
    // app-0 was reported once and app-1 twice; each deletion is one more revision.
    let is_forgotten = |notified: &Seen| matches!(notified, Seen::Forgotten(_));
    let forgotten: Vec<Seen> = recorder.notified().into_iter().filter(is_forgotten).collect();
    let expected = [Seen::Forgotten(Position(3)), Seen::Forgotten(Position(6))];
    assert_eq!(forgotten, expected);

    for name in ["app-0", "app-1", "never"] {
        let mut app = Driver::new(&store, name).await;
        assert_eq!(app.revision(), Revision(3), "{name}");
        assert!(app.events().await.is_empty());
        app.check().await;
        if name == "app-0" {
            app.report("u/0", "again").await;
            assert_eq!(app.revision(), Revision(4));
            let numbers: Vec<_> = app.events().await.iter().map(|e| e.number).collect();
            assert_eq!(numbers.last(), Some(&0));
        }
    }
    // It was created after app-0 was pruned, so its revisions start above 2.
    let last = Driver::new(&store, "app-3").await;
    assert_eq!(last.revision(), Revision(7));
    let notified = Recorder::on(&store).notified();
    assert_eq!(notified.first(), Some(&Seen::Forgotten(Position(6))));
    assert_eq!(notified.len(), 5, "{notified:?}");
    kept.check().await;
}

pub(super) async fn no_tombstone_need_be_kept(store: Arc<dyn Store>) {
    let mut app = Driver::new(&store, "app").await;
    app.report("u/0", "here").await;
    let recorder = Recorder::on(&store);
    app.delete().await;
    let deleted = Seen::Changed("app".to_string(), Position(2), Revision(2), true);
    assert_eq!(recorder.notified()[1..], [deleted, Seen::Forgotten(Position(2))]);
    let mut again = Driver::new(&store, "app").await;
    assert_eq!(again.revision(), Revision(2));
    again.report("u/0", "again").await;
    assert_eq!(recorder.positions(), [1, 2, 3]);
}
