//! Filters do not slow commits: the number of filters that a change is compared with is limited.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::*;

fn peer(last: u8) -> Option<IpAddr> {
    Some(IpAddr::from([192, 0, 2, last]))
}

/// Returns a different filter for each number up to 900, over this scope.
fn differing(scope: &Scope, n: usize) -> Filter {
    let levels = Level::ALL.into_iter().enumerate().filter(|(bit, _)| n >> bit & 1 == 1);
    let min_level = Level::ALL.get(n >> 7).copied();
    let levels = levels.map(|(_, level)| level).collect();
    Filter { min_level, levels, ..Filter::of(scope.clone()) }
}

/// Returns the number of filters that one change of `web` is compared with.
fn visited(feed: &mut Feed) -> u64 {
    let before = feed.hub.groups_visited();
    feed.set("web", Level::Active);
    feed.hub.groups_visited() - before
}

#[tokio::test(start_paused = true)]
async fn times_to_hold_share_a_few_groups() {
    let mut feed = Feed::new();
    let watchers: Vec<Watcher> = (1..=40_000)
        .map(|n| Filter { stable_for: Some(Duration::from_millis(90 * n)), ..all() })
        .map(|filter| feed.hub.watch_from(peer(1), filter, Start::Snapshot).unwrap())
        .collect();
    assert_eq!(watchers.len(), 40_000);
    assert_eq!(feed.counts().1, 19);
    assert_eq!(visited(&mut feed), 19);
}

#[tokio::test(start_paused = true)]
async fn one_address_founds_a_share_of_the_groups_of_a_scope() {
    let app = AppName::new("default", "web").unwrap();
    let scopes = [
        Scope::All,
        Scope::Namespace("default".into()),
        Scope::Applications(BTreeSet::from([app])),
    ];
    let mut feed = Feed::new();
    let mut watchers = Vec::new();
    for scope in &scopes {
        let mut refused = Vec::new();
        for n in 0..900 {
            // Nine addresses, a hundred filters each.
            let filter = differing(scope, n);
            match feed.hub.watch_from(peer((n / 100) as u8), filter, Start::Snapshot) {
                Ok(watcher) => watchers.push(watcher),
                Err(error) => refused.push(error),
            }
        }
        assert_eq!(refused[0], WatchError::TooManyFiltersOfPeer(64));
        assert_eq!(*refused.last().unwrap(), WatchError::TooManyFiltersOfScope(256));
        // A watcher with an existing filter is accepted.
        watchers.push(feed.hub.watch_from(peer(9), differing(scope, 0), Start::Snapshot).unwrap());
    }
    assert_eq!(feed.counts().1, 3 * 256);
    assert_eq!(visited(&mut feed), 3 * 256);
    drop(watchers);
    assert_eq!(visited(&mut feed), 0);
    feed.hub.watch_from(peer(0), differing(&Scope::All, 1), Start::Snapshot).unwrap();
}

#[tokio::test(start_paused = true)]
async fn names_count_whether_they_are_there_or_not() {
    let feed = Feed::with(Limits { indexed_max: 10, ..Limits::default() });
    let named = |names: std::ops::Range<usize>| {
        let apps = names.map(|n| AppName::new("nowhere", &format!("a{n}")).unwrap());
        Filter::of(Scope::Applications(apps.collect()))
    };
    let _watcher = feed.hub.watch(named(0..8), Start::Snapshot).unwrap();
    let refused = feed.hub.watch(named(8..11), Start::Snapshot).unwrap_err();
    assert_eq!(refused, WatchError::TooManyFilters(10));
    feed.hub.watch(named(8..10), Start::Snapshot).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_token_is_of_the_filter_of_its_group() {
    let mut feed = Feed::new();
    feed.set("web", Level::Active);
    seconds(30).await;
    let stable = |n| Filter { stable_for: Some(Duration::from_secs(n)), ..all() };
    let mut watchers = [feed.watch(&stable(7)), feed.watch(&stable(8))];
    assert_eq!(feed.counts().1, 1);
    let token = last_token(&taken(&mut watchers[0])).unwrap();
    taken(&mut watchers[1]);
    assert_eq!(feed.resume(&stable(11), &token).unwrap_err(), WatchError::OtherFilters);
    feed.resume(&stable(7), &token).unwrap();
    feed.resume(&stable(8), &token).unwrap();
    // Earlier versions stored the fingerprint of the filter before rounding.
    let former = Token { filter: stable(7).fingerprint(), ..Token::decode(&token).unwrap() };
    feed.resume(&stable(7), &former.encode()).unwrap();
    assert_eq!(feed.resume(&stable(8), &former.encode()).unwrap_err(), WatchError::OtherFilters);
    // Multiplexed streams share the messages of both where their offsets are equal.
    let standings = watchers.each_ref().map(|watcher| watcher.standing().unwrap());
    assert_eq!(standings[0].group(), standings[1].group());
}
