//! Commits that wait for the disk at the same time are written together.

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::domain::revision::Revision;
use crate::store::ConflictCause;

use super::*;
use crate::store::embedded::stepwise::Disk;

/// A store on a disk whose syncs can be blocked.
struct Busy {
    _dir: TempDir,
    disk: Disk,
    store: Arc<EmbeddedStore>,
}

impl Busy {
    fn new() -> Busy {
        let dir = TempDir::new().unwrap();
        let disk = Disk::default();
        let store = EmbeddedStore::open_with(dir.path(), mk_options(), disk.files()).unwrap();
        Busy { _dir: dir, disk, store: Arc::new(store) }
    }

    /// Starts a commit whose sync is blocked until the disk is released. All later commits wait for
    /// it.
    async fn begin(&self) -> JoinHandle<Result<(), CommitError>> {
        let first = self.driver("first").await.draft(mk_report("u/0", "here"));
        self.disk.hold(true);
        let begun = self.commit(first).await;
        until("the writer waits for the disk", || self.disk.is_waited_for()).await;
        begun
    }

    async fn driver(&self, name: &str) -> Driver {
        let store: Arc<dyn Store> = self.store.clone();
        Driver::new(&store, name).await
    }

    /// Commits, and returns once the commit is in the queue.
    async fn commit(&self, transition: Transition) -> JoinHandle<Result<(), CommitError>> {
        let store = self.store.clone();
        let mut commit = Box::pin(async move { store.commit(Arc::new(transition)).await });
        // Its first step queues it.
        assert!((&mut commit).now_or_never().is_none());
        tokio::spawn(commit)
    }
}

/// Releases the disk, so that a failed test does not block forever.
impl Drop for Busy {
    fn drop(&mut self) {
        self.disk.hold(false);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sync_serves_all_that_wait() {
    let busy = Busy::new();
    let mut drafts = Vec::new();
    for n in 0..100 {
        let driver = busy.driver(&format!("app-{n}")).await;
        drafts.push(driver.draft(mk_report("u/0", "here")));
    }
    let begun = busy.begin().await;
    let mut tasks = Vec::new();
    for draft in drafts {
        tasks.push(busy.commit(draft).await);
    }
    let before = busy.disk.syncs();
    busy.disk.hold(false);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    begun.await.unwrap().unwrap();
    let syncs = busy.disk.syncs() - before;
    // Two of them are of the first segment: its zeros, and its opening.
    assert!(syncs <= 5, "{syncs} syncs for 101 commits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_a_group_are_compared_one_after_another() {
    let busy = Busy::new();
    let mut web = busy.driver("web").await;
    let first = web.draft(mk_report("web/0", "one"));
    let rival = web.draft(mk_report("web/1", "rival"));
    web.state.replay(&first);
    let second = web.draft(mk_report("web/0", "two"));
    web.state.replay(&second);
    let store: Arc<dyn Store> = busy.store.clone();
    let recorder = Recorder::on(&store);
    let begun = busy.begin().await;
    let tasks = [busy.commit(first).await, busy.commit(rival).await, busy.commit(second).await];
    busy.disk.hold(false);
    assert_eq!(begun.await.unwrap(), Ok(()));
    let [first, rival, second] = tasks;
    assert_eq!(first.await.unwrap(), Ok(()));
    let (current, cause) = (Revision(1), ConflictCause::Revision);
    assert_eq!(rival.await.unwrap(), Err(CommitError::Conflict { current, cause }));
    assert_eq!(second.await.unwrap(), Ok(()));
    assert_eq!(recorder.positions(), [1, 2, 3]);
    web.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_finishes_what_waits() {
    let busy = Busy::new();
    let draft = busy.driver("web").await.draft(mk_report("web/0", "here"));
    let begun = busy.begin().await;
    let waiting = busy.commit(draft).await;
    let store = busy.store.clone();
    let closing = tokio::spawn(async move { store.close().await });
    until("it closes", || busy.store.room.is_closed()).await;
    busy.disk.hold(false);
    closing.await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(()));
    assert_eq!(begun.await.unwrap(), Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_do_not_wait_for_the_disk() {
    let busy = Busy::new();
    let mut web = busy.driver("web").await;
    web.report("web/0", "here").await;
    let begun = busy.begin().await;
    let reading = tokio::time::timeout(Duration::from_secs(20), web.check());
    assert!(reading.await.is_ok());
    busy.disk.hold(false);
    assert_eq!(begun.await.unwrap(), Ok(()));
}
