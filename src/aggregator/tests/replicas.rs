//! Several aggregators on one store.

use super::*;
use crate::aggregator::replay_queue::{COMMITS_MAX, ReplayQueue};
use crate::domain::bytes::Bytes;
use crate::domain::derive::derive;
use crate::domain::history::Cause;
use crate::domain::name::{OperationId, UnitName};
use crate::domain::operation::command::{NewOperation, OperationAction, OperationCommand};
use crate::domain::operation::{Kind, Payload};
use crate::domain::summary::Summary;
use crate::store::conformance::driver::Recorder;
use crate::store::{Bucket, Change, Position};

fn mk_shared() -> Arc<FaultyStore> {
    FaultyStore::over(MemoryStore::new(Retention::default()).shared())
}

fn two(store: &Arc<FaultyStore>) -> [Aggregator; 2] {
    [start(store.clone()), start(store.clone())]
}

pub(super) async fn summary(aggregator: &Aggregator, app: &AppName, revision: Revision) -> Summary {
    aggregator.read(app, revision, |s| (*s.head().summary).clone()).await.unwrap()
}

async fn causes(store: &FaultyStore, app: &AppName, cause: Cause) -> usize {
    let events = store.events(app, None, 1000).await.unwrap();
    events.iter().filter(|e| e.event.cause == cause).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_reports_to_two_replicas_become_one_history() {
    const REPORTS: usize = 300;
    let store = mk_shared();
    let recorder = Arc::new(Recorder::default());
    store.follow(recorder.clone());
    let replicas = two(&store);
    let app = mk_app("web");
    let reporters = (0..4).map(|n| {
        let (aggregator, app) = (replicas[n % 2].clone(), app.clone());
        tokio::spawn(async move {
            for count in 0..REPORTS {
                let level = [Level::Active, Level::Blocked, Level::Waiting][(n + count) % 3];
                // One unit of its own, and one that all writers report.
                for unit in [format!("web/{n}"), "all/0".to_string()] {
                    let report = mk_report(&unit, level, &format!("{n} says {count}"), None);
                    // A commit that loses too many races is refused; the test repeats it.
                    while aggregator.apply(&app, report.clone()).await.is_err() {}
                }
            }
        })
    });
    for reporter in reporters.collect::<Vec<_>>() {
        reporter.await.unwrap();
    }
    let changes = recorder.record().changes;
    let revisions = changes.iter().map(|change| change.head.revision.0);
    assert!(revisions.eq(1..=changes.len() as u64));
    let last = Revision(changes.len() as u64);
    let read = |s: &AppState| (s.head().clone(), derive(s, 100));
    let [one, other] = &replicas;
    let one = one.read(&app, last, read).await.unwrap();
    assert_eq!(one, other.read(&app, last, read).await.unwrap());
    let state = AppState::load(app.clone(), store.load(&app).await.unwrap());
    assert_eq!(one, read(&state));
    // The last report of each writer is stored.
    let last_words = format!("says {}", REPORTS - 1);
    let own = state.units_after(None).filter(|(unit, _)| unit.as_str().starts_with("web"));
    for (unit, _) in own {
        let (_, status) = state.statuses().of(unit, None).next().unwrap();
        assert!(status.report.message.ends_with(&last_words), "{}", status.report.message);
    }
    assert_eq!(state.head().summary.totals.units, 5);
}

#[tokio::test(start_paused = true)]
async fn commits_of_another_replica_are_replayed_without_a_read() {
    let store = mk_shared();
    let [one, other] = two(&store);
    let app = mk_app("web");
    one.apply(&app, mk_report("web/0", Level::Active, "0", None)).await.unwrap();
    summary(&other, &app, Revision(1)).await;
    let loads = store.loads();
    for count in 1..100 {
        // The writers alternate, so that each needs the other's changes for its commit.
        let (writer, reader) = if count % 3 == 0 { (&other, &one) } else { (&one, &other) };
        let report = mk_report("web/0", Level::Active, &format!("{count} of x"), None);
        let outcome = writer.apply(&app, report).await.unwrap();
        let read = summary(reader, &app, outcome.revision).await;
        assert_eq!(&*read.message, format!("{count} of x"));
    }
    one.delete(&app, None).await.unwrap();
    while other.read(&app, Revision(0), |_| ()).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.loads(), loads);
}

/// While one replica collects the requests of a commit, its log delivers the commit of the other. A
/// decision on the state before would lose its race.
#[tokio::test(start_paused = true)]
async fn a_replica_decides_on_what_its_log_has_delivered() {
    let store = mk_shared();
    let [one, other] = two(&store);
    let app = mk_app("web");
    for replica in [&one, &other] {
        replica.apply(&app, mk_report("web/0", Level::Active, "0", None)).await.unwrap();
    }
    let conflicts = store.conflicts();
    for count in 1..20 {
        let report = |unit| mk_report(unit, Level::Active, &format!("{count} of x"), None);
        let (told, also) =
            tokio::join!(one.apply(&app, report("web/0")), other.apply(&app, report("web/1")));
        assert_ne!(told.unwrap().revision, also.unwrap().revision);
    }
    assert_eq!(store.conflicts(), conflicts);
}

/// Returns two replicas, each with its own way to the store, and what both know: `web/0` is active.
/// The log of the second one is held from then on, and the first one knows that `web/0` is blocked.
async fn with_an_old_copy(app: &AppName) -> ([Aggregator; 2], Arc<FaultyStore>) {
    let memory = MemoryStore::new(Retention::default()).shared();
    let stores = [FaultyStore::over(memory.another()), FaultyStore::over(memory)];
    let [one, other] = stores.each_ref().map(|store| start(store.clone()));
    one.apply(app, mk_report("web/0", Level::Active, "up", None)).await.unwrap();
    summary(&other, app, Revision(1)).await;
    stores[1].hold_log(true);
    one.apply(app, mk_report("web/0", Level::Blocked, "down", None)).await.unwrap();
    assert_eq!(summary(&other, app, Revision(1)).await.level, Level::Active);
    let [_, held] = stores;
    ([one, other], held)
}

/// By its copy, the report only repeats what is stored.
#[tokio::test(start_paused = true)]
async fn a_replica_with_an_old_copy_answers_what_is_in_force() {
    let app = mk_app("web");
    let ([one, other], held) = with_an_old_copy(&app).await;
    let report = mk_report("web/0", Level::Active, "up", None);
    let told = other.apply(&app, report).await.unwrap();
    assert_eq!((told.changed, told.revision), (true, Revision(3)));
    held.hold_log(false);
    for replica in [one, other] {
        assert_eq!(summary(&replica, &app, told.revision).await.level, Level::Active);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_reads_its_copies_again_when_its_log_may_lack_changes() {
    let app = mk_app("web");
    let ([_, other], held) = with_an_old_copy(&app).await;
    held.repeat_data_loss();
    let read = tokio::time::timeout(Duration::from_secs(60), summary(&other, &app, Revision(2)));
    assert_eq!(read.await.unwrap().level, Level::Blocked);
}

/// A heartbeat of an operation does not move the revision, so the other replica is not notified;
/// its next commit must not assume that it has the newest state.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn quiet_commits_are_read_before_the_next_decision() {
    let store = mk_shared();
    let [one, other] = two(&store);
    let app = mk_app("web");
    one.apply(&app, mk_report("web/0", Level::Active, "0", None)).await.unwrap();
    one.apply(&app, operate(OperationAction::Begin(Box::new(mk_upgrade())))).await.unwrap();
    let checkpoint = |state: &AppState| {
        let (_, operation) = state.operations().last().expect("it was begun");
        operation.checkpoint.clone()
    };
    other.read(&app, Revision(2), checkpoint).await.unwrap();
    let reached = Some(Bytes::from(b"step 3".to_vec()));
    let heartbeat =
        OperationAction::Heartbeat { fence: 1, checkpoint: reached.clone(), progress: None };
    one.apply(&app, operate(heartbeat)).await.unwrap();
    let report = mk_report("web/0", Level::Active, "something else", None);
    let told = one.apply(&app, report).await.unwrap().revision;
    summary(&other, &app, told).await;
    other.apply(&app, operate(OperationAction::Release { fence: 1 })).await.unwrap();
    let state = AppState::load(app.clone(), store.load(&app).await.unwrap());
    assert_eq!(Some(checkpoint(&state)), reached);
}

/// The log of the store says nothing of the heartbeat, so the other replica has to read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_quiet_commit_costs_the_other_replica_one_attempt() {
    let store = mk_shared();
    let [one, other] = two(&store);
    let app = mk_app("web");
    one.apply(&app, mk_report("web/0", Level::Active, "0", None)).await.unwrap();
    let begin = OperationAction::Begin(Box::new(mk_upgrade()));
    let begun = one.apply(&app, operate(begin)).await.unwrap().revision;
    summary(&other, &app, begun).await;
    let checkpoint = Some(Bytes::from(b"step 3".to_vec()));
    one.apply(&app, operate(OperationAction::Heartbeat { fence: 1, checkpoint, progress: None }))
        .await
        .unwrap();
    let conflicts = store.conflicts();
    other.apply(&app, operate(OperationAction::Release { fence: 1 })).await.unwrap();
    assert_eq!(store.conflicts(), conflicts + 1);
}

fn operate(action: OperationAction) -> Request {
    let (id, by) = (OperationId::new("up-v2").unwrap(), UnitName::new("web/0").unwrap());
    Request { id: None, command: Command::Operate(OperationCommand { id, by, action }) }
}

fn mk_upgrade() -> NewOperation {
    NewOperation {
        unit: UnitName::application(),
        kind: Kind::Upgrade,
        from_version: "v1".into(),
        target_version: "v2".into(),
        payload: Payload::default(),
        bytes: None,
        deterministic: true,
        reversible: false,
        attempts_max: 5,
        interruptions_max: 10,
        deadline: None,
        lease_duration: Duration::from_secs(60),
        supersede: false,
        note: "".into(),
    }
}

#[test]
fn too_many_commits_of_others_leave_a_gap() {
    let arrivals = ReplayQueue::default();
    let mut push = |revision| {
        let head = Arc::new(crate::domain::app::Head::empty(Revision(revision)));
        let (app, bucket, position) = (mk_app("web"), Bucket(0), Position(revision));
        arrivals.push(&Change { app, bucket, position, head, packed: None, transition: None });
    };
    (1..=COMMITS_MAX as u64).for_each(&mut push);
    (101..=103).for_each(&mut push);
    let arrived = arrivals.take();
    assert!(arrived.has_gap);
    assert!(arrived.commits.len() < COMMITS_MAX);
    assert!(!arrivals.take().has_gap);
}

/// Repeats are not broadcast and mostly not written: the other replica must not expire a status
/// based on its local state.
#[tokio::test(start_paused = true)]
async fn a_status_kept_fresh_by_one_replica_is_not_expired_by_the_other() {
    for by_turns in [false, true] {
        let store = mk_shared();
        let replicas = two(&store);
        let app = mk_app("web");
        let report = mk_report("web/0", Level::Active, "up", Some(30));
        for count in 0..40 {
            let teller = &replicas[if by_turns { count % 2 } else { 0 }];
            assert!(teller.apply(&app, report.clone()).await.unwrap().revision == Revision(1));
            // A little less than the ttl: the stored deadline is as old as possible.
            tokio::time::sleep(Duration::from_millis([9_000, 29_000, 12_000][count % 3])).await;
            for replica in &replicas {
                assert_eq!(summary(replica, &app, Revision(1)).await.totals.stale_units, 0);
            }
        }
        replicas[0].apply(&app, report).await.unwrap();
        let silent = tokio::time::Instant::now();
        let [one, other] = &replicas;
        let stale = summary(one, &app, Revision(2)).await;
        let waited = silent.elapsed();
        assert!((30..=41).contains(&waited.as_secs()), "judged after {waited:?}");
        assert_eq!(stale.totals.stale_units, 1);
        assert_eq!(stale, summary(other, &app, Revision(2)).await);
        // Both tried, and one succeeded.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(store.load(&app).await.unwrap().head.revision, Revision(2));
        assert_eq!(causes(&store, &app, Cause::Expired).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn units_seen_before_a_loss_are_uncertain_until_their_next_report() {
    let store = mk_shared();
    let replicas = two(&store);
    let app = mk_app("web");
    for unit in ["web/0", "web/1"] {
        replicas[0].apply(&app, mk_report(unit, Level::Active, "up", None)).await.unwrap();
    }
    store.lose_data();
    for replica in &replicas {
        let uncertain = summary(replica, &app, Revision(3)).await;
        let text = "unit web/0 uncertain: the store may have lost its last reports";
        assert_eq!((uncertain.level, &*uncertain.message), (Level::Waiting, text));
        assert_eq!((&*uncertain.reason, uncertain.totals.uncertain_units), ("Uncertain", 2));
    }
    let unit = UnitName::new("web/0").unwrap();
    let freshness = |s: &AppState| s.unit(&unit).unwrap().freshness();
    let found = replicas[1].read(&app, Revision(3), freshness).await.unwrap();
    assert_eq!(found, Freshness::Uncertain);
    // The reports are the same as before; their repetition after the loss is the change.
    for (unit, replica, level) in [("web/0", 1, Level::Waiting), ("web/1", 0, Level::Active)] {
        let report = mk_report(unit, Level::Active, "up", None);
        let outcome = replicas[replica].apply(&app, report).await.unwrap();
        assert!(outcome.changed);
        for replica in &replicas {
            assert_eq!(summary(replica, &app, outcome.revision).await.level, level);
        }
    }
    // The same loss again, to an old and to a new observer, changes nothing: it was handled once.
    let late = start(store.clone());
    store.repeat_data_loss();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(summary(&late, &app, Revision(5)).await.level, Level::Active);
    assert_eq!(store.load(&app).await.unwrap().head.revision, Revision(5));
    assert_eq!(causes(&store, &app, Cause::Doubted).await, 2);
    assert_eq!(causes(&store, &app, Cause::UnitReturned).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_loss_marks_applications_that_get_no_request() {
    let store = mk_shared();
    let first = start(store.clone());
    let apps: Vec<AppName> = (0..200).map(|n| mk_app(&format!("app-{n}"))).collect();
    for app in &apps {
        first.apply(app, mk_report("u/0", Level::Active, "", None)).await.unwrap();
    }
    first.apply(&apps[0], mk_report("u/1", Level::Error, "down", None)).await.unwrap();
    first.delete(&apps[1], None).await.unwrap();
    first.drain().await;
    let second = start(store.clone());
    store.set_away(true);
    store.lose_data();
    tokio::time::sleep(Duration::from_secs(5)).await;
    store.set_away(false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    for (n, app) in apps.iter().enumerate() {
        let head = store.load(app).await.unwrap().head;
        let expected = [Level::Error, Level::Unknown].get(n).copied();
        assert_eq!(head.summary.level, expected.unwrap_or(Level::Waiting), "{app}");
        assert_eq!(head.losses, u32::from(n != 1));
    }
    // An application created after the loss has no uncertain units.
    let report = mk_report("u/0", Level::Active, "", None);
    second.apply(&apps[1], report).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let head = store.load(&apps[1]).await.unwrap().head;
    assert_eq!((head.summary.level, head.losses), (Level::Active, 1));
}
