//! Questions and answers.

use super::*;
use crate::domain::policy::ConfigPatch;

async fn collect(replica: &Replica, component: Option<&str>, wait: Duration) -> Collected {
    let component = component.map(|component| PartName::new(component).unwrap());
    let app = mk_app("web");
    replica.sessions.collect(&app, component, false, wait).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn simultaneous_equal_collects_share_one_answer() {
    let replica = Arc::new(Replica::new());
    let mut worker = replica.worker("web/0").await;
    let (newcomer, _) = worker.question().await;
    let seq = worker.answer(newcomer, Level::Active, "").await;
    worker.acknowledged(seq).await;
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let replica = replica.clone();
            tokio::spawn(async move { collect(&replica, None, secs(5)).await })
        })
        .collect();
    let (question, _) = worker.question().await;
    tokio::time::sleep(secs(1)).await;
    assert!(worker.outbound.try_recv().is_err(), "it is asked once");
    worker.answer(question, Level::Waiting, "for a database").await;
    for call in calls {
        let collected = call.await.unwrap();
        assert_eq!((collected.asked, collected.answered.len()), (1, 1));
    }
    assert_eq!(replica.read("web", |state| state.head().summary.level).await, Level::Waiting);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_counts_as_a_status_and_not_as_an_answer() {
    let replica = Replica::new();
    let mut worker = replica.worker("web/0").await;
    let (newcomer, _) = worker.question().await;
    let seq = worker.answer(newcomer, Level::Active, "").await;
    worker.acknowledged(seq).await;
    let start = Instant::now();
    let collected = collect(&replica, None, secs(5)).await;
    assert_eq!((collected.asked, collected.answered.len()), (1, 0));
    assert_eq!(start.elapsed(), secs(5));
    let (question, _) = worker.question().await;
    let seq = worker.answer(question, Level::Maintenance, "late").await;
    worker.acknowledged(seq).await;
    assert_eq!(replica.read("web", |state| state.head().summary.level).await, Level::Maintenance);
    assert_eq!(collect(&replica, None, secs(1)).await.answered.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn open_questions_are_bounded_and_the_oldest_are_given_up() {
    let replica = Arc::new(Replica::new());
    let mut worker = replica.worker("web/0").await;
    worker.keep_alive();
    let (newcomer, _) = worker.question().await;
    worker.answer(newcomer, Level::Active, "").await;
    let mut calls = Vec::new();
    let mut questions = Vec::new();
    for n in 0..20 {
        let replica = replica.clone();
        calls.push(tokio::spawn(async move {
            collect(&replica, Some(&format!("part-{n}")), secs(60)).await
        }));
        questions.push(worker.question().await.0);
    }
    for question in questions {
        worker.answer(question, Level::Active, "").await;
    }
    let mut answered = Vec::new();
    for call in calls {
        answered.push(call.await.unwrap().answered.len());
    }
    assert_eq!(answered[..4], [0; 4], "{answered:?}");
    assert_eq!(answered[4..], [1; 16], "{answered:?}");
}

/// A unit that is shown as connected is asked, although its session is still being opened.
#[tokio::test(start_paused = true)]
async fn a_worker_is_asked_as_soon_as_it_is_connected() {
    let replicas = Replica::two().map(Arc::new);
    let one = &replicas[0];
    // One thread: the session is entered only when this test polls it again.
    let mut opening = Box::pin(one.open("web/0", None));
    let is_connected = |state: &AppState| {
        state.unit(&mk_unit("web/0")).is_some_and(|unit| unit.session().is_some())
    };
    for replica in &replicas {
        let sees = async || {
            let seen = replica.aggregator.read(&mk_app("web"), Revision(0), is_connected).await;
            seen.unwrap_or(false)
        };
        while !sees().await {
            assert!(futures_util::poll!(&mut opening).is_pending());
            tokio::task::yield_now().await;
        }
    }
    let calls = replicas
        .clone()
        .map(|replica| tokio::spawn(async move { collect(&replica, None, secs(5)).await }));
    tokio::time::sleep(secs(1)).await;
    let mut worker = opening.await.unwrap();
    let (question, _) = worker.question().await;
    worker.answer(question, Level::Waiting, "for a database").await;
    for call in calls {
        let collected = call.await.unwrap();
        assert_eq!((collected.asked, collected.answered.len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn every_worker_is_asked_in_turn_and_not_all_together() {
    let replica = Replica::new();
    let mut asked = Vec::new();
    for app in ["web", "db", "cache"] {
        let worker = replica.worker(&format!("{app}/0")).await;
        worker.keep_alive();
        let interval = Some(secs(60));
        let patch = ConfigPatch { collect_interval: interval, ..ConfigPatch::default() };
        replica.apply(app, Command::Configure(Box::new(patch))).await;
        asked.push(tokio::spawn(times(worker, secs(3600))));
    }
    let mut firsts = std::collections::BTreeSet::new();
    for times in asked {
        let times = times.await.unwrap();
        assert!((50..=75).contains(&times.len()), "{} in an hour", times.len());
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| secs(46) < *gap && *gap < secs(75)), "{gaps:?}");
        let distinct: std::collections::BTreeSet<_> = gaps.iter().collect();
        assert!(5 < distinct.len(), "they differ");
        firsts.insert(times[1]);
    }
    assert!(1 < firsts.len(), "not all at the same moment");
}

/// Answers questions for this time, and returns when they arrived.
async fn times(mut worker: Worker, during: Duration) -> Vec<Duration> {
    let start = Instant::now();
    let mut times = Vec::new();
    loop {
        let question = tokio::time::timeout(secs(600), worker.question()).await;
        let (question, _) = question.expect("it is not asked any more");
        if during < start.elapsed() {
            return times;
        }
        times.push(start.elapsed());
        worker.answer(question, Level::Active, "").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_collect_reaches_workers_of_another_replica() {
    let [one, other] = Replica::two();
    let mut here = one.worker("web/0").await;
    let mut there = other.worker("web/1").await;
    let mut deaf = other.worker("web/2").await;
    for worker in [&mut here, &mut there] {
        let (newcomer, _) = worker.question().await;
        let seq = worker.answer(newcomer, Level::Active, "").await;
        worker.acknowledged(seq).await;
    }
    deaf.question().await;
    let one = Arc::new(one);
    let call = tokio::spawn({
        let one = one.clone();
        async move { collect(&one, None, secs(5)).await }
    });
    for worker in [&mut here, &mut there] {
        let (question, _) = worker.question().await;
        worker.answer(question, Level::Waiting, "").await;
    }
    let collected = call.await.unwrap();
    let answered: Vec<_> = collected.answered.keys().map(UnitName::as_str).collect();
    assert_eq!((collected.asked, answered), (3, vec!["web/0", "web/1"]));
    // No replica answers, and the call ends at its deadline.
    one.store.set_away(true);
    let collected = collect(&one, None, secs(2)).await;
    assert_eq!((collected.asked, collected.answered.len()), (1, 0));
}
