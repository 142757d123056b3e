//! Snapshot, changes, conflation, removal, bookmarks, groups.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use super::*;
use crate::domain::policy::Policy;
use crate::watch::ResumeError;

#[tokio::test(start_paused = true)]
async fn a_snapshot_comes_by_name_then_changes() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    feed.set("db", Level::Waiting);
    feed.set("old", Level::Active);
    feed.delete("old");
    let mut watcher = feed.watch(&all());
    assert_eq!(watcher.token(), None);
    assert_eq!(sent(&mut watcher), "+db@1=waiting +web@1=active complete:2");
    assert!(watcher.token().is_some());
    feed.set("db", Level::Active);
    feed.set("new", Level::Blocked);
    assert_eq!(sent(&mut watcher), "+db@2=active +new@1=blocked");
    feed.delete("db");
    assert_eq!(sent(&mut watcher), "-db");
    feed.set("db", Level::Active);
    assert_eq!(sent(&mut watcher), "+db@4=active");
    assert_eq!(sent(&mut watcher), "");
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_snapshot_is_not_missed() {
    let mut feed = Feed::with(Limits { batch_max: 1, ..Limits::default() });
    for app in ["a", "b", "c", "d"] {
        feed.set(app, Level::Active);
    }
    let mut watcher = feed.watch(&all());
    for expected in ["+a@1=active", "+b@1=active"] {
        assert_eq!(words(&watcher.next().await.unwrap()), expected);
    }
    feed.set("a", Level::Blocked);
    feed.set("c", Level::Waiting);
    feed.delete("d");
    feed.set("e", Level::Error);
    let rest = "+c@2=waiting +e@1=error complete:4 +a@2=blocked +c@2=waiting -d +e@1=error";
    assert_eq!(sent(&mut watcher), rest);
}

/// A replica that was behind by more than the log of the store keeps reads the newest heads.
#[tokio::test(start_paused = true)]
async fn changes_that_the_store_replaced_are_counted() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    feed.set("db", Level::Active);
    let mut watcher = feed.watch(&all());
    let mut of_db = feed.watch(&Filter::of(Scope::Applications([mk_app("db")].into())));
    assert_eq!(sent(&mut watcher), "+db@1=active +web@1=active complete:2");
    assert_eq!(sent(&mut of_db), "+db@1=active complete:1");
    feed.change("web", |head| head.revision = Revision(head.revision.0 + 3));
    feed.set("db", Level::Waiting);
    assert_eq!(sent(&mut watcher), "+web@5=active~3 +db@2=waiting");
    assert_eq!(sent(&mut of_db), "+db@2=waiting");
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_the_newest_state_and_how_much_it_missed() {
    let mut feed = Feed::new();
    let mut watcher = feed.watch(&all());
    assert_eq!(sent(&mut watcher), "complete:0");
    for level in [Level::Active, Level::Blocked, Level::Waiting] {
        feed.set("web", level);
    }
    feed.set("db", Level::Active);
    feed.set("web", Level::Error);
    // Three states of web were replaced, all of them before the first item.
    assert_eq!(sent(&mut watcher), "+db@1=active~3 +web@4=error");
    feed.set("db", Level::Waiting);
    feed.delete("db");
    assert_eq!(sent(&mut watcher), "-db~1");
}

#[tokio::test(start_paused = true)]
async fn the_memory_of_a_slow_reader_is_bounded_by_applications() {
    let mut feed = Feed::new();
    let watcher = feed.watch(&all());
    for number in 0..100_000_u32 {
        let level = Level::ALL[number as usize % 7];
        match number % 11 {
            0 => feed.delete(&format!("app-{}", number % 50)),
            _ => feed.set(&format!("app-{}", number % 50), level),
        }
    }
    let group = feed.hub.locked().groups.find(&all()).unwrap();
    assert!(group.index_len() <= 50, "{}", group.index_len());
    assert!(feed.hub.locked().entries.len() <= 50);
    drop(watcher);
}

#[tokio::test(start_paused = true)]
async fn an_application_that_leaves_the_filter_is_removed() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    let mut watcher = feed.watch(&at_levels(&[Level::Blocked, Level::Error]));
    assert_eq!(sent(&mut watcher), "complete:0");
    feed.set("web", Level::Waiting);
    feed.set("web", Level::Blocked);
    assert_eq!(sent(&mut watcher), "+web@3=blocked");
    feed.set("web", Level::Error);
    assert_eq!(sent(&mut watcher), "+web@4=error");
    feed.set("web", Level::Active);
    assert_eq!(sent(&mut watcher), "-web");
    feed.set("web", Level::Waiting);
    feed.delete("web");
    assert_eq!(sent(&mut watcher), "");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_policy_alone_can_move_it_over_the_minimum() {
    let mut feed = Feed::new();
    feed.set("web", Level::Waiting);
    let mut watcher = feed.watch(&Filter { min_level: Some(Level::Maintenance), ..all() });
    assert_eq!(sent(&mut watcher), "complete:0");
    feed.change("web", |head| Arc::make_mut(&mut head.config).policy = Policy::OpenStack);
    assert_eq!(sent(&mut watcher), "+web@2=waiting");
    feed.change("web", |head| Arc::make_mut(&mut head.config).policy = Policy::Juju);
    assert_eq!(sent(&mut watcher), "-web");
}

/// Records that it was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Gives the notifiers time to run.
async fn notified() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn scopes_see_their_own_and_are_woken_by_nothing_else() {
    let mut feed = Feed::new();
    let scopes = [
        Scope::Namespace("prod".into()),
        Scope::Applications([mk_app("web"), mk_app("prod/db")].into()),
    ];
    let mut watchers = scopes.map(|scope| feed.watch(&Filter::of(scope)));
    let woken = watchers.each_mut().map(|watcher| {
        assert_eq!(sent(watcher), "complete:0");
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        assert!(watcher.poll_next(&mut Context::from_waker(&waker)).is_pending());
        woken
    });
    let is_woken = |watcher: usize| woken[watcher].0.load(Ordering::Relaxed);
    feed.set("test/web", Level::Active);
    feed.set("other", Level::Active);
    feed.set("product/db", Level::Active);
    notified().await;
    assert!(!is_woken(0) && !is_woken(1));
    feed.set("web", Level::Active);
    notified().await;
    assert!(!is_woken(0) && is_woken(1));
    feed.set("prod/db", Level::Active);
    feed.set("prod/web", Level::Active);
    let [namespace, applications] = &mut watchers;
    assert_eq!(sent(namespace), "+prod/db@1=active +prod/web@1=active");
    assert_eq!(sent(applications), "+web@1=active +prod/db@1=active");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_four_seconds_when_current() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    let mut watcher = feed.watch(&all());
    taken(&mut watcher);
    let began = Instant::now();
    for count in 1..=3 {
        let item = watcher.next().await.unwrap();
        assert_eq!(words(&item), "bookmark:1");
        assert_eq!(began.elapsed(), Duration::from_secs(4 * count));
    }
    seconds(5).await;
    feed.set("db", Level::Active);
    assert_eq!(sent(&mut watcher), "+db@1=active bookmark:2");
    let Event::Bookmark { digest, .. } = ({
        seconds(4).await;
        watcher.next().await.unwrap().event
    }) else {
        panic!("a bookmark is due");
    };
    // FNV-1a of default/db@1=active plus that of default/web@1=active, computed by another program.
    assert_eq!(digest, 0xbeab_e669_4b93_0248);
}

#[tokio::test(start_paused = true)]
async fn a_group_ends_with_its_last_watcher() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    let named = Filter::of(Scope::Applications([mk_app("web")].into()));
    let namespace = Filter::of(Scope::Namespace("default".into()));
    let filters = [all(), namespace, named];
    let first = filters.each_ref().map(|filter| feed.watch(filter));
    let second = filters.each_ref().map(|filter| feed.watch(filter));
    assert_eq!(feed.counts(), (6, 3));
    let group = |filter| feed.hub.locked().groups.find(filter).unwrap();
    let groups = filters.each_ref().map(|f| Arc::downgrade(&group(f)));
    drop(first);
    assert_eq!(feed.counts(), (3, 3));
    drop(second);
    assert_eq!(feed.counts(), (0, 0));
    assert!(groups.iter().all(|group| group.upgrade().is_none()));
    notified().await;
    let runtime = tokio::runtime::Handle::current();
    assert_eq!(runtime.metrics().num_alive_tasks(), 0);
    let state = feed.hub.locked();
    assert_eq!(state.groups.concerned(&mk_app("web")).count(), 0);
    assert_eq!(state.groups.indexed, 0);
}

#[tokio::test(start_paused = true)]
async fn too_many_are_refused() {
    let limits = Limits { watchers_max: 2, indexed_max: 3, ..Limits::default() };
    let mut feed = Feed::with(limits);
    for app in ["a", "b", "prod/c"] {
        feed.set(app, Level::Active);
    }
    let first = feed.watch(&all());
    let narrower = Filter::of(Scope::Namespace("prod".into()));
    let refused = feed.hub.watch(narrower.clone(), Start::Snapshot).unwrap_err();
    assert_eq!(refused, WatchError::TooManyFilters(3));
    let _second = feed.watch(&all());
    let refused = feed.hub.watch(all(), Start::Snapshot).unwrap_err();
    assert_eq!(refused, WatchError::TooManyWatchers(2));
    drop(first);
    assert_eq!(feed.counts().0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_missed_a_forgotten_deletion_expires() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    let prod = Filter::of(Scope::Namespace("prod".into()));
    let (mut sleeper, mut awake, mut elsewhere) =
        (feed.watch(&all()), feed.watch(&all()), feed.watch(&prod));
    for watcher in [&mut sleeper, &mut awake, &mut elsewhere] {
        taken(watcher);
    }
    feed.delete("web");
    assert_eq!(sent(&mut awake), "-web");
    feed.forget();
    feed.set("db", Level::Active);
    assert_eq!(sent(&mut awake), "+db@1=active");
    assert_eq!(sleeper.try_next().unwrap_err(), ResumeError::Pruned);
    assert_eq!(sleeper.next().await.unwrap_err(), ResumeError::Pruned);
    // No tombstone in its scope was pruned.
    assert_eq!(sent(&mut elsewhere), "");
}

#[tokio::test(start_paused = true)]
async fn one_change_wakes_ten_thousand() {
    let mut feed = Feed::new();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10_000 {
        let mut watcher = feed.watch(&all());
        tasks.spawn(async move {
            assert_eq!(words(&watcher.next().await.unwrap()), "complete:0");
            words(&watcher.next().await.unwrap())
        });
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(feed.counts().1, 1);
    feed.set("web", Level::Active);
    let began = Instant::now();
    let words = tasks.join_all().await;
    assert!(words.iter().all(|words| words == "+web@1=active"));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(feed.counts().1, 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_loses_nothing() {
    let mut feed = Feed::new();
    let mut watcher = feed.watch(&all());
    taken(&mut watcher);
    for revision in 1..20 {
        let given_up = tokio::time::timeout(Duration::from_millis(1), watcher.next()).await;
        assert!(given_up.is_err());
        feed.set("web", Level::Active);
        let item = watcher.next().await.unwrap();
        assert_eq!(words(&item), format!("+web@{revision}=active"));
    }
}

/// A reader that passes on only what a bookmark has proved waits for it with each change.
#[tokio::test(start_paused = true)]
async fn a_bookmark_follows_each_change_for_a_reader_that_asks_for_it() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    let after = Some(Duration::from_millis(10));
    let mut watcher = feed.watch(&all()).with_bookmarks_after(after);
    assert_eq!(sent(&mut watcher), "+web@1=active complete:1 bookmark:1");
    tokio::time::advance(Duration::from_millis(11)).await;
    feed.set("web", Level::Blocked);
    feed.set("db", Level::Active);
    assert_eq!(sent(&mut watcher), "+web@2=blocked +db@1=active bookmark:2");
    feed.set("db", Level::Blocked);
    assert_eq!(sent(&mut watcher), "+db@2=blocked", "one bookmark in 10 ms");
    assert_eq!(words(&watcher.next().await.unwrap()), "bookmark:2");
    assert_eq!(sent(&mut watcher), "");
    let usual = feed.watch(&all());
    assert_ne!(
        watcher.standing().unwrap().group(),
        usual.standing().map_or_else(|| (0, 0, None), crate::watch::Standing::group,)
    );
    seconds(5).await;
    assert_eq!(sent(&mut watcher), "bookmark:2");
}
