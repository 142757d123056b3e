//! Commits that are sent twice.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_answered_the_second_time_as_the_first() {
    let Some(server) = RedisServer::start().await else { return };
    let target = Target::parse(&server.url(), link::TlsFiles::default()).unwrap();
    let store = RedisStore::open(target, mk_options()).await.unwrap();
    let (buckets, log) = (store.buckets.clone(), store.log.clone());
    let store: Arc<dyn Store> = Arc::new(store);
    let driver = Driver::new(&store, "web").await;
    let bucket = buckets.keys.bucket_of(&driver.state.name);
    let (first, other) =
        (driver.draft(mk_report("u/0", "one")), driver.draft(mk_report("u/1", "two")));
    let run = async |transition: &Transition, mark: &Mark| {
        let batch = Batch::encode(transition, bucket, log.view.history(bucket), false, None);
        let call = batch.call(&buckets, mark);
        buckets.call(&tag(bucket), &call).await.unwrap()
    };
    let (early, mark) = (log.own.next_mark(), log.own.next_mark());
    let answer = run(&first, &mark).await;
    assert_eq!(run(&first, &mark).await, answer);
    insist(&store, "web", "meanwhile").await;
    let conflict = run(&other, &log.own.next_mark()).await;
    assert_eq!(reply::number(&reply::items(&conflict)[1]), Some(2));
    // A commit that was given up long ago arrives late, at a revision that would fit.
    let late = Driver::new(&store, "web").await.draft(mk_report("u/0", "late"));
    let refused = run(&late, &early).await;
    assert_eq!(reply::number(&reply::items(&refused)[0]), Some(0));
}
