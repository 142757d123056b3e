//! Resumes on the same hub and after a restart.

use super::*;

fn snapshot(feed: &Feed, filter: &Filter) -> (Watcher, String) {
    let mut watcher = feed.watch(filter);
    let token = last_token(&taken(&mut watcher)).unwrap();
    (watcher, token)
}

#[tokio::test(start_paused = true)]
async fn a_resume_brings_what_changed_and_a_bookmark() {
    for restart in [false, true] {
        let mut feed = Feed::new();
        for app in ["a", "b", "c"] {
            feed.set(app, Level::Active);
        }
        let (watcher, token) = snapshot(&feed, &all());
        drop(watcher);
        feed.set("b", Level::Blocked);
        feed.set("b", Level::Error);
        feed.delete("c");
        feed.set("d", Level::Active);
        if restart {
            feed.restart();
        }
        let mut watcher = feed.resume(&all(), &token).unwrap();
        let expected = "+b@3=error -c +d@1=active bookmark:3";
        assert_eq!(sent(&mut watcher), expected, "restart: {restart}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_with_nothing_new_is_current_immediately() {
    let mut feed = Feed::new();
    feed.set("a", Level::Active);
    let (_watcher, token) = snapshot(&feed, &all());
    let mut resumed = feed.resume(&all(), &token).unwrap();
    assert_eq!(sent(&mut resumed), "bookmark:1");
    feed.restart();
    let mut resumed = feed.resume(&all(), &token).unwrap();
    assert_eq!(sent(&mut resumed), "bookmark:1");
    assert_eq!(resumed.token().unwrap(), token);
}

#[tokio::test(start_paused = true)]
async fn an_application_that_left_the_filter_is_removed_after_a_resume() {
    let blocked = at_levels(&[Level::Blocked]);
    let mut feed = Feed::new();
    for app in ["a", "b", "c"] {
        feed.set(app, Level::Blocked);
    }
    feed.set("never", Level::Active);
    let (watcher, token) = snapshot(&feed, &blocked);
    drop(watcher);
    feed.set("a", Level::Active);
    feed.delete("b");
    feed.set("never", Level::Waiting);
    // The group is new: it cannot know that `never` was never shown.
    let mut watcher = feed.resume(&blocked, &token).unwrap();
    assert_eq!(sent(&mut watcher), "-a -b -never bookmark:1");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_filter_keeps_its_token_fresh() {
    let quiet = Filter::of(Scope::Namespace("quiet".into()));
    let mut feed = Feed::new();
    let (mut watcher, first) = snapshot(&feed, &quiet);
    feed.set("web", Level::Active);
    feed.delete("web");
    seconds(4).await;
    let token = last_token(&taken(&mut watcher)).unwrap();
    feed.forget();
    assert!(feed.resume(&quiet, &token).is_ok());
    let expired = feed.resume(&quiet, &first).unwrap_err();
    assert_eq!(expired, ResumeError::Pruned.into());
    assert!(expired.to_string().contains("watch again without a resume token"));
}

#[tokio::test(start_paused = true)]
async fn the_token_at_any_moment_is_where_the_reader_was_last_current() {
    let mut feed = Feed::with(Limits { batch_max: 1, ..Limits::default() });
    let (mut watcher, _) = snapshot(&feed, &all());
    feed.set("z", Level::Active);
    taken(&mut watcher);
    for app in ["a", "b", "c"] {
        feed.set(app, Level::Active);
    }
    watcher.try_next().unwrap();
    let token = watcher.token().unwrap();
    drop(watcher);
    let mut resumed = feed.resume(&all(), &token).unwrap();
    assert_eq!(resumed.token().unwrap(), token);
    assert_eq!(sent(&mut resumed), "+a@1=active +b@1=active +c@1=active bookmark:4");
}

#[tokio::test(start_paused = true)]
async fn tokens_that_do_not_fit_are_refused() {
    let mut feed = Feed::new();
    feed.set("a", Level::Active);
    let (_watcher, text) = snapshot(&feed, &all());
    let token = Token::decode(&text).unwrap();
    let refused = |filter: Filter, token: Token| {
        let refused = feed.hub.watch(filter, Start::Resume(token));
        refused.unwrap_err()
    };
    let (filter, cursors) = (token.filter, token.stores[0].cursors.clone());
    let other = |store_id, losses| Token::of(Epoch { store_id, losses }, cursors.clone(), filter);
    assert_eq!(refused(all(), other(8, 0)), ResumeError::OtherStore.into());
    assert_eq!(refused(all(), other(7, 1)), ResumeError::Ahead.into(), "of the only replica");
    let blocked = at_levels(&[Level::Blocked]);
    assert_eq!(refused(blocked, token.clone()), WatchError::OtherFilters);
    let at = |positions: &[u64]| {
        let cursors = positions.iter().copied().map(Position).collect();
        Token::of(token.epoch(), Arc::new(cursors), filter)
    };
    let mut stores = token.stores.clone();
    stores.push(
        Token::of(Epoch { store_id: 8, losses: 0 }, cursors.clone(), filter).stores[0].clone(),
    );
    let of_union = Token { stores, filter };
    assert_eq!(refused(all(), of_union), ResumeError::OtherStore.into(), "of two stores");
    assert_eq!(refused(all(), at(&[1, 1])), ResumeError::OtherStore.into());
    let future = at(&[2]);
    assert_eq!(refused(all(), future), ResumeError::Ahead.into());
    assert_eq!(feed.resume(&all(), "x").unwrap_err(), WatchError::Malformed);
    assert_eq!(feed.counts().0, 1);
}
