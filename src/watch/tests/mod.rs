//! Tests of the hub. Changes are fed directly; items are compared as text.

mod filters;
mod hub;
mod model;
mod replicas;
mod resume;
mod stable;
mod watchers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{
    Cursors, Event, Filter, Hub, Item, Limits, ResumeError, Scope, Start, Token, WatchError,
    Watcher,
};
use crate::domain::app::Head;
use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Change, Epoch, MasterChange, Observer, PackedHead, Position, Takeover};

const EPOCH: Epoch = Epoch { store_id: 7, losses: 0 };

/// A store as the hub sees it: the last change of each application, in order.
struct Feed {
    hub: Arc<Hub>,
    limits: Limits,
    last: BTreeMap<AppName, Change>,
    epoch: Epoch,
    positions: Cursors,
    forgotten: Cursors,
    started: Instant,
    /// Another replica of the same store.
    twin: Twin,
}

/// A replica that receives each bucket only when the test delivers it.
struct Twin {
    hub: Arc<Hub>,
    last: BTreeMap<AppName, Change>,
    pending: BTreeMap<Bucket, VecDeque<Message>>,
}

enum Message {
    Changed(Change),
    Forgotten(Position),
    Doubted(Epoch),
}

impl Twin {
    fn new(buckets: u16, limits: &Limits) -> Twin {
        let hub = Arc::new(Hub::new(EPOCH, buckets, 1 < buckets, limits.clone()));
        Twin { hub, last: BTreeMap::new(), pending: BTreeMap::new() }
    }

    /// Delivers up to `count` messages of a bucket.
    fn deliver(&mut self, bucket: Bucket, count: usize) {
        let pending = self.pending.entry(bucket).or_default();
        for message in pending.drain(..count.min(pending.len())) {
            match message {
                Message::Changed(change) => {
                    self.hub.on_change(&change);
                    self.last.insert(change.app.clone(), change);
                }
                Message::Forgotten(up_to) => {
                    self.hub.on_prune(bucket, up_to);
                    let is_kept =
                        |c: &Change| !c.head.deleted || c.bucket != bucket || up_to < c.position;
                    self.last.retain(|_, change| is_kept(change));
                }
                Message::Doubted(epoch) => {
                    self.hub.on_master(bucket, &MasterChange::LostWrites(epoch));
                }
            }
        }
    }

    fn deliver_all(&mut self) {
        let buckets: Vec<Bucket> = self.pending.keys().copied().collect();
        buckets.into_iter().for_each(|bucket| self.deliver(bucket, usize::MAX));
    }
}

impl Feed {
    fn new() -> Feed {
        Feed::with(Limits::default())
    }

    fn with(limits: Limits) -> Feed {
        Feed::of(1, limits)
    }

    /// Returns the numbers of watchers and of groups.
    fn counts(&self) -> (usize, usize) {
        let groups = &self.hub.locked().groups;
        (groups.watchers, groups.iter().count())
    }

    fn of(buckets: u16, limits: Limits) -> Feed {
        Feed {
            hub: Arc::new(Hub::new(EPOCH, buckets, 1 < buckets, limits.clone())),
            twin: Twin::new(buckets, &limits),
            limits,
            last: BTreeMap::new(),
            epoch: EPOCH,
            positions: Cursors::new(buckets),
            forgotten: Cursors::new(buckets),
            started: Instant::now(),
        }
    }

    fn bucket(&self, app: &AppName) -> Bucket {
        let sum: u16 = app.to_string().bytes().map(u16::from).sum();
        Bucket(sum % self.positions.buckets())
    }

    /// Queues a message for the other replica.
    fn send(&mut self, bucket: Bucket, message: Message) {
        self.twin.pending.entry(bucket).or_default().push_back(message);
    }

    fn now(&self) -> Timestamp {
        Timestamp::new(1_000_000).after(self.started.elapsed())
    }

    /// Replaces the hub by a new process on the same store.
    fn restart(&mut self) {
        let buckets = self.positions.buckets();
        let hub =
            Hub::new(self.epoch, buckets, 1 < buckets, self.limits.clone()).with_time(self.now());
        self.hub = Arc::new(hub);
        let mut changes: Vec<&Change> = self.last.values().collect();
        changes.sort_by_key(|change| change.position);
        changes.iter().for_each(|change| self.hub.on_change(change));
        for (bucket, up_to) in self.forgotten.iter() {
            self.hub.on_prune(bucket, up_to);
        }
    }

    fn set(&mut self, app: &str, level: Level) {
        let now = self.now();
        self.change(app, |head| {
            if head.deleted || head.summary.level != level {
                Arc::make_mut(&mut head.summary).since = now;
            }
            head.deleted = false;
            Arc::make_mut(&mut head.summary).level = level;
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
        let bucket = self.bucket(&app);
        let position = Position(self.positions.of(bucket).0 + 1);
        self.positions.set(bucket, position);
        // A replica has some heads as they are, and some packed.
        let packed = head.revision.0.is_multiple_of(2).then(|| PackedHead::pack(&head));
        let head = Arc::new(head);
        let change = Change { app: app.clone(), bucket, position, head, packed, transition: None };
        self.hub.on_change(&change);
        self.last.insert(app, change.clone());
        self.send(bucket, Message::Changed(change));
    }

    /// Prunes all tombstones.
    fn forget(&mut self) {
        for bucket in (0..self.positions.buckets()).map(Bucket) {
            let tombstones = self.last.values().filter(|c| c.head.deleted && c.bucket == bucket);
            if let Some(last) = tombstones.map(|c| c.position).max() {
                self.forgotten.set(bucket, last);
                self.hub.on_prune(bucket, last);
                self.send(bucket, Message::Forgotten(last));
            }
        }
        self.last.retain(|_, change| !change.head.deleted);
    }

    /// Reports a possible data loss of a bucket.
    fn lose(&mut self, bucket: Bucket) {
        self.epoch.losses += 1;
        self.hub.on_master(bucket, &MasterChange::LostWrites(self.epoch));
        self.send(bucket, Message::Doubted(self.epoch));
    }

    fn watch(&self, filter: &Filter) -> Watcher {
        self.hub.watch(filter.clone(), Start::Snapshot).unwrap()
    }

    fn resume(&self, filter: &Filter, token: &str) -> Result<Watcher, WatchError> {
        resume(&self.hub, filter, token)
    }
}

fn resume(hub: &Arc<Hub>, filter: &Filter, token: &str) -> Result<Watcher, WatchError> {
    let token = Token::decode(token)?;
    hub.watch(filter.clone(), Start::Resume(token))
}

/// Parses `web` or `prod/web`.
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

/// Returns the items that the watcher has now, without waiting.
fn taken(watcher: &mut Watcher) -> Vec<Item> {
    std::iter::from_fn(|| watcher.try_next().unwrap()).collect()
}

/// Returns the same items as text: `+web@3=active`, `-web`, `complete:2`, `bookmark:2`, each with
/// `~n` if n changes were coalesced.
fn sent(watcher: &mut Watcher) -> String {
    let lines: Vec<String> = taken(watcher).iter().map(words).collect();
    lines.join(" ")
}

fn words(item: &Item) -> String {
    let short = |app: &AppName| app.to_string().replace("default/", "");
    let event = match &item.event {
        Event::Upserted(e) => {
            format!("+{}@{}={}", short(&e.app), e.revision(), e.level().word())
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

/// Returns the token of the last item that has one.
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
