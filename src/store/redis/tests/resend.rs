//! Answers that are lost on their way.

use super::super::testing::Proxy;
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_applied_once() {
    let Some(server) = RedisServer::start().await else { return };
    let proxy = Proxy::to(&server.address()).await;
    let store = open(&proxy.url()).await;
    let near = open(&server.url()).await;
    let diary = Diary::on(&store);
    let mut driver = insist(&store, "web", "start").await;
    for n in 0..12 {
        // Somewhere in the next answers, of the commit or of the log.
        proxy.cut_after(n * 7);
        let report = driver.draft(mk_report("u/0", &"x".repeat(n as usize)));
        let committing = driver.commit(report);
        let healing = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            proxy.heal();
        };
        let (committed, ()) = tokio::join!(committing, healing);
        match committed {
            Ok(()) => {}
            // The outcome is unknown; the next load shows it.
            Err(CommitError::Unavailable { .. }) => {
                driver = Driver::new(&near, "web").await;
                driver.store = store.clone();
            }
            Err(conflict) => panic!("conflicts with itself: {conflict}"),
        }
    }
    let end = Driver::new(&near, "web").await;
    assert_eq!(end.revision(), driver.revision());
    let numbers: Vec<u64> = end.events().await.iter().map(|e| e.number).rev().collect();
    assert_eq!(numbers, (0..end.state.head().next_event).collect::<Vec<_>>());
    until("all is told", async || diary.last("web") == Some((end.revision().0, false))).await;
    assert!(diary.is_in_order());
    let revisions: Vec<u64> = diary.pages().changes.iter().map(|c| c.head.revision.0).collect();
    assert_eq!(revisions, (1..=end.revision().0).collect::<Vec<_>>());
    assert_eq!(store.epoch().losses, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_answered_the_second_time_as_the_first() {
    let Some(server) = RedisServer::start().await else { return };
    let target = Target::parse(&server.url(), link::TlsFiles::default()).unwrap();
    let store = RedisStore::open(target, mk_options()).await.unwrap();
    let shared = store.shared.clone();
    let store: Arc<dyn Store> = Arc::new(store);
    let driver = Driver::new(&store, "web").await;
    let bucket = shared.keys.bucket_of(&driver.state.name);
    let (first, other) =
        (driver.draft(mk_report("u/0", "one")), driver.draft(mk_report("u/1", "two")));
    let run = async |transition: &Transition, mark: &Mark| {
        let batch = Batch::encode(transition, bucket);
        let call = batch.call(&shared.keys, &shared.retention, mark);
        let answers = shared.call(&Tag(bucket).to_string(), &call).await.unwrap();
        answers.last().cloned().unwrap()
    };
    let (early, mark) = (shared.next_mark(), shared.next_mark());
    let answer = run(&first, &mark).await;
    assert_eq!(run(&first, &mark).await, answer);
    insist(&store, "web", "meanwhile").await;
    let conflict = run(&other, &shared.next_mark()).await;
    assert_eq!(reply::number(&reply::items(&conflict)[1]), Some(2));
    // A commit that was given up long ago arrives late, at a revision that would fit.
    let late = Driver::new(&store, "web").await.draft(mk_report("u/0", "late"));
    let refused = run(&late, &early).await;
    assert_eq!(reply::number(&reply::items(&refused)[0]), Some(0));
}
