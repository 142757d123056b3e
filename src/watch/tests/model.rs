//! Random histories: a client that applies all items has, at each bookmark, exactly what the filter
//! shows.

use proptest::prelude::*;

use super::*;
use crate::watch::{Digest, mark};

const APPS: [&str; 6] = ["a", "b", "c", "prod/a", "prod/b", "prod/c"];
const CLIENTS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Set(usize, usize),
    Delete(usize),
    /// This client reads this number of items.
    Read(usize, usize),
    /// This client resumes with the last token that it was sent (true) or with its watcher's token.
    Resume(usize, bool),
    /// This client moves to the other replica with the last token that it was sent.
    Move(usize),
    /// The other replica receives this number of changes of this bucket.
    Deliver(u16, usize),
    /// The store may have lost writes of this bucket.
    Lose(u16),
    Restart,
    Forget,
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..APPS.len(), 0..4_usize).prop_map(|(app, level)| Step::Set(app, level)),
        2 => (0..APPS.len()).prop_map(Step::Delete),
        8 => (0..CLIENTS, 1..6_usize).prop_map(|(client, count)| Step::Read(client, count)),
        2 => (0..CLIENTS, any::<bool>()).prop_map(|(client, sent)| Step::Resume(client, sent)),
        3 => (0..CLIENTS).prop_map(Step::Move),
        8 => (0..4_u16, 1..6_usize).prop_map(|(bucket, count)| Step::Deliver(bucket, count)),
        1 => (0..4_u16).prop_map(Step::Lose),
        1 => Just(Step::Restart),
        1 => Just(Step::Forget),
        4 => (1..8_u64).prop_map(Step::Advance),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let scope = prop_oneof![
        Just(Scope::All),
        Just(Scope::Namespace("prod".into())),
        Just(Scope::Applications([mk_app("a"), mk_app("prod/b"), mk_app("prod/none")].into())),
    ];
    let levels = prop_oneof![
        Just(vec![]),
        Just(vec![Level::Blocked]),
        Just(vec![Level::Active, Level::Waiting]),
    ];
    let min_level = prop_oneof![Just(None), Just(Some(Level::Waiting))];
    let stable_for = prop_oneof![2 => Just(None), 1 => Just(Some(Duration::from_secs(6)))];
    (scope, levels, min_level, stable_for).prop_map(|(scope, levels, min_level, stable_for)| {
        Filter { scope, min_level, levels: levels.into_iter().collect(), stable_for }
    })
}

type Copy = BTreeMap<AppName, (u64, Level)>;

/// A client that applies its items, as a program at the other end would.
struct Client {
    watcher: Watcher,
    copy: Copy,
    token: Option<String>,
    bookmarks: usize,
    /// Whether it reads from the other replica.
    away: bool,
    /// Whether it has applied an item after its token.
    ahead: bool,
    /// Whether it came from the other replica with more changes than its token covers. Then the
    /// digest may differ, and it starts over.
    distrusts: bool,
}

impl Client {
    fn new(feed: &Feed, filter: &Filter) -> Client {
        Client::at(feed, filter, false)
    }

    fn at(feed: &Feed, filter: &Filter, away: bool) -> Client {
        Client {
            watcher: hub_of(feed, away).watch(filter.clone(), Start::Snapshot).unwrap(),
            copy: Copy::new(),
            token: None,
            bookmarks: 0,
            away,
            ahead: false,
            distrusts: false,
        }
    }

    /// Reads up to `count` items.
    fn read(&mut self, feed: &Feed, filter: &Filter, count: usize) {
        for _ in 0..count {
            match self.watcher.try_next() {
                Ok(Some(item)) => self.apply(feed, filter, item.event),
                Ok(None) => return,
                Err(_) => return *self = Client::at(feed, filter, self.away),
            }
        }
    }

    fn apply(&mut self, feed: &Feed, filter: &Filter, event: Event) {
        match event {
            Event::Upserted(entry) => {
                let state = (entry.revision().0, entry.level());
                let before = self.copy.insert(entry.app.clone(), state);
                let newer = before.is_none_or(|before| before.0 <= state.0) || self.distrusts;
                self.ahead = true;
                assert!(newer, "{} went back to {state:?}", entry.app);
            }
            Event::Removed(app) => {
                self.ahead = true;
                self.copy.remove(&app);
            }
            Event::SnapshotComplete { application_count, token } => {
                assert_eq!(application_count, self.copy.len());
                self.token = Some(token);
                // The token is that of the snapshot's start; deletions since then were not sent.
                self.ahead = true;
            }
            Event::Bookmark { digest, token, .. }
                if self.distrusts && digest != digest_of(&self.copy) =>
            {
                assert!(Token::decode(&token).is_ok());
                *self = Client::at(feed, filter, self.away);
            }
            Event::Bookmark { digest, application_count, token } => {
                self.bookmarks += 1;
                self.token = Some(token);
                (self.ahead, self.distrusts) = (false, false);
                assert_eq!(application_count, self.copy.len());
                assert_eq!(digest, digest_of(&self.copy));
                if filter.stable_for.is_none() {
                    assert_eq!(self.copy, shown(feed, filter, self.away));
                }
            }
        }
    }

    fn resume(&mut self, feed: &Feed, filter: &Filter, as_sent: bool) {
        let here = self.watcher.token().filter(|_| !as_sent);
        let token = here.or_else(|| self.token.clone());
        match token.map(|token| resume(hub_of(feed, self.away), filter, &token)) {
            Some(Ok(watcher)) => self.watcher = watcher,
            // The token is expired or missing.
            _ => *self = Client::at(feed, filter, self.away),
        }
    }

    /// Moves to the other replica. The debounced changes differ there.
    fn go(&mut self, feed: &Feed, filter: &Filter) {
        self.away = !self.away;
        self.distrusts |= self.ahead || filter.stable_for.is_some();
        self.resume(feed, filter, true);
    }
}

fn hub_of(feed: &Feed, away: bool) -> &Arc<Hub> {
    match away {
        true => &feed.twin.hub,
        false => &feed.hub,
    }
}

/// Returns what the filter shows, computed from scratch.
fn shown(feed: &Feed, filter: &Filter, away: bool) -> Copy {
    let in_scope = |app: &AppName| match &filter.scope {
        Scope::All => true,
        Scope::Namespace(namespace) => app.namespace() == &**namespace,
        Scope::Applications(apps) => apps.contains(app),
    };
    let last = if away { &feed.twin.last } else { &feed.last };
    let changes = last.values();
    let shown = changes.filter(|c| in_scope(&c.app) && filter.shows(&c.head));
    let state = |c: &Change| (c.head.revision.0, c.head.summary.level);
    shown.map(|c| (c.app.clone(), state(c))).collect()
}

fn digest_of(copy: &Copy) -> u64 {
    let mut digest = Digest::default();
    for (app, (revision, level)) in copy {
        digest.add(mark(app, Revision(*revision), *level));
    }
    digest.value()
}

async fn run(filter: &Filter, buckets: u16, batch_max: usize, steps: &[Step]) {
    let levels = [Level::Active, Level::Waiting, Level::Blocked, Level::Unknown];
    let mut feed = Feed::of(buckets, Limits { batch_max, ..Limits::default() });
    feed.restart();
    let mut clients: [Client; CLIENTS] = std::array::from_fn(|_| Client::new(&feed, filter));
    for step in steps {
        match *step {
            Step::Set(app, level) => feed.set(APPS[app], levels[level]),
            Step::Delete(app) => {
                let there = feed.last.get(&mk_app(APPS[app]));
                if there.is_some_and(|change| !change.head.deleted) {
                    feed.delete(APPS[app]);
                }
            }
            Step::Read(client, count) => clients[client].read(&feed, filter, count),
            Step::Resume(client, as_sent) => clients[client].resume(&feed, filter, as_sent),
            Step::Move(client) => clients[client].go(&feed, filter),
            Step::Deliver(bucket, count) => feed.twin.deliver(Bucket(bucket % buckets), count),
            Step::Lose(bucket) => feed.lose(Bucket(bucket % buckets)),
            Step::Restart => {
                feed.restart();
                for client in clients.iter_mut().filter(|client| !client.away) {
                    client.resume(&feed, filter, true);
                }
            }
            Step::Forget => feed.forget(),
            Step::Advance(seconds) => {
                tokio::time::advance(Duration::from_secs(seconds)).await;
            }
        }
    }
    feed.twin.deliver_all();
    // All debounced changes arrive, then a bookmark.
    seconds(10).await;
    for client in &mut clients {
        client.bookmarks = 0;
        // At most an expiry, a snapshot, and a bookmark.
        for _ in 0..4 {
            client.read(&feed, filter, usize::MAX);
            seconds(4).await;
        }
        assert_ne!(client.bookmarks, 0);
        assert_eq!(client.copy, shown(&feed, filter, client.away));
        assert_eq!(client.copy, shown(&feed, filter, false));
        let token = client.token.as_deref().map(Token::decode);
        assert_eq!(token.unwrap().unwrap().epoch(), feed.epoch);
    }
    drop(clients);
    assert_eq!(feed.counts(), (0, 0));
    assert_eq!(feed.twin.hub.locked().groups.iter().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_is_right_at_each_bookmark(
        filter in filter(),
        buckets in prop_oneof![Just(1_u16), Just(4)],
        batch_max in 1..4_usize,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(&filter, buckets, batch_max, &steps));
    }
}

/// The same with threads: a store that commits while readers start, read and resume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_right_during_concurrent_writes() {
    let mut feed =
        Feed::with(Limits { bookmark_period: Duration::from_millis(1), ..Limits::default() });
    let hub = feed.hub.clone();
    let filter = at_levels(&[Level::Active, Level::Blocked]);
    let reader = async |hub: Arc<Hub>, filter: Filter| {
        let (mut copy, mut start) = (Copy::new(), Start::Snapshot);
        for _ in 0..50 {
            let mut watcher = hub.watch(filter.clone(), start).unwrap();
            start = loop {
                match watcher.next().await.unwrap().event {
                    Event::Upserted(e) => {
                        copy.insert(e.app.clone(), (e.revision().0, e.level()));
                    }
                    Event::Removed(app) => {
                        copy.remove(&app);
                    }
                    Event::SnapshotComplete { .. } => {}
                    Event::Bookmark { digest, token, .. } => {
                        assert_eq!(digest, digest_of(&copy));
                        break Start::Resume(Token::decode(&token).unwrap());
                    }
                }
            };
        }
    };
    let readers: Vec<_> =
        (0..8).map(|_| tokio::spawn(reader(hub.clone(), filter.clone()))).collect();
    let store = std::thread::spawn(move || {
        let mut number = 0;
        while 1 < Arc::strong_count(&feed.hub) {
            number = (number * 31 + 17) % 9973;
            match number % 5 {
                0 => feed.delete(&format!("app-{}", number % 200)),
                _ => feed.set(&format!("app-{}", number % 200), Level::ALL[number % 7]),
            }
        }
    });
    drop(hub);
    for reader in readers {
        reader.await.unwrap();
    }
    store.join().unwrap();
}
