//! Every shipped format is still read: `tests/formats` keeps a database of each.

use std::path::PathBuf;

use redb::{Database, ReadableDatabase};

use crate::domain::revision::Revision;
use crate::store::codec::{self, FORMAT, Meta};
use crate::store::conformance::full::{check_full, check_ids_alone, mk_full};
use crate::store::embedded::log::{LogDir, LogFiles};
use crate::store::embedded::read::read_meta;
use crate::store::key::{META, META_FORMAT, META_STORE};

use super::*;
use crate::store::embedded::stepwise::Image;

fn path_of(format: u8) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join(format!("tests/formats/v{format}.redb"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_format_is_read() {
    for format in 1..=FORMAT {
        let path = path_of(format);
        assert!(path.exists(), "no fixture of format {format}: see `write_fixture`");
        let dir = TempDir::new().unwrap();
        std::fs::copy(path, dir.path().join("bellwether.redb")).unwrap();
        let store: Arc<dyn Store> =
            Arc::new(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
        let notified = Recorder::on(&store).notified();
        let changed = |app: &str, position, revision, deleted| {
            Seen::Changed(app.to_string(), Position(position), Revision(revision), deleted)
        };
        assert_eq!(notified, [changed("full", 1, 7, false), changed("deleted", 2, 9, true)]);
        check_full(&store).await;
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_the_version_before_fingerprints_are_read() {
    let dir = TempDir::new().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixture = root.join("tests/formats/v1-ids-alone.redb");
    std::fs::copy(fixture, dir.path().join("bellwether.redb")).unwrap();
    let store = EmbeddedStore::open(dir.path(), mk_options()).unwrap();
    check_ids_alone(&(Arc::new(store) as Arc<dyn Store>)).await;
}

/// The directory of a server that was killed: the log has all commits.
fn path_with_log() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/v1-log")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_a_killed_server_is_read() {
    let dir = TempDir::new().unwrap();
    let image = Image::of(&path_with_log());
    assert!(!image.segments.is_empty());
    image.write(dir.path());
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
    check_full(&store).await;
    store.close().await;
    assert!(LogDir::new(dir.path()).list().unwrap().is_empty());
}

/// A version that does not know the log refuses the database until it is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_format_number_shows_whether_there_is_a_log() {
    let dir = TempDir::new().unwrap();
    let format = |database: &[u8]| {
        let copy = TempDir::new().unwrap();
        std::fs::write(copy.path().join("copy.redb"), database).unwrap();
        let database = Database::open(copy.path().join("copy.redb")).unwrap();
        let txn = database.begin_read().unwrap();
        let table = txn.open_table(META).unwrap();
        let value = table.get(META_FORMAT).unwrap().unwrap();
        u32::from_le_bytes(value.value().try_into().unwrap())
    };
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
    assert_eq!(format(&Image::of(dir.path()).database), u32::from(FORMAT));
    Driver::new(&store, "web").await.report("web/0", "one").await;
    assert_eq!(format(&Image::of(dir.path()).database), u32::from(FORMAT) | 0x100);
    store.close().await;
    assert_eq!(format(&Image::of(dir.path()).database), u32::from(FORMAT));
}

/// An older version wrote to the database, although there was a log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_changed_without_its_log_is_refused() {
    let dir = TempDir::new().unwrap();
    Image::of(&path_with_log()).write(dir.path());
    let database = Database::open(dir.path().join("bellwether.redb")).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(META).unwrap().insert(META_STORE, store_record(&database).as_slice()).unwrap();
    txn.commit().unwrap();
    drop(database);
    let error = EmbeddedStore::open(dir.path(), mk_options()).err().unwrap();
    assert!(matches!(error, OpenError::DamagedLog { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("changed by a version that does not know the log"), "{said}");
}

/// Returns the record of the store with a later time.
fn store_record(database: &Database) -> Vec<u8> {
    let meta = read_meta(&database.begin_read().unwrap()).ok().unwrap();
    codec::encode(&Meta { clock: Timestamp::new(meta.clock.millis() + 1), ..meta })
}

/// Writes the fixture with a log, once: `cargo test --lib write_log_fixture -- --ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes into the repository"]
async fn write_log_fixture() {
    let path = path_with_log();
    assert!(!path.exists(), "what was shipped is not rewritten");
    let dir = TempDir::new().unwrap();
    drop(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
    let file = dir.path().join("bellwether.redb");
    Database::open(&file).unwrap().compact().unwrap();
    let store = EmbeddedStore::open(dir.path(), mk_options()).unwrap();
    for transition in mk_full() {
        store.commit(Arc::new(transition)).await.unwrap();
    }
    let mut image = Image::of(dir.path());
    for bytes in image.segments.values_mut() {
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        // The last record may end with zeros.
        bytes.truncate(end + 512);
    }
    std::fs::create_dir(&path).unwrap();
    image.write(&path);
}

/// Writes the fixture of a new format, once: `cargo test --lib write_fixture -- --ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes into the repository"]
async fn write_fixture() {
    let path = path_of(FORMAT);
    assert!(!path.exists(), "what was shipped is not rewritten");
    let dir = TempDir::new().unwrap();
    let store = EmbeddedStore::open(dir.path(), mk_options()).unwrap();
    for transition in mk_full() {
        store.commit(Arc::new(transition)).await.unwrap();
    }
    store.close().await;
    let file = dir.path().join("bellwether.redb");
    Database::open(&file).unwrap().compact().unwrap();
    std::fs::copy(file, path).unwrap();
}
