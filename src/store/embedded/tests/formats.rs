//! Every shipped format is still read: `tests/formats` keeps a database of each.

use std::path::PathBuf;

use redb::Database;

use crate::domain::revision::Revision;
use crate::store::codec::FORMAT;
use crate::store::conformance::full::{check_full, check_ids_alone, mk_full};

use super::*;

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
