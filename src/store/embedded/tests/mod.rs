//! The conformance suite on the embedded store, and what the suite does not test: the directory,
//! the clock, and how the store reports that it cannot be used.

use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use crate::store::conformance::driver::{Driver, Recorder, Seen, mk_report};
use crate::store::conformance::{Deployment, test_all};
use crate::store::{Broadcast, Bucket, Change, MasterChange, Position};

use super::*;

mod crash;
mod damage;
mod damaged_log;
mod formats;
mod group;
mod life;
mod shapes;

fn mk_options() -> Options {
    Options { retry_interval: Duration::from_millis(5), ..Options::default() }
}

/// Waits until a condition holds, and fails if that takes too long.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(90), waiting).await;
    assert!(in_time.is_ok(), "not in time: {what}");
}

/// A directory for one store.
struct Directory(TempDir, Options);

impl Deployment for Directory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(EmbeddedStore::open(self.0.path(), self.1.clone()).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms() {
    test_all(async |retention| {
        Directory(TempDir::new().unwrap(), Options { retention, ..mk_options() })
    })
    .await;
}

#[tokio::test]
async fn time_goes_on_from_where_it_was() {
    let dir = TempDir::new().unwrap();
    let open = || EmbeddedStore::open(dir.path(), mk_options()).unwrap();
    tokio::time::pause();
    let store = open();
    // As if the wall clock had been a day ahead, and was set back during the restart.
    tokio::time::advance(Duration::from_secs(24 * 3600)).await;
    let time = store.now();
    tokio::time::resume();
    drop(store);
    assert!(time <= open().now());
}

#[test]
fn a_second_one_is_refused_and_the_first_is_private() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("state").join("bellwether");
    let first = EmbeddedStore::open(&data, mk_options()).unwrap();
    let error = EmbeddedStore::open(&data, mk_options()).err().unwrap();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    drop(first);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("bellwether.redb")), 0o600);
    assert_eq!(mode(&data.join("bellwether.life")), 0o600);
    let files = std::fs::read_dir(&data).unwrap().count();
    assert_eq!(files, 3);
    assert_eq!(mode(&data.join("bellwether.reserve")), 0o600);
    EmbeddedStore::open(&data, mk_options()).unwrap();
}

#[test]
fn a_directory_that_cannot_be_created_is_a_typed_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for dir in [file.path().to_path_buf(), file.path().join("below")] {
        let error = EmbeddedStore::open(&dir, mk_options()).err().unwrap();
        assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
    }
}

/// An observer with a bug.
struct Panicking;

impl Observer for Panicking {
    fn on_change(&self, _: &Change) {
        panic!("no such key");
    }

    fn on_prune(&self, _: Bucket, _: Position) {}

    fn on_master(&self, _: Bucket, _: &MasterChange) {}

    fn on_broadcast(&self, _: &Broadcast) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_writer_is_a_typed_error() {
    let dir = TempDir::new().unwrap();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
    store.follow(Arc::new(Panicking));
    let mut web = Driver::new(&store, "web").await;
    for _ in 0..3 {
        let report = web.draft(mk_report("web/0", "one"));
        let refused = web.commit(report).await;
        let unavailable = matches!(refused, Err(CommitError::Unavailable { .. }));
        assert!(unavailable, "{refused:?}");
    }
    until("it says so", || {
        let said = store.health().err();
        said.is_some_and(|said| said == "writer stopped by a panic: no such key")
    })
    .await;
    store.close().await;
    drop(store);
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
    Driver::new(&store, "web").await.check().await;
}
