//! Power loss, a full disk, a failing disk: no acknowledged commit is lost, and the store recovers
//! on its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::domain::name::UnitName;
use crate::domain::revision::Revision;
use crate::domain::status::StatusKey;
use crate::store::ConflictCause;
use crate::store::conformance::driver::mk_app;
use crate::store::embedded::stepwise::{Disk, ENOSPC, Image, SMALL};

use super::*;

const CRASHES: usize = 40;

/// Opens the image that a crash left, and compares it with the commits acknowledged before.
async fn check_after_crash(image: &Image, acknowledged: &BTreeMap<String, Revision>) {
    let dir = TempDir::new().unwrap();
    image.write(dir.path());
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
    for (app, revision) in acknowledged {
        let driver = Driver::new(&store, app).await;
        assert!(*revision <= driver.revision(), "{app} was at {revision}");
        // Each commit writes its number as the message, so a commit is there as a whole or not at
        // all.
        let first = StatusKey::first_of(&UnitName::application());
        let (_, status) = driver.state.statuses().from(&first).next().unwrap();
        assert_eq!(*status.report.message, *driver.revision().0.to_string());
        let events = driver.events().await;
        assert_eq!(events.len() as u64, driver.state.head().next_event);
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_loss_takes_nothing_acknowledged() {
    let dir = TempDir::new().unwrap();
    let disk = Disk::default();
    let files = disk.files_with(SMALL);
    let store = EmbeddedStore::open_with(dir.path(), mk_options(), files).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
    let enough = Arc::new(AtomicBool::new(false));
    let tasks = (0..4).map(|n| {
        let (store, acknowledged) = (store.clone(), acknowledged.clone());
        let enough = enough.clone();
        tokio::spawn(async move {
            let name = format!("app-{n}");
            let mut driver = Driver::new(&store, &name).await;
            while !enough.load(Ordering::Relaxed) {
                let next = driver.revision().next();
                driver.report("u/0", &next.to_string()).await;
                acknowledged.lock().unwrap().insert(name.clone(), next);
                // Lets the crashes happen in between, even if the memory disk is faster than they
                // are.
                tokio::task::yield_now().await;
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut dice = 1_u64;
    for _ in 0..CRASHES {
        // The commits acknowledged before the power loss. The image may also contain later ones.
        let known = acknowledged.lock().unwrap().clone();
        let image = disk.after_power_loss(|| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            dice >> 63 == 1
        });
        check_after_crash(&image, &known).await;
    }
    enough.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let known = acknowledged.lock().unwrap().clone();
    assert_eq!(known.len(), 4);
    check_after_crash(&disk.after_power_loss(|| false), &known).await;
}

/// Runs commits on a disk that freezes after a number of steps, and checks what is left after a
/// kill and after a power loss. Returns whether it was frozen before the end.
async fn check_frozen_after(steps: usize) -> bool {
    let dir = TempDir::new().unwrap();
    let disk = Disk::default();
    let files = disk.files_with(SMALL);
    let store = EmbeddedStore::open_with(dir.path(), mk_options(), files).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    disk.freeze_after(steps);
    let mut acknowledged = BTreeMap::new();
    for n in 0..60 {
        let name = format!("app-{}", n % 3);
        let mut driver = Driver::new(&store, &name).await;
        let next = driver.revision().next();
        driver.report("u/0", &next.to_string()).await;
        if disk.is_frozen() {
            break;
        }
        acknowledged.insert(name, next);
    }
    store.close().await;
    let mut dice = steps as u64 + 1;
    let images = disk.frozen(|| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        dice >> 63 == 1
    });
    let Some((killed, without_power)) = images else { return false };
    check_after_crash(&killed, &acknowledged).await;
    check_after_crash(&without_power, &acknowledged).await;
    true
}

/// Every seventh step of the writer and of the applier, from the first commit to the end of the
/// close; with `BELLWETHER_EACH_STEP` each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_between_two_steps_takes_nothing_acknowledged() {
    let stride = std::env::var_os("BELLWETHER_EACH_STEP").map_or(7, |_| 1);
    let mut steps = 0;
    while check_frozen_after(steps).await {
        steps += stride;
    }
    assert!(200 < steps, "{steps} steps");
}

/// The log takes commits while the database cannot be written. They are there once it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_survive_a_database_that_cannot_be_written() {
    let dir = TempDir::new().unwrap();
    let disk = Disk::default();
    let store = EmbeddedStore::open_with(dir.path(), mk_options(), disk.files()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "one").await;
    disk.fail_database(Some(ENOSPC));
    web.report("web/0", "two").await;
    let mut large = Driver::new(&store, "large").await;
    // More than the cache of the database takes.
    let unwritten = async {
        let text = "x".repeat(4000);
        for n in 0.. {
            let report = large.draft(mk_report(&format!("large/{n}"), &format!("{n} {text}")));
            if large.commit(report).await.is_err() {
                return n;
            }
        }
        unreachable!()
    };
    let count = tokio::time::timeout(Duration::from_secs(120), unwritten).await.unwrap();
    until("it says so", || store.health().is_err()).await;
    disk.fail_database(None);
    until("it recovers", || store.health().is_ok()).await;
    let web = Driver::new(&store, "web").await;
    let first = StatusKey::first_of(&UnitName::new("web/0").unwrap());
    let (_, status) = web.state.statuses().from(&first).next().unwrap();
    assert_eq!(&*status.report.message, "two");
    let large = Driver::new(&store, "large").await;
    assert!(count <= large.revision().0, "{count} were acknowledged");
    large.check().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_a_typed_error_and_is_recovered_from() {
    let dir = TempDir::new().unwrap();
    let disk = Disk::default();
    let store = EmbeddedStore::open_with(dir.path(), mk_options(), disk.files()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let recorder = Recorder::on(&store);
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "before").await;

    disk.fail(Some(ENOSPC));
    for _ in 0..3 {
        let refused = web.commit(web.draft(mk_report("web/0", "full"))).await;
        let Err(CommitError::Unavailable { reason, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("No space left on device"), "{reason}");
    }
    let said = store.health().unwrap_err();
    assert!(said.contains("No space left on device"), "{said}");
    let unread = store.load(&mk_app("web")).await;
    assert!(matches!(unread, Err(ReadError::Unavailable { .. })), "{unread:?}");
    // The writer retries on its own, and health keeps the reason.
    let refused = disk.refused();
    until("it has tried again", || refused + 2 < disk.refused()).await;
    assert!(store.health().is_err());
    assert_eq!(recorder.positions(), [1]);

    disk.fail(None);
    until("it recovers", || store.health().is_ok()).await;
    web = Driver::new(&store, "web").await;
    web.report("web/0", "after").await;
    web.check().await;
    // The refused commit may have been applied. The observer's last change agrees either way.
    let notified =
        Seen::Changed("web".to_string(), Position(web.revision().0), web.revision(), false);
    assert_eq!(recorder.notified().last(), Some(&notified));
    assert!(recorder.positions().is_sorted());
    store.close().await;
}

/// A sync fails after the write has reached the disk: the commit is refused, but applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_was_refused_but_applied_is_sent_to_watchers() {
    let dir = TempDir::new().unwrap();
    let disk = Disk::default();
    let store = EmbeddedStore::open_with(dir.path(), mk_options(), disk.files()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let recorder = Recorder::on(&store);
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "one").await;
    let transition = Arc::new(web.draft(mk_report("web/0", "two")));
    disk.lie_once();
    let refused = store.commit(transition.clone()).await;
    let unavailable = matches!(refused, Err(CommitError::Unavailable { .. }));
    assert!(unavailable, "{refused:?}");

    until("it recovers", || store.health().is_ok()).await;
    assert_eq!(recorder.positions(), [1, 2]);
    let (current, cause) = (Revision(2), ConflictCause::Revision);
    let again = store.commit(transition).await;
    assert_eq!(again, Err(CommitError::Conflict { current, cause }));
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "three").await;
    assert_eq!(recorder.positions(), [1, 2, 3]);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_file_system_fills_and_empties() {
    let Some(mount) = Mount::tmpfs() else {
        assert!(std::env::var("CI").is_err(), "cannot mount, and CI must not skip");
        eprintln!("SKIPPED: needs root and mount(8) to make a small file system");
        return;
    };
    let ballast = mount.0.path().join("ballast");
    let dir = mount.0.path().join("data");
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&dir, mk_options()).unwrap());
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "before").await;
    fill(&ballast);
    let long = "x".repeat(4000);
    let mut acknowledged = web.revision();
    let full = loop {
        let n = acknowledged.0;
        let report = web.draft(mk_report(&format!("web/{n}"), &format!("{n} {long}")));
        match web.commit(report).await {
            Ok(()) => acknowledged = web.revision(),
            Err(error) => break error,
        }
        assert!(n < 10_000, "it never fills");
    };
    let CommitError::Unavailable { reason, .. } = full else {
        panic!("{full:?}");
    };
    assert!(reason.contains("No space left on device"), "{reason}");

    std::fs::remove_file(&ballast).unwrap();
    until("it recovers", || store.health().is_ok()).await;
    let mut again = Driver::new(&store, "web").await;
    assert!(acknowledged <= again.revision());
    let report = again.draft(mk_report("web/0", "after"));
    again.commit(report).await.unwrap();
    again.check().await;
    store.close().await;
}

/// Fills the file system.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    for block in [65536, 4096] {
        while file.write_all(&vec![1; block]).is_ok() {}
    }
}

/// A small file system, unmounted when this is dropped.
struct Mount(TempDir);

impl Mount {
    fn tmpfs() -> Option<Mount> {
        let dir = TempDir::new().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(dir.path());
        let output = mount.output().ok()?;
        output.status.success().then(|| Mount(dir))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut umount = std::process::Command::new("umount");
        let done = umount.arg("--lazy").arg(self.0.path()).status();
        assert!(done.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}
