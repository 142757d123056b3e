//! Epochs, fences and data versions are greater than all that a former master may have given out.

use crate::domain::command::Command;
use crate::domain::name::UnitName;
use crate::domain::status::StatusKey;
use crate::domain::transition::Write;
use crate::store::conformance::driver::{mk_app, mk_reporter};
use crate::store::redis::log::reader::Reader;
use crate::store::{ConflictCause, Takeover};

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
    let (_, status) = found.state.statuses().from(&key).next().unwrap();
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
    let recorder = Recorder::on(&new.store);
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
    let (_, status) = found.state.statuses().from(&key).next().unwrap();
    assert_eq!(&*status.report.message, "in force");
    assert!(old.state.epoch_floor < found.state.epoch_floor);
    // The other process reads the repair, and learns the new floor from its next commit.
    let read = Some((found.revision().0, false));
    until("the repair is read", async || recorder.last("web") == read).await;
    new.commit(new.draft(mk_report("web/0", "based on floor 0"))).await.unwrap_err();
    let mut new = Driver::new(&new.store, "web").await;
    new.report("web/0", "both").await;
    store.confirm(&new.state.name, Version::of(&new.state)).await.unwrap();
    // Nothing of the new history was lost.
    assert_eq!((store.epoch().losses, new.store.epoch().losses), (1, 1));
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
    let state = format!("bw:{}:state", tag(mk_keys().bucket_of(&web.state.name)));
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

/// The clock of Redis is an hour behind the time of the store, and a floor was given while it was
/// ahead. The note of the next master is lost with it, and no process is left that knows its floor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floor_that_was_lost_is_not_given_again() {
    const HOUR: u64 = 3_600_000_000;
    let Some(server) = start().await else { return };
    drop(open_one_bucket(&server).await);
    let (seconds, micros): (u64, u64) = server.call(&["TIME"]).await.unwrap();
    let now = seconds * 1_000_000 + micros;
    let of_clock = ["HSET", "bw:clock", "behind", &HOUR.to_string(), "since", &now.to_string()];
    server.call::<()>(&of_clock).await.unwrap();
    let floor = (now + HOUR / 2) / 1000 * 4096;
    let of_state = ["HSET", "bw:{b00}:state", "counts_above", &floor.to_string()];
    server.call::<()>(&of_state).await.unwrap();
    let kept = Snapshot::of(&server).await;
    let mut floors = vec![floor + COUNTS_PER_MASTER];
    for _ in 0..2 {
        kept.restore(&server).await;
        become_another(&server).await;
        let (store, _) = open_one_bucket(&server).await;
        floors.push(store.epoch_floor(&mk_app("web")));
    }
    assert!(floors.is_sorted_by(|one, next| one < next), "{floors:?}");
}

/// Everything is lost. Two processes compare one after the other, and write in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_compares_late_neither_raises_the_floor_nor_loses_what_follows() {
    let Some(server) = start().await else { return };
    let (early, store) = open_one_bucket(&server).await;
    let (late, other) = open_one_bucket(&server).await;
    let (recorder, others) = (Recorder::on(&store), Recorder::on(&other));
    has(&store).await;
    until("the late process has it", async || others.last("web") == Some((1, false))).await;
    stop_reading(&early).await;
    stop_reading(&late).await;
    server.call::<()>(&["FLUSHALL"]).await.unwrap();
    become_another(&server).await;
    let reader = read_again(&early).await;
    let floor = store.epoch_floor(&mk_app("web"));
    insist(&store, "web", "again").await;
    let late_reader = read_again(&late).await;
    let last = insist(&other, "web", "once more").await.revision();
    until("it is read", async || recorder.last("web") == Some((last.0, false))).await;
    reader.abort();
    read_again(&early).await.abort();
    late_reader.abort();
    for store in [&store, &other] {
        assert_eq!(store.epoch_floor(&mk_app("web")), floor);
        assert_eq!(store.epoch().losses, 1);
    }
    assert_eq!(recorder.record().data_losses.len(), 1);
}

/// What a former master put at positions after those of the next one is lost. The list of masters
/// stays short.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_has_the_position_at_which_each_master_took_over() {
    let Some(server) = start().await else { return };
    let (_, store) = open_one_bucket(&server).await;
    let recorder = Recorder::on(&store);
    let masters = || recorder.record().takeovers[&Bucket(0)].to_vec();
    assert_eq!(masters(), [Takeover { epoch_floor: 0, last: Position(0) }]);
    let mut web = has(&store).await;
    web.report("web/0", "again").await;
    become_another(&server).await;
    web.commit(web.draft(mk_report("web/0", "at another master"))).await.unwrap_err();
    until("the master is noted", async || masters().len() == 2).await;
    assert_eq!(masters()[1].last, Position(2));
    // The comparison with what the process has seen follows.
    let newest = masters()[1].epoch_floor;
    until("it is compared", async || store.epoch_floor(&web.state.name) == newest).await;
    // A process of an earlier version notes a master without its position.
    let state = "bw:{b00}:state";
    server.call::<()>(&["HDEL", state, "takeovers"]).await.unwrap();
    let (_, other) = open_one_bucket(&server).await;
    let others = Recorder::on(&other);
    assert_eq!(
        others.record().takeovers[&Bucket(0)].to_vec(),
        [Takeover { epoch_floor: newest, last: Position(0) }]
    );
    let many: String = (0..40).map(|n| format!("{n}:0 ")).collect();
    server.call::<()>(&["HSET", state, "takeovers", &format!("{many}{newest}:2 ")]).await.unwrap();
    become_another(&server).await;
    let _other = open_one_bucket(&server).await;
    let noted: String = server.call(&["HGET", state, "takeovers"]).await.unwrap();
    assert!(noted.starts_with("1:0 "), "one is removed for one that is added: {noted}");
}

async fn open_one_bucket(server: &RedisServer) -> (Arc<RedisStore>, Arc<dyn Store>) {
    let options = with_buckets(1);
    let store = Arc::new(try_open(&server.url(), options).await.unwrap());
    (store.clone(), store)
}

/// Ends the reader of the logs, as if its connection stood still.
async fn stop_reading(store: &RedisStore) {
    // The first task reads the time.
    let readers = &store.readers[1..];
    readers.iter().for_each(JoinHandle::abort);
    until("the reader has ended", async || readers.iter().all(JoinHandle::is_finished)).await;
}

/// Reads the logs on a new connection, until the returned task is ended.
async fn read_again(store: &RedisStore) -> JoinHandle<()> {
    let mut reader = Reader::new(store.log.clone(), vec![Bucket(0)]);
    // The link finds another master after a moment.
    until("the logs are read", async || reader.catch_up().await.is_ok()).await;
    tokio::spawn(reader.run())
}

/// A process confirms a revision that only the process that committed it has read, and that one
/// ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmed_revision_that_was_not_read_is_lost_with_its_master() {
    let Some(server) = start().await else { return };
    let (late, store) = open_one_bucket(&server).await;
    let (writer, other) = open_one_bucket(&server).await;
    let mut web = has(&other).await;
    let recorder = Recorder::on(&store);
    until("the late process has it", async || recorder.last("web") == Some((1, false))).await;
    stop_reading(&late).await;
    web.report("web/0", "kept").await;
    Driver::new(&store, "web").await.confirm().await.unwrap();
    // What the next master has is not doubted, although this process has not read it.
    become_another(&server).await;
    let reader = read_again(&late).await;
    until("it is read", async || recorder.last("web") == Some((2, false))).await;
    reader.abort();
    assert_eq!(store.epoch().losses, 0);

    let before = Snapshot::of(&server).await;
    let mut web = Driver::new(&other, "web").await;
    web.report("web/0", "lost").await;
    let confirmed = Driver::new(&store, "web").await;
    assert_eq!(confirmed.revision(), web.revision());
    confirmed.confirm().await.unwrap();
    stop_reading(&writer).await;
    before.restore(&server).await;
    read_again(&late).await.abort();
    assert_eq!(store.epoch().losses, 1);
    let losses = recorder.record().data_losses;
    assert_eq!(losses, [(Bucket(0), store.epoch())]);
    let found = Driver::new(&store, "web").await;
    assert!(web.revision() < found.revision(), "{:?}", found.revision());
    assert_eq!(recorder.last("web"), Some((found.revision().0, false)));
    // Counted once.
    read_again(&late).await.abort();
    assert_eq!(store.epoch().losses, 1);
}

/// A process commits without an entry of the log, on a state that it has not read from the log and
/// that another process has changed meanwhile. No other master serves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_that_is_not_confirmed_is_reported_with_its_cause() {
    let Some(server) = start().await else { return };
    let ((late, store), (_writer, other)) =
        (open_one_bucket(&server).await, open_one_bucket(&server).await);
    let mut web = has(&other).await;
    stop_reading(&late).await;
    web.report("web/0", "not read").await;
    let empty = Driver::new(&store, "web").await.draft_all([]);
    let mut quiet = empty.clone();
    quiet.writes.push(Write::Data("key".into(), None));
    web.report("web/0", "meanwhile").await;
    let (current, cause) = (web.revision(), ConflictCause::Revision);
    let conflict = Err(CommitError::Conflict { current, cause });
    assert_eq!(late.commits.rely_on_base(&empty, Bucket(0)).await, conflict);
    let Err(CommitError::Unavailable { reason, applied, .. }) =
        late.commits.rely_on_base(&quiet, Bucket(0)).await
    else {
        panic!("the base is read");
    };
    assert!(reason.ends_with("the state has another one"), "{reason}");
    assert_eq!(applied, Applied::Yes);
}

/// Two processes lose different applications. The one that has read a deletion compares last, when
/// the other one has counted the loss and has written more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_of_a_deleted_application_is_not_given_again() {
    let Some(server) = start().await else { return };
    let (one, store) = open_one_bucket(&server).await;
    let (other, others) = open_one_bucket(&server).await;
    let before = Snapshot::of(&server).await;
    insist(&store, "known", "to both").await;
    let recorder = Recorder::on(&others);
    until("the other one has it", async || recorder.last("known") == Some((1, false))).await;
    stop_reading(&other).await;
    let mut web = insist(&store, "web", "here").await;
    web.delete().await;
    let deleted = web.revision();
    stop_reading(&one).await;
    before.restore(&server).await;
    let reader = read_again(&other).await;
    assert_eq!(others.epoch().losses, 1);
    for message in ["two", "three", "four"] {
        insist(&others, "known", message).await;
    }
    read_again(&one).await.abort();
    assert_eq!(store.epoch(), others.epoch());
    let again = Driver::new(&store, "web").await;
    assert!(deleted <= again.revision(), "{:?} after {deleted:?}", again.revision());
    reader.abort();
}

/// Each process writes a tombstone for each application that it has seen, more than are kept. One
/// that is done serves commits, which prune, while the other one writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_store_is_repaired_with_more_applications_than_tombstones_are_kept() {
    const APPS: usize = 200;
    let Some(server) = start().await else { return };
    let retention = Retention { tombstones_max: 1, ..Retention::default() };
    let mk_store = async || {
        let options = Options { retention: retention.clone(), ..mk_options() };
        let store: Arc<dyn Store> = Arc::new(try_open(&server.url(), options).await.unwrap());
        let recorder = Recorder::on(&store);
        (store, recorder)
    };
    let stores = [mk_store().await, mk_store().await];
    let names: Vec<String> = (0..APPS).map(|app| format!("web-{app}")).collect();
    for name in &names {
        insist(&stores[0].0, name, "up").await;
    }
    for (_, recorder) in &stores {
        until("it has all", async || names.iter().all(|name| recorder.last(name).is_some())).await;
    }
    server.call::<()>(&["FLUSHALL"]).await.unwrap();
    become_another(&server).await;
    let writes = async {
        for number in 0_u64.. {
            insist(&stores[0].0, &format!("busy-{}", number % 8), &number.to_string()).await;
        }
    };
    let repairs = async {
        for (store, recorder) in &stores {
            let are_gone = async || {
                let is_gone = |name: &String| recorder.last(name).is_some_and(|(_, gone)| gone);
                names.iter().all(is_gone)
            };
            until("all are gone", are_gone).await;
            until("it serves", async || store.health().is_ok()).await;
        }
    };
    tokio::select! {
        () = repairs => {}
        () = writes => {}
    }
    insist(&stores[1].0, "web-0", "up again").await;
    let is_there = async || stores[0].1.last("web-0").is_some_and(|(_, is_gone)| !is_gone);
    until("the other has it", is_there).await;
}
