//! Epochs, fences and data versions are greater than all that a former master may have given out.

use crate::domain::command::Command;
use crate::domain::name::UnitName;
use crate::domain::status::StatusKey;
use crate::store::ConflictCause;
use crate::store::conformance::driver::mk_reporter;

use super::*;

/// The increase of the epoch floor with each master, if clocks are wrong.
const COUNTS_PER_MASTER: u64 = 1 << 20;

fn claim(unit: &str) -> Command {
    Command::ClaimLeadership(mk_reporter(unit), None)
}

fn step_back(unit: &str) -> Command {
    Command::StepBack(mk_reporter(unit))
}

/// Starts a Redis that can become another master without losing a connection.
async fn start() -> Option<RedisServer> {
    RedisServer::start_with(&["--enable-debug-command", "yes"]).await
}

async fn become_another(server: &RedisServer) {
    server.call::<()>(&["DEBUG", "CHANGE-REPL-ID"]).await.unwrap();
}

async fn has(store: &Arc<dyn Store>) -> Driver {
    let mut web = Driver::new(store, "web").await;
    web.report("web/0", "up").await;
    web
}

/// A copy of everything in Redis, which can be restored.
struct Snapshot(Vec<(Vec<u8>, Vec<u8>)>);

impl Snapshot {
    async fn of(server: &RedisServer) -> Snapshot {
        let mut kept = Vec::new();
        for key in server.call::<Vec<Vec<u8>>>(&["KEYS", "*"]).await.unwrap() {
            let mut connection = server.connection().await;
            let dump = redis::cmd("DUMP").arg(&key).query_async(&mut connection).await.unwrap();
            kept.push((key, dump));
        }
        Snapshot(kept)
    }

    /// Restores the copy as on a master that took over without the later writes.
    async fn restore(&self, server: &RedisServer) {
        server.call::<()>(&["FLUSHALL"]).await.unwrap();
        for (key, dump) in &self.0 {
            let mut connection = server.connection().await;
            let mut restore = redis::cmd("RESTORE");
            restore.arg(key).arg(0).arg(dump);
            restore.query_async::<()>(&mut connection).await.unwrap();
        }
        become_another(server).await;
    }
}

/// The writes of one master are lost. Another process commits as many on the next master before
/// this process has compared the two, so each revision names two states.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_of_another_history_is_a_conflict() {
    let Some(server) = start().await else { return };
    let store = open(&server.url()).await;
    let web = has(&store).await;
    let before = Snapshot::of(&server).await;
    let mut lost = Driver::new(&store, "web").await;
    lost.report("web/0", "lost").await;
    before.restore(&server).await;
    let mut other = Driver::new(&open(&server.url()).await, "web").await;
    assert_eq!(other.revision(), web.revision());
    other.report("web/0", "in force").await;
    assert_eq!(other.revision(), lost.revision());
    let current = lost.revision();
    let cause = ConflictCause::Master;
    let conflict = Err(CommitError::Conflict { current, cause });
    assert_eq!(store.confirm(&lost.state.name, Version::of(&lost.state)).await, conflict);
    assert_eq!(lost.commit(lost.draft(mk_report("web/0", "late"))).await, conflict);
    let found = Driver::new(&store, "web").await;
    assert!(current < found.revision(), "the loss was counted");
    let key = StatusKey::first_of(&UnitName::new("web/0").unwrap());
    let (_, status) = found.state.statuses_from(&key).next().unwrap();
    assert_eq!(&*status.report.message, "in force");
}

/// Redis is emptied by hand, and a process that never saw the old store fills it again before this
/// process has compared: the epoch floor is 0 in both histories.
async fn check_emptied(server: &RedisServer, empty: impl AsyncFn()) {
    let store = open(&server.url()).await;
    let mut old = has(&store).await;
    old.report("web/0", "gone").await;
    empty().await;
    let mut new = Driver::new(&open(&server.url()).await, "web").await;
    new.report("web/0", "up").await;
    new.report("web/0", "in force").await;
    assert_eq!((new.revision(), new.state.epoch_floor), (old.revision(), old.state.epoch_floor));
    let confirmed = store.confirm(&old.state.name, Version::of(&old.state)).await;
    let conflict = |answer: &Result<(), CommitError>| {
        assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
    };
    conflict(&confirmed);
    conflict(&old.commit(old.draft(mk_report("web/0", "late"))).await);
    let found = Driver::new(&store, "web").await;
    let key = StatusKey::first_of(&UnitName::new("web/0").unwrap());
    let (_, status) = found.state.statuses_from(&key).next().unwrap();
    assert_eq!(&*status.report.message, "in force");
    assert!(old.state.epoch_floor < found.state.epoch_floor);
    // The other process learns the new floor from its next commit.
    new.commit(new.draft(mk_report("web/0", "based on floor 0"))).await.unwrap_err();
    let mut new = Driver::new(&new.store, "web").await;
    new.report("web/0", "both").await;
    store.confirm(&new.state.name, Version::of(&new.state)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_of_an_emptied_store_is_a_conflict() {
    let Some(server) = start().await else { return };
    check_emptied(&server, async || server.call::<()>(&["FLUSHALL"]).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_of_a_master_that_returned_empty_is_a_conflict() {
    let Some(server) = start().await else { return };
    let empty = async || {
        server.call::<()>(&["FLUSHALL"]).await.unwrap();
        become_another(&server).await;
    };
    check_emptied(&server, empty).await;
}

/// As if the clock of Redis had been set back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn epochs_rise_above_those_given_with_any_clock_of_redis() {
    let Some(server) = start().await else { return };
    let store = open(&server.url()).await;
    let mut web = has(&store).await;
    let far = (1_u64 << 40) * COUNTS_PER_MASTER;
    let state = format!("bw:{}:state", Tag(mk_keys().bucket_of(&web.state.name)));
    server.call::<()>(&["HSET", &state, "counts_above", &far.to_string()]).await.unwrap();
    web.commit(web.draft(claim("web/0"))).await.unwrap_err();
    let mut web = Driver::new(&store, "web").await;
    web.run(claim("web/0")).await;
    assert_eq!(web.state.head().lease_epoch, far + 1);
    become_another(&server).await;
    web.commit(web.draft(step_back("web/0"))).await.unwrap_err();
    let mut web = Driver::new(&store, "web").await;
    web.run(step_back("web/0")).await;
    web.run(claim("web/0")).await;
    assert_eq!(web.state.head().lease_epoch, far + COUNTS_PER_MASTER + 1);
}

fn mk_keys() -> KeySpace {
    KeySpace::new("bw", mk_options().buckets)
}
