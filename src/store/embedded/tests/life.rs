//! The signs of life of an embedded store: what a start knows of the time before it.

use crate::domain::outage::Downtime;
use crate::store::embedded::life::{FILE_NAME, LifeFile};
use crate::store::embedded::stepwise::{Disk, Steps};

use super::*;

fn open(dir: &TempDir) -> EmbeddedStore {
    EmbeddedStore::open(dir.path(), mk_options()).unwrap()
}

/// Returns the last sign of life in the file, and the number of outages.
fn noted(dir: &TempDir, store: &EmbeddedStore) -> (Timestamp, usize) {
    let (_, life) = LifeFile::open(dir.path(), store.epoch().store_id).unwrap();
    (life.alive, life.outages.iter().count())
}

fn outages(store: &EmbeddedStore) -> Vec<Downtime> {
    store.moment().outages.iter().copied().collect()
}

/// Returns a copy of the files as a process leaves them that is killed.
fn killed(dir: &TempDir) -> TempDir {
    let copy = TempDir::new().unwrap();
    for file in std::fs::read_dir(dir.path()).unwrap().flatten() {
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    copy
}

#[tokio::test]
async fn a_start_counts_the_time_since_the_last_sign_of_life() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    assert_eq!(outages(&store), []);
    let begun = store.now();
    store.close().await;
    let closed = store.now();
    drop(store);
    let store = open(&dir);
    let first = outages(&store);
    let known = store.now();
    assert_eq!(first.len(), 1);
    assert!(begun <= first[0].from && first[0].from <= closed, "{first:?}");
    assert!(closed <= first[0].until && first[0].until <= known, "{first:?}");
    assert!(store.moment().is_certain());
    // A process that is killed leaves a sign of life that is at most a quarter of a second old.
    until("the time is noted", || known < noted(&dir, &store).0).await;
    let copy = killed(&dir);
    let died = store.now();
    drop(store);
    let store = open(&copy);
    let both = outages(&store);
    assert_eq!((both.len(), both[0]), (2, first[0]));
    assert!(known < both[1].from && both[1].from <= died && died <= both[1].until, "{both:?}");
}

/// Without the file, the last commit counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_file_the_last_commit_was_the_last_sign_of_life() {
    let dir = TempDir::new().unwrap();
    let store: Arc<dyn Store> = Arc::new(open(&dir));
    let mut web = Driver::new(&store, "web").await;
    web.run(mk_report("u/1", "up")).await;
    store.close().await;
    let closed = store.now();
    drop((web, store));
    std::fs::remove_file(dir.path().join(FILE_NAME)).unwrap();
    let store = open(&dir);
    let known = outages(&store);
    assert!(known.first().is_none_or(|outage| outage.from <= closed), "{known:?}");
    assert!(closed <= store.now());
}

/// A running store notes each quarter of a second that it can act.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_requests_gives_signs_of_life() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    let noted = || noted(&dir, &store);
    until("the time is noted", || noted().0 != Timestamp::default()).await;
    let (first, _) = noted();
    until("it is noted again", || first < noted().0).await;
    assert_eq!(noted().1, 0);
    drop(store);
}

/// The disk stands still for 10 s, and the process is killed right after the next group: the time
/// of the group is no sign of life for the time before it.
#[tokio::test(start_paused = true)]
async fn an_outage_is_kept_before_a_later_group() {
    let (dir, disk) = (TempDir::new().unwrap(), Disk::default());
    let wall = Timestamp::new(1_800_000_000_000);
    let (store, mut steps) = Steps::open(dir.path(), mk_options(), &disk, wall).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let mut web = Driver::new(&store, "web").await;
    for text in ["up", "after it"] {
        tokio::select! {
            _ = web.run(mk_report("u/1", text)) => {}
            () = write_on(&mut steps) => {}
        }
        if text == "up" {
            steps.stall();
            tokio::time::advance(Duration::from_secs(10)).await;
        }
    }
    let left = disk.after_kill();
    drop((web, store, steps));
    let (store, _steps) = Steps::open(dir.path(), mk_options(), &Disk::of(&left), wall).unwrap();
    let known = outages(&store);
    let longest = known.iter().map(|outage| outage.until.since(outage.from)).max();
    assert!(Some(Duration::from_secs(9)) <= longest, "{known:?}");
}

async fn write_on(steps: &mut Steps) {
    loop {
        steps.write();
        steps.apply();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
