//! Several buckets, several replicas, and a store that may have lost writes.

use super::*;

/// Returns the notice that the last of these masters is met.
fn met(takeovers: &[Takeover]) -> MasterChange {
    MasterChange::Met(takeovers.into())
}

/// Returns a store with four buckets, whose twin has received nothing.
fn mk_feed() -> Feed {
    let mut feed = Feed::of(4, Limits::default());
    for app in ["a", "b", "c", "d", "e"] {
        feed.set(app, Level::Active);
    }
    feed
}

/// Returns the token of a reader that has received everything.
fn mk_token(feed: &Feed) -> String {
    last_token(&taken(&mut feed.watch(&all()))).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_resume_at_another_replica_sends_what_follows_each_cursor() {
    let mut feed = mk_feed();
    let token = mk_token(&feed);
    feed.set("e", Level::Blocked);
    feed.set("b", Level::Blocked);
    feed.delete("c");
    // In another order than on the first replica.
    for bucket in [3, 1, 0, 2] {
        feed.twin.deliver(Bucket(bucket), usize::MAX);
    }
    let mut resumed = resume(&feed.twin.hub, &all(), &token).unwrap();
    let mut sent: Vec<String> = taken(&mut resumed).iter().map(words).collect();
    assert_eq!(sent.pop().unwrap(), "bookmark:4");
    sent.sort();
    assert_eq!(sent, ["+b@2=blocked", "+e@2=blocked", "-c"]);
    assert_eq!(
        Token::decode(&resumed.token().unwrap()).unwrap().stores[0].cursors,
        feed.hub.cursors()
    );
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_waits_until_the_replica_has_its_revisions() {
    let mut feed = mk_feed();
    let token = mk_token(&feed);
    let mut resumed = resume(&feed.twin.hub, &all(), &token).unwrap();
    assert_eq!(sent(&mut resumed), "");
    assert_eq!(resumed.token().unwrap(), token);
    let task = tokio::spawn(async move { words(&resumed.next().await.unwrap()) });
    seconds(3).await;
    let began = Instant::now();
    feed.twin.deliver_all();
    assert_eq!(task.await.unwrap(), "bookmark:5");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_ends_if_the_replica_stays_behind() {
    let mut feed = mk_feed();
    let token = mk_token(&feed);
    feed.twin.deliver(Bucket(1), usize::MAX);
    let began = Instant::now();
    let mut resumed = resume(&feed.twin.hub, &all(), &token).unwrap();
    assert_eq!(resumed.next().await.unwrap_err(), ResumeError::Behind);
    assert_eq!(began.elapsed(), Limits::default().catch_up_max);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_deletion_of_any_bucket_expires() {
    let mut feed = mk_feed();
    feed.twin.deliver_all();
    let token = mk_token(&feed);
    feed.delete("c");
    let bucket = feed.bucket(&mk_app("c"));
    feed.twin.deliver_all();
    // The pruning happens while the backlog is read, then before the resume.
    let mut reading = resume(&feed.twin.hub, &all(), &token).unwrap();
    feed.forget();
    feed.twin.deliver(bucket, usize::MAX);
    assert_eq!(reading.try_next().unwrap_err(), ResumeError::Pruned);
    let refused = resume(&feed.twin.hub, &all(), &token).unwrap_err();
    assert_eq!(refused, WatchError::Refused(ResumeError::Pruned));
}

#[tokio::test(start_paused = true)]
async fn watchers_go_on_through_a_loss_and_old_tokens_do_not() {
    let mut feed = mk_feed();
    let mut watcher = feed.watch(&all());
    let before = last_token(&taken(&mut watcher)).unwrap();
    feed.set("a", Level::Waiting);
    feed.lose(Bucket(2));
    assert_eq!(feed.hub.epoch(), Epoch { losses: 1, ..EPOCH });
    let items = taken(&mut watcher);
    assert_eq!(words(&items[0]), "+a@2=waiting");
    seconds(4).await;
    let after = last_token(&taken(&mut watcher)).unwrap();
    assert_eq!(Token::decode(&after).unwrap().epoch().losses, 1);
    assert_eq!(feed.resume(&all(), &before).unwrap_err(), ResumeError::DataLoss.into());
    assert_eq!(sent(&mut feed.resume(&all(), &after).unwrap()), "bookmark:5");
    // The other replica does not know of the data loss yet.
    let mut early = resume(&feed.twin.hub, &all(), &after).unwrap();
    assert_eq!(sent(&mut early), "");
    feed.twin.deliver_all();
    assert_eq!(sent(&mut early), "bookmark:5");
    // The same loss, reported again by a store after an interruption, is not another loss.
    feed.hub.on_master(Bucket(3), &MasterChange::LostWrites(feed.epoch));
    feed.hub.on_master(Bucket(3), &MasterChange::LostWrites(EPOCH));
    assert_eq!(feed.hub.epoch(), feed.epoch);
}

/// The first replica has read more from the first master than the second master has. The reader of
/// the first replica moves to the other one, which sees no loss.
#[tokio::test(start_paused = true)]
async fn a_token_past_the_takeover_of_another_master_is_refused() {
    let first = Takeover { epoch_floor: 0, last: Position(0) };
    let second = |last| Takeover { epoch_floor: 50, last: Position(last) };
    let buckets = || (0..4).map(Bucket);
    let mut feed = mk_feed();
    for hub in [&feed.hub, &feed.twin.hub] {
        buckets().for_each(|bucket| hub.on_master(bucket, &met(&[first])));
    }
    let token = mk_token(&feed);
    let (e, twin) = (feed.bucket(&mk_app("e")), feed.twin.hub.clone());
    feed.twin.deliver_all();
    let position = feed.positions.of(e).0;
    // The second master has all changes of one replica, and lacks one of the other.
    for bucket in buckets() {
        let last = if bucket == e { position - 1 } else { position };
        twin.on_master(bucket, &met(&[first, second(last)]));
    }
    assert_eq!(resume(&twin, &all(), &token).unwrap_err(), ResumeError::MasterLost.into());
    for bucket in buckets() {
        feed.hub.on_master(bucket, &met(&[first, second(position)]));
    }
    assert_eq!(sent(&mut feed.resume(&all(), &token).unwrap()), "bookmark:5");
    // A replica that has not met the second master waits until it has.
    let later = mk_token(&feed);
    assert_ne!(later, token);
    feed.twin = Twin::new(4, &Limits::default());
    buckets().for_each(|bucket| feed.twin.hub.on_master(bucket, &met(&[first])));
    let all_changes: Vec<Change> = feed.last.values().cloned().collect();
    all_changes.iter().for_each(|change| feed.twin.hub.on_change(change));
    let mut early = resume(&feed.twin.hub, &all(), &later).unwrap();
    assert_eq!(sent(&mut early), "");
    for bucket in buckets() {
        feed.twin.hub.on_master(bucket, &met(&[first, second(position)]));
    }
    assert_eq!(sent(&mut early), "bookmark:5");
}

/// The replica waits for changes that the next master turns out to lack.
#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_for_lost_changes_ends() {
    let takeovers =
        [(0, 0), (50, 0)].map(|(epoch_floor, last)| Takeover { epoch_floor, last: Position(last) });
    let mut feed = mk_feed();
    let bucket = feed.bucket(&mk_app("a"));
    for hub in [&feed.hub, &feed.twin.hub] {
        hub.on_master(bucket, &met(&takeovers[..1]));
    }
    feed.set("a", Level::Blocked);
    let token = mk_token(&feed);
    let mut waiting = resume(&feed.twin.hub, &all(), &token).unwrap();
    let task = tokio::spawn(async move { waiting.next().await.map(|item| words(&item)) });
    tokio::task::yield_now().await;
    feed.twin.hub.on_master(bucket, &met(&takeovers));
    assert_eq!(task.await.unwrap().unwrap_err(), ResumeError::MasterLost);
}

/// A hub that has read what the new master lacks names the former one until both are compared.
#[tokio::test(start_paused = true)]
async fn a_hub_past_the_takeover_names_the_former_master() {
    let mut feed = Feed::new();
    let takeover = |epoch_floor, last| Takeover { epoch_floor, last: Position(last) };
    let bucket = Bucket(0);
    feed.hub.on_master(bucket, &met(&[takeover(0, 0)]));
    feed.set("a", Level::Active);
    feed.set("a", Level::Blocked);
    feed.hub.on_master(bucket, &met(&[takeover(0, 0), takeover(50, 1)]));
    assert_eq!(feed.hub.cursors().floors(), [0]);
    feed.hub.on_master(bucket, &MasterChange::Compared(50));
    assert_eq!(feed.hub.cursors().floors(), [50]);
    feed.set("a", Level::Active);
    feed.hub.on_master(bucket, &met(&[takeover(0, 0), takeover(50, 1), takeover(90, 3)]));
    assert_eq!(feed.hub.cursors().floors(), [90]);
}

/// A store repeats changes after an interruption. The older one must not replace the newer one.
#[tokio::test(start_paused = true)]
async fn a_repeated_change_is_not_sent_again() {
    let mut feed = Feed::new();
    feed.set("a", Level::Active);
    let older = feed.last[&mk_app("a")].clone();
    feed.set("a", Level::Blocked);
    let newer = feed.last[&mk_app("a")].clone();
    let mut watcher = feed.watch(&all());
    assert!(sent(&mut watcher).starts_with("+a@2=blocked"));
    for change in [older, newer] {
        feed.hub.on_change(&change);
        assert_eq!(sent(&mut watcher), "");
    }
    assert_eq!(feed.hub.get(&mk_app("a")).unwrap().revision(), Revision(2));
}
