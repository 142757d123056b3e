//! Damaged or foreign files: the store refuses them with a sentence, or reads them correctly. It
//! never panics.

use std::path::PathBuf;

use redb::ReadableDatabase;

use crate::domain::replay::Records;
use crate::store::NumberedEvent;
use crate::store::codec::{FORMAT, HeadRecord};
use crate::store::conformance::driver::mk_app;
use crate::store::key::{HEADS, Key, META, META_FORMAT};

use super::*;
use crate::store::embedded::stepwise::Image;

const APPS: [&str; 3] = ["api", "db", "web"];

/// Creates a database, and returns its bytes.
async fn mk_image(dir: &Path) -> Vec<u8> {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir, mk_options()).unwrap());
    for app in APPS {
        let mut driver = Driver::new(&store, app).await;
        for n in 0..8 {
            let unit = format!("{app}/{n}");
            driver.report(&unit, &format!("message {n} of {unit}")).await;
        }
    }
    store.close().await;
    std::fs::read(file_in(dir)).unwrap()
}

fn file_in(dir: &Path) -> PathBuf {
    dir.join("bellwether.redb")
}

type All = Vec<(Records, Vec<NumberedEvent>)>;

async fn read_all(store: &EmbeddedStore) -> Result<All, ReadError> {
    let mut all = Vec::new();
    for app in APPS {
        let records = store.load(&mk_app(app)).await?;
        let events = store.events(&mk_app(app), None, usize::MAX).await?;
        all.push((records, events));
    }
    Ok(all)
}

/// Returns the error with which a file is refused.
fn refused(bytes: &[u8]) -> OpenError {
    let dir = TempDir::new().unwrap();
    std::fs::write(file_in(dir.path()), bytes).unwrap();
    match EmbeddedStore::open(dir.path(), mk_options()) {
        Ok(_) => panic!("{} bytes were taken for a database", bytes.len()),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_and_cut_files_are_damaged() {
    let dir = TempDir::new().unwrap();
    let image = mk_image(dir.path()).await;
    let mut noise = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (noise >> 24) as u8
    })
    .take(100_000)
    .collect();
    let files = [
        ("empty", &[][..]),
        ("text", b"not a database\n"),
        ("noise", &noise),
        ("a header alone", &image[..320]),
        ("half", &image[..image.len() / 2]),
        ("all but a byte", &image[..image.len() - 1]),
    ];
    for (name, bytes) in files {
        let error = refused(bytes);
        assert!(matches!(error, OpenError::Damaged { .. }), "{name}: {error:?}");
        let said = error.to_string();
        assert!(said.contains("bellwether.redb is damaged"), "{name}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_is_refused_or_harmless() {
    let dir = TempDir::new().unwrap();
    let image = mk_image(dir.path()).await;
    let intact = TempDir::new().unwrap();
    std::fs::write(file_in(intact.path()), &image).unwrap();
    let store = EmbeddedStore::open(intact.path(), mk_options()).unwrap();
    let expected = read_all(&store).await.unwrap();
    // All of the header, and places spread over the rest of the file.
    let places = (0..320).step_by(5).chain((320..image.len()).step_by(image.len() / 150));
    let mut damaged = 0;
    for place in places {
        let mut bytes = image.clone();
        bytes[place] ^= 0x55;
        let dir = TempDir::new().unwrap();
        std::fs::write(file_in(dir.path()), &bytes).unwrap();
        match EmbeddedStore::open(dir.path(), mk_options()) {
            Err(OpenError::Damaged { .. }) => damaged += 1,
            Err(other) => panic!("byte {place}: {other:?}"),
            Ok(store) => assert_eq!(read_all(&store).await.as_ref(), Ok(&expected), "{place}"),
        }
    }
    assert!(0 < damaged);
}

/// The offsets of the flags and of the commit slots in redb's header.
const FLAGS: usize = 9;
const SLOTS: [usize; 2] = [64, 192];

/// Returns the file as a crash leaves it, and the slot with its newest commit.
async fn mk_crashed(dir: &Path) -> (Image, usize) {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir, mk_options()).unwrap());
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "before").await;
    web.report("web/0", "newest").await;
    let image = Image::of(dir);
    store.close().await;
    let newest = usize::from(image.database[FLAGS] & 1 != 0);
    (image, newest)
}

fn is_newest_slot_damaged(image: &[u8]) -> bool {
    super::super::header::is_newest_slot_damaged(image[..320].try_into().unwrap())
}

/// redb uses the transaction before the newest one, and does not report it. The log has the commits
/// since then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_newest_transaction_is_foreseen_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let (image, newest) = mk_crashed(dir.path()).await;
    assert!(!is_newest_slot_damaged(&image.database), "a crash alone loses nothing");
    let mut count = 0;
    assert!(
        !is_newest_slot_damaged(&std::fs::read(file_in(dir.path())).unwrap()),
        "nor does a close"
    );
    for place in 0..128 {
        for (slot, start) in SLOTS.into_iter().enumerate() {
            let mut database = image.database.clone();
            database[start + place] ^= 0x55;
            let foreseen = is_newest_slot_damaged(&database);
            assert!(!foreseen || slot == newest);
            count += usize::from(foreseen);
            let dir = TempDir::new().unwrap();
            Image { database, segments: image.segments.clone() }.write(dir.path());
            let opened = EmbeddedStore::open(dir.path(), mk_options());
            let Ok(store) = opened else {
                assert!(!foreseen, "byte {place} of slot {slot} is refused");
                continue;
            };
            let records = store.load(&mk_app("web")).await.unwrap();
            let message = &*records.statuses[0].1.report.message;
            assert_eq!(message, "newest", "byte {place} of slot {slot}, newest is {newest}");
        }
    }
    assert!(100 < count, "redb goes back in {count} of 256 cases");
}

/// Changes a record without the store.
fn tamper(dir: &Path, table: redb::TableDefinition<'_, &[u8], &[u8]>, key: &[u8], value: &[u8]) {
    let database = redb::Database::open(file_in(dir)).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(table).unwrap().insert(key, value).unwrap();
    txn.commit().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_cannot_be_read_are_named() {
    let dir = TempDir::new().unwrap();
    mk_image(dir.path()).await;
    let unit = crate::domain::name::UnitName::new("web/3").unwrap();
    let unit = Key::Unit(mk_app("web"), unit);
    tamper(dir.path(), crate::store::key::RECORDS, &unit.to_bytes(), b"\x01rubbish");
    let store = EmbeddedStore::open(dir.path(), mk_options()).unwrap();
    let error = store.load(&mk_app("web")).await.unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("record unit web/3 of test/web cannot be read"), "{said}");
    assert!(store.load(&mk_app("api")).await.is_ok());
    store.close().await;

    let head = Key::Head(mk_app("db"));
    tamper(dir.path(), HEADS, &head.to_bytes(), b"");
    let error = EmbeddedStore::open(dir.path(), mk_options()).err().unwrap();
    let said = error.to_string();
    assert!(said.contains("damaged (head of test/db cannot be read"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_format_is_named() {
    let dir = TempDir::new().unwrap();
    mk_image(dir.path()).await;
    let newer = u32::from(FORMAT) + 1;
    tamper(dir.path(), META, META_FORMAT, &newer.to_le_bytes());
    let error = EmbeddedStore::open(dir.path(), mk_options()).err().unwrap();
    let known = u32::from(FORMAT);
    assert!(
        matches!(error, OpenError::TooNew { found, known: k, .. } if found == newer && k == known),
        "{error:?}"
    );
}

#[test]
fn a_database_of_another_program_is_refused_as_damaged() {
    let dir = TempDir::new().unwrap();
    drop(redb::Database::create(file_in(dir.path())).unwrap());
    let error = EmbeddedStore::open(dir.path(), mk_options()).err().unwrap();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    let ours = TempDir::new().unwrap();
    drop(EmbeddedStore::open(ours.path(), mk_options()).unwrap());
    let database = redb::Database::open(file_in(ours.path())).unwrap();
    let txn = database.begin_read().unwrap();
    assert!(txn.open_table(HEADS).is_ok());
    assert!(HeadRecord::decode(b"").is_err());
}
