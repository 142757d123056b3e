//! Tests against real servers.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::store::conformance::driver::{Driver, mk_report};
use crate::store::conformance::{test_all, test_applications, test_shared};
use crate::store::{Change, Position};

use super::testing::{Cluster, DEADLINE, RedisServer, Sentinels, until};
use super::*;

mod doctor;
mod durability;
mod epoch;
mod formats;
mod masters;
mod open;
mod replicas;
mod resend;
mod servers;

fn mk_options() -> Options {
    Options { buckets: 4, ..Options::default() }
}

async fn try_open(url: &str, options: Options) -> Result<RedisStore, OpenError> {
    let target = Target::parse(url, link::TlsFiles::default()).unwrap();
    RedisStore::open(target, options).await
}

async fn open(url: &str) -> Arc<dyn Store> {
    Arc::new(try_open(url, mk_options()).await.unwrap())
}

/// Runs the suite on one Redis, each part with its own key prefix: with one bucket, and with the
/// default number of buckets.
async fn conforms_on(url: &str) {
    let count = AtomicUsize::new(0);
    let make = |buckets, retention| {
        let prefix = format!("part{}", count.fetch_add(1, Ordering::Relaxed));
        let options = Options { retention, prefix, buckets, ..Options::default() };
        let handle = tokio::runtime::Handle::current();
        let opened = tokio::task::block_in_place(|| handle.block_on(try_open(url, options)));
        Arc::new(opened.unwrap()) as Arc<dyn Store>
    };
    test_all(|retention| make(1, retention)).await;
    let buckets = Options::default().buckets;
    test_applications(|retention| make(buckets, retention)).await;
    test_shared(|retention| make(buckets, retention)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_on_one_server() {
    let Some(server) = RedisServer::start().await else { return };
    conforms_on(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_on_valkey() {
    let Some(server) = RedisServer::start_valkey(&[]).await else { return };
    conforms_on(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_on_a_cluster() {
    let Some(cluster) = Cluster::start().await else { return };
    conforms_on(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_behind_sentinels() {
    let Some(sentinels) = Sentinels::start().await else { return };
    conforms_on(&sentinels.url()).await;
}

/// An observer that records everything.
#[derive(Default)]
struct Diary(Mutex<Pages>);

#[derive(Default, Clone)]
struct Pages {
    changes: Vec<Change>,
    doubts: Vec<(Bucket, Epoch)>,
}

impl Diary {
    fn on(store: &Arc<dyn Store>) -> Arc<Diary> {
        let diary = Arc::new(Diary::default());
        store.follow(diary.clone());
        diary
    }

    fn pages(&self) -> Pages {
        lock(&self.0).clone()
    }

    /// Returns position, application, revision and deletion of each change of a bucket.
    fn of(&self, bucket: Bucket) -> Vec<(Position, String, u64, bool)> {
        let changes = self.pages().changes.into_iter().filter(|c| c.bucket == bucket);
        let told = changes.map(|c| {
            let name = c.app.application().to_string();
            (c.position, name, c.head.revision.0, c.head.deleted)
        });
        told.collect()
    }

    /// Returns the last notified revision of an application, and whether it is deleted.
    fn last(&self, name: &str) -> Option<(u64, bool)> {
        let changes = self.pages().changes;
        let last = changes.iter().rev().find(|c| c.app.application() == name)?;
        Some((last.head.revision.0, last.head.deleted))
    }

    fn is_in_order(&self) -> bool {
        (0..mk_options().buckets).all(|b| self.of(Bucket(b)).is_sorted_by(|a, b| a.0 < b.0))
    }
}

impl Observer for Diary {
    fn on_change(&self, change: &Change) {
        lock(&self.0).changes.push(change.clone());
    }

    fn on_prune(&self, _: Bucket, _: Position) {}

    fn on_data_loss(&self, bucket: Bucket, epoch: Epoch) {
        lock(&self.0).doubts.push((bucket, epoch));
    }
}

/// Commits until the store accepts it: Redis may be unreachable, and other writers may be faster.
async fn insist(store: &Arc<dyn Store>, app: &str, message: &str) -> Driver {
    let insisting = async {
        loop {
            if store.load(&crate::store::conformance::driver::mk_app(app)).await.is_ok() {
                let mut driver = Driver::new(store, app).await;
                let report = driver.draft(mk_report("u/0", message));
                if driver.commit(report).await.is_ok() {
                    return driver;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, insisting).await.unwrap()
}
