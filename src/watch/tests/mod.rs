//! The hub is fed with changes directly; items are compared as text, one line each.

mod hub;
mod model;
mod resume;
mod stable;
mod watchers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Event, Filter, Hub, Item, Limits, Scope, Start, Token, WatchError, Watcher};
use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::status::Level;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Change, Epoch, Follower, Position};

const EPOCH: Epoch = Epoch { store_id: 7, losses: 0 };

/// A store as the hub sees it: the last change of each application, in order.
struct Feed {
    hub: Arc<Hub>,
    limits: Limits,
    last: BTreeMap<AppName, Change>,
    position: u64,
    forgotten: u64,
    started: Instant,
}

impl Feed {
    fn new() -> Feed {
        Feed::with(Limits::default())
    }

    fn with(limits: Limits) -> Feed {
        Feed {
            hub: Arc::new(Hub::new(EPOCH, limits.clone())),
            limits,
            last: BTreeMap::new(),
            position: 0,
            forgotten: 0,
            started: Instant::now(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_000_000).after(self.started.elapsed())
    }

    /// Another process follows the same store.
    fn restart(&mut self) {
        let hub = Hub::new(EPOCH, self.limits.clone()).with_time(self.now());
        self.hub = Arc::new(hub);
        let mut changes: Vec<&Change> = self.last.values().collect();
        changes.sort_by_key(|change| change.position);
        changes.iter().for_each(|change| self.hub.changed(change));
        self.hub.forgotten(Bucket::default(), Position(self.forgotten));
    }

    fn set(&mut self, app: &str, level: Level) {
        let now = self.now();
        self.change(app, |head| {
            if head.deleted || head.summary.level != level {
                head.summary.since = now;
            }
            head.deleted = false;
            head.summary.level = level;
        });
    }

    fn delete(&mut self, app: &str) {
        self.change(app, |head| head.deleted = true);
    }

    fn change(&mut self, app: &str, edit: impl FnOnce(&mut Head)) {
        let app = mk_app(app);
        let before = self.last.get(&app).map(|c| Head::clone(&c.head));
        let mut head = before.unwrap_or_else(|| Head::empty(Revision(0)));
        edit(&mut head);
        head.revision = head.revision.next();
        self.position += 1;
        let change = Change {
            app: app.clone(),
            bucket: Bucket::default(),
            position: Position(self.position),
            head: Arc::new(head),
            transition: None,
        };
        self.hub.changed(&change);
        self.last.insert(app, change);
    }

    /// Forgets the tombstones there are.
    fn forget(&mut self) {
        let tombstones = self.last.values().filter(|c| c.head.deleted);
        if let Some(last) = tombstones.map(|c| c.position).max() {
            self.forgotten = last.0;
            self.last.retain(|_, change| !change.head.deleted);
            self.hub.forgotten(Bucket::default(), last);
        }
    }

    fn watch(&self, filter: &Filter) -> Watcher {
        self.hub.watch(filter.clone(), Start::Snapshot).unwrap()
    }

    fn resume(&self, filter: &Filter, token: &str) -> Result<Watcher, WatchError> {
        let token = Token::decode(token)?;
        self.hub.watch(filter.clone(), Start::Resume(token))
    }
}

/// `web` or `prod/web`.
fn mk_app(name: &str) -> AppName {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    AppName::new(namespace, name).unwrap()
}

fn all() -> Filter {
    Filter::of(Scope::All)
}

fn at_levels(levels: &[Level]) -> Filter {
    Filter { levels: levels.iter().copied().collect(), ..all() }
}

/// What the watcher has now, without waiting.
fn taken(watcher: &mut Watcher) -> Vec<Item> {
    std::iter::from_fn(|| watcher.try_next().unwrap()).collect()
}

/// The same as words: `+web@3=active`, `-web`, `complete 2`, `bookmark 2`, with ` ~n` if n changes
/// were coalesced.
fn told(watcher: &mut Watcher) -> String {
    let lines: Vec<String> = taken(watcher).iter().map(words).collect();
    lines.join(" ")
}

fn words(item: &Item) -> String {
    let short = |app: &AppName| app.to_string().replace("default/", "");
    let event = match &item.event {
        Event::Upserted(e) => {
            format!("+{}@{}={}", short(&e.app), e.head.revision, e.level().word())
        }
        Event::Removed(app) => format!("-{}", short(app)),
        Event::SnapshotComplete { application_count, .. } => {
            format!("complete:{application_count}")
        }
        Event::Bookmark { application_count, .. } => format!("bookmark:{application_count}"),
    };
    match item.coalesced {
        0 => event,
        coalesced => format!("{event}~{coalesced}"),
    }
}

/// The token of the last item that has one.
fn last_token(items: &[Item]) -> Option<String> {
    let token = |item: &Item| match &item.event {
        Event::SnapshotComplete { token, .. } | Event::Bookmark { token, .. } => {
            Some(token.clone())
        }
        _ => None,
    };
    items.iter().rev().find_map(token)
}

async fn seconds(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}
