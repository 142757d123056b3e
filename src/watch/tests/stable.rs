//! `stable_for`: a level is sent only after it has held.

use super::*;

fn stable() -> Filter {
    Filter { stable_for: Some(Duration::from_secs(30)), ..all() }
}

/// Returns the items without bookmarks.
fn changes(watcher: &mut Watcher) -> String {
    let items = taken(watcher).into_iter();
    let changes = items.filter(|item| !matches!(item.event, Event::Bookmark { .. }));
    changes.map(|item| words(&item)).collect::<Vec<_>>().join(" ")
}

/// Returns a watcher that has received `web` as active.
async fn settled(feed: &mut Feed) -> Watcher {
    feed.set("web", Level::Active);
    seconds(30).await;
    let mut watcher = feed.watch(&stable());
    assert_eq!(changes(&mut watcher), "+web@1=active complete:1");
    watcher
}

#[tokio::test(start_paused = true)]
async fn a_level_is_sent_once_it_has_held() {
    let mut feed = Feed::new();
    let mut watcher = settled(&mut feed).await;
    feed.set("web", Level::Blocked);
    seconds(29).await;
    assert_eq!(changes(&mut watcher), "");
    seconds(1).await;
    assert_eq!(changes(&mut watcher), "+web@2=blocked");
}

#[tokio::test(start_paused = true)]
async fn the_watcher_wakes_by_itself_when_it_has_held() {
    let mut feed = Feed::new();
    let mut watcher = settled(&mut feed).await;
    let task = tokio::spawn(async move {
        loop {
            let item = watcher.next().await.unwrap();
            if matches!(item.event, Event::Upserted(_)) {
                return (words(&item), Instant::now());
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let began = Instant::now();
    feed.set("web", Level::Blocked);
    let (words, at) = task.await.unwrap();
    assert_eq!(words, "+web@2=blocked");
    assert_eq!(at - began, Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_keeps_the_level_passes_at_once() {
    let mut feed = Feed::new();
    let mut watcher = settled(&mut feed).await;
    feed.set("web", Level::Active);
    assert_eq!(changes(&mut watcher), "+web@2=active");
}

#[tokio::test(start_paused = true)]
async fn a_short_level_is_never_sent() {
    let mut feed = Feed::new();
    let mut watcher = settled(&mut feed).await;
    for _ in 0..20 {
        feed.set("web", Level::Blocked);
        seconds(10).await;
        feed.set("web", Level::Active);
        seconds(10).await;
        assert_eq!(changes(&mut watcher), "");
    }
    // Stable again: its newest state, with the level that the reader has.
    seconds(20).await;
    assert_eq!(changes(&mut watcher), "+web@41=active");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_reaches_the_watcher_without_delay() {
    let mut feed = Feed::new();
    let mut watcher = settled(&mut feed).await;
    feed.set("web", Level::Blocked);
    feed.delete("web");
    assert_eq!(changes(&mut watcher), "-web");
    feed.set("web", Level::Active);
    seconds(29).await;
    assert_eq!(changes(&mut watcher), "");
    seconds(1).await;
    assert_eq!(changes(&mut watcher), "+web@4=active");
}

#[tokio::test(start_paused = true)]
async fn a_level_younger_than_the_window_follows_the_snapshot() {
    let mut feed = Feed::new();
    feed.set("old", Level::Active);
    seconds(20).await;
    feed.set("young", Level::Blocked);
    seconds(10).await;
    let mut watcher = feed.watch(&stable());
    assert_eq!(changes(&mut watcher), "+old@1=active complete:1");
    seconds(20).await;
    assert_eq!(changes(&mut watcher), "+young@1=blocked");
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_level_outlives_the_process() {
    let mut feed = Feed::new();
    feed.set("old", Level::Active);
    seconds(20).await;
    feed.set("young", Level::Active);
    seconds(10).await;
    feed.restart();
    let mut watcher = feed.watch(&stable());
    assert_eq!(changes(&mut watcher), "+old@1=active complete:1");
    seconds(20).await;
    assert_eq!(changes(&mut watcher), "+young@1=active");
}

#[tokio::test(start_paused = true)]
async fn a_level_filter_judges_what_has_held() {
    let mut feed = Feed::new();
    feed.set("web", Level::Blocked);
    seconds(30).await;
    let mut watcher = feed.watch(&Filter { levels: [Level::Blocked].into(), ..stable() });
    assert_eq!(changes(&mut watcher), "+web@1=blocked complete:1");
    feed.set("web", Level::Active);
    seconds(29).await;
    assert_eq!(changes(&mut watcher), "");
    seconds(1).await;
    assert_eq!(changes(&mut watcher), "-web");
    feed.set("web", Level::Waiting);
    seconds(60).await;
    assert_eq!(changes(&mut watcher), "");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_level_is_sent_after_a_resume() {
    for restart in [false, true] {
        let mut feed = Feed::new();
        let mut watcher = settled(&mut feed).await;
        feed.set("web", Level::Blocked);
        feed.set("db", Level::Active);
        seconds(5).await;
        let token = last_token(&taken(&mut watcher)).unwrap();
        if restart {
            feed.restart();
        }
        let mut resumed = feed.resume(&stable(), &token).unwrap();
        // After a restart the hub cannot know what was sent: it sends the pending change
        // immediately.
        let first = match restart {
            true => "+web@2=blocked +db@1=active",
            false => "+db@1=active",
        };
        assert_eq!(changes(&mut resumed), first, "restart: {restart}");
        seconds(30).await;
        let then = if restart { "" } else { "+web@2=blocked" };
        assert_eq!(changes(&mut resumed), then, "restart: {restart}");
    }
}
