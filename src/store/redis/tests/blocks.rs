//! Blocks of statuses in the hash of an application.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::domain::command::{Command, Request};
use crate::domain::name::UnitName;
use crate::store::conformance::many::mk_set;
use crate::store::key::Key as Record;
use crate::store::redis::record::block::Blocks;
use crate::store::{ConflictCause, MemoryStore};

use super::*;

/// Returns the key of an application of the suite, in a store with [`mk_options`].
fn hash_of(name: &str) -> String {
    let keys = mk_keys();
    let app = AppName::new("test", name).unwrap();
    keys.name(Key::App(keys.bucket_of(&app), &app))
}

/// Returns the fields of an application's hash.
async fn fields(server: &RedisServer, name: &str) -> BTreeMap<String, Vec<u8>> {
    let mut connection = server.connection().await;
    let fields: BTreeMap<Vec<u8>, Vec<u8>> =
        redis::cmd("HGETALL").arg(hash_of(name)).query_async(&mut connection).await.unwrap();
    fields.into_iter().map(|(f, v)| (f.escape_ascii().to_string(), v)).collect()
}

fn names(fields: &BTreeMap<String, Vec<u8>>) -> BTreeSet<&str> {
    fields.keys().map(String::as_str).collect()
}

/// Folds all blocks of an application now.
async fn fold(store: &RedisStore, server: &RedisServer, name: &str) {
    let index = fields(server, name).await.get("b").and_then(|text| Blocks::parse(text));
    if let Some(index) = index {
        let app = AppName::new("test", name).unwrap();
        store.commits.folds.fold(&app, &index).await.unwrap();
    }
}

async fn open_here(server: &RedisServer) -> (Arc<RedisStore>, Arc<dyn Store>) {
    let store = Arc::new(try_open(&server.url(), mk_options()).await.unwrap());
    (store.clone(), store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_statuses_are_one_field() {
    let Some(server) = RedisServer::start().await else { return };
    let (own, store) = open_here(&server).await;
    let mut web = Driver::new(&store, "web").await;
    web.run(mk_set("w/0", 0..15, "few")).await;
    let singles = fields(&server, "web").await;
    assert_eq!(singles.keys().filter(|field| field.starts_with('s')).count(), 15);
    assert!(!singles.contains_key("b") && !singles.contains_key("q"));

    web.run(mk_set("w/0", 0..16, "many")).await;
    let found = fields(&server, "web").await;
    let added: Vec<&str> = names(&found).difference(&names(&singles)).copied().collect();
    assert_eq!(added, ["b", "g0", "q"]);
    assert_eq!((&*found["b"], &*found["q"]), (&b"2 0 1 16"[..], &b"0g"[..]));

    // From now on, few statuses are a block too.
    web.report("w/1", "one").await;
    own.commits.folds.note(&web.state.name, false);
    // A process that does not know of the blocks leaves it to the script.
    web.run(mk_set("w/0", 0..14, "many")).await;
    let found = fields(&server, "web").await;
    assert_eq!(&*found["b"], b"2 0 3 19");
    assert_eq!(found["g2"], b"12 - sw/0\0db\x0014\x00012 - sw/0\0db\x0015\x000");
    assert_eq!(names(&found).len(), names(&singles).len() + 1 + "b q g0 g1 g2".len() / 3 + 1);
    web.check().await;

    fold(&own, &server, "web").await;
    let found = fields(&server, "web").await;
    assert_eq!(names(&found), BTreeSet::from(["b", "g2", "q", "uw/0", "uw/1", "w"]));
    assert_eq!(&*found["b"], b"2 2 3 15");
    web.check().await;

    web.delete().await;
    assert_eq!(names(&fields(&server, "web").await), BTreeSet::from(["w"]));
    web.report("w/0", "again").await;
    web.check().await;
    assert!(!fields(&server, "web").await.contains_key("b"));
}

/// Blocks that only remove statuses are folded into none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fold_of_removals_leaves_no_block() {
    let Some(server) = RedisServer::start().await else { return };
    let (own, store) = open_here(&server).await;
    let mut web = Driver::new(&store, "web").await;
    web.run(mk_set("w/0", 0..16, "many")).await;
    web.run(mk_set("w/0", 0..0, "none")).await;
    for _ in 0..2 {
        fold(&own, &server, "web").await;
        let found = fields(&server, "web").await;
        assert_eq!(names(&found), BTreeSet::from(["b", "q", "uw/0", "w"]));
        assert_eq!(&*found["b"], b"1 2 2 0");
        web.check().await;
    }
    web.report("w/0", "one").await;
    assert_eq!(&*fields(&server, "web").await["b"], b"1 2 3 1");
    web.check().await;
}

/// A version from before blocks compares the count of quiet commits as text. After the conflict it
/// loads the application, and refuses the fields that it does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_from_before_blocks_is_refused() {
    let Some(server) = RedisServer::start().await else { return };
    let (_, store) = open_here(&server).await;
    let mut web = Driver::new(&store, "web").await;
    web.run(mk_set("w/0", 0..16, "many")).await;
    let found = fields(&server, "web").await;
    assert_ne!(&*found["q"], web.state.head().quiet_commits.to_string().as_bytes());
    for field in ["b", "g0"] {
        let app = web.state.name.clone();
        assert!(found.contains_key(field));
        assert_eq!(Record::record_from_field(&app, field.as_bytes()), None);
    }
    // This version compares the number.
    assert_eq!(web.confirm().await, Ok(()));
    web.report("w/0", "one").await;
    assert_eq!(&*fields(&server, "web").await["q"], b"0g");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_are_folded_while_commits_go_on() {
    let Some(server) = RedisServer::start().await else { return };
    let (_, store) = open_here(&server).await;
    let mut web = Driver::new(&store, "web").await;
    web.run(mk_set("w/0", 0..10, "single fields")).await;
    let (mut most_fields, mut most_bytes) = (0, 0);
    for round in 0..1000_u32 {
        let (unit, message) = (format!("w/{}", round % 3), format!("round {round:04}"));
        let size = [40, 1, 39, 2][(round % 4) as usize];
        web.run(mk_set(&unit, 0..size, &message)).await;
        if round % 50 == 0 {
            web.check().await;
        }
        let found = fields(&server, "web").await;
        let bytes: usize = found.iter().map(|(field, value)| field.len() + value.len()).sum();
        (most_fields, most_bytes) = (most_fields.max(found.len()), most_bytes.max(bytes));
    }
    web.check().await;
    // At most 120 statuses of about 80 bytes are there at once, and 2 * 120 + 256 entries are not
    // folded. A few more may come while a fold is under way.
    println!("at most {most_fields} fields, {most_bytes} bytes");
    assert!(most_fields < 100, "{most_fields} fields");
    assert!(most_bytes < 100_000, "{most_bytes} bytes");
    let end = fields(&server, "web").await;
    assert!(!end.keys().any(|field| field.starts_with('s')), "single fields are folded too");
    assert!(Blocks::parse(&end["b"]).is_some_and(|index| 10 < index.first), "{end:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_or_a_repeated_commit_writes_no_block() {
    let Some(server) = RedisServer::start().await else { return };
    let (own, store) = open_here(&server).await;
    let mut web = Driver::new(&store, "web").await;
    let mut late = Driver::new(&store, "web").await;
    let RedisStore { buckets, log, .. } = &*own;
    let bucket = buckets.keys.bucket_of(&web.state.name);
    let first = web.draft(mk_set("w/0", 0..20, "first"));
    let batch = Batch::encode(&first, bucket, log.view.history(bucket), false, None);
    let call = batch.call(buckets, &log.own.next_mark());
    let mut answers = Vec::new();
    for _ in 0..2 {
        let answer = buckets.call(&tag(bucket), &call).await.unwrap();
        answers.push(reply::items(&answer)[..2].to_vec());
    }
    assert_eq!(answers[0], answers[1]);
    web.state.replay(&first);
    web.check().await;
    let before = fields(&server, "web").await;
    assert_eq!(&*before["b"], b"1 0 1 20");

    let refused = late.draft(mk_set("w/0", 0..30, "late"));
    let refused = late.commit(refused).await;
    let cause = ConflictCause::Revision;
    assert_eq!(refused, Err(CommitError::Conflict { current: web.revision(), cause }));
    assert_eq!(fields(&server, "web").await, before);
}

/// The caller of a fold has read blocks that are not there any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_fold_changes_nothing() {
    let Some(server) = RedisServer::start().await else { return };
    let (own, store) = open_here(&server).await;
    let mut web = Driver::new(&store, "web").await;
    let sets = async |web: &mut Driver, message| {
        for n in 0..3 {
            web.run(mk_set(&format!("w/{n}"), 0..20, message)).await;
        }
    };
    sets(&mut web, "first").await;
    let app = web.state.name.clone();
    let bucket = own.buckets.keys.bucket_of(&app);
    let index = Blocks::parse(&fields(&server, "web").await["b"]).unwrap();
    let ask = read::ask_blocks(&own.buckets.keys, bucket, &app, &index);
    let read = own.buckets.run(bucket, &ask).await.unwrap();
    let (note, late) = read::read_fold(&app, &index, &read).unwrap().unwrap();
    let try_again = async || {
        let before = fields(&server, "web").await;
        let written = own.commits.folds.write_fold((bucket, &app), (&index, &note), &late).await;
        assert_eq!(written.unwrap().last(), Some(&Value::Int(0)));
        assert_eq!(fields(&server, "web").await, before);
    };
    // Another fold was faster, and a commit followed.
    fold(&own, &server, "web").await;
    web.report("w/0", "after the fold").await;
    try_again().await;
    web.check().await;
    // The application was deleted; its successor has as many blocks.
    web.delete().await;
    try_again().await;
    sets(&mut web, "second").await;
    let again = Blocks::parse(&fields(&server, "web").await["b"]).unwrap();
    assert_eq!((again.first, again.after), (index.first, index.after));
    try_again().await;
    web.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_block_is_an_error() {
    let Some(server) = RedisServer::start().await else { return };
    let (_, store) = open_here(&server).await;
    let mut web = Driver::new(&store, "web").await;
    web.run(mk_set("w/0", 0..16, "many")).await;
    web.report("w/0", "one").await;
    let kept = fields(&server, "web").await;
    for (field, value) in
        [("g0", "11 "), ("g0", "3 4 abc"), ("b", "1 0 3 17"), ("b", "1"), ("g7", "")]
    {
        server.call::<()>(&["HSET", &hash_of("web"), field, value]).await.unwrap();
        let error = store.load(&web.state.name).await.unwrap_err();
        assert!(matches!(&error, ReadError::Corrupt { record, .. } if record.len() > 3), "{error}");
        server.call::<()>(&["HDEL", &hash_of("web"), field]).await.unwrap();
        for (field, value) in &kept {
            let mut connection = server.connection().await;
            let mut set = redis::cmd("HSET");
            if field.starts_with(['b', 'g']) {
                set.arg(hash_of("web")).arg(field).arg(value);
                set.query_async::<()>(&mut connection).await.unwrap();
            }
        }
        web.check().await;
    }
}

#[derive(Debug, Clone)]
enum Step {
    Set(u8, u32, u32, u8),
    Report(u8, u8),
    Remove(u8),
    Delete,
    Fold,
    Reopen,
}

fn mk_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_u8, 0..30_u32, 0..60_u32, 0..4_u8)
            .prop_map(|(unit, from, size, message)| Step::Set(unit, from, size, message)),
        4 => (0..3_u8, 0..4_u8).prop_map(|(unit, message)| Step::Report(unit, message)),
        1 => (0..3_u8).prop_map(Step::Remove),
        1 => Just(Step::Delete),
        3 => Just(Step::Fold),
        1 => Just(Step::Reopen),
    ]
}

/// The same transitions give the same records in Redis and in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_and_memory_hold_the_same() {
    let Some(server) = RedisServer::start().await else { return };
    let runtime = tokio::runtime::Handle::current();
    let config = Config { failure_persistence: None, ..Config::with_cases(60) };
    let (count, folded) = (AtomicU64::default(), AtomicU64::default());
    let ran = tokio::task::block_in_place(|| {
        TestRunner::new(config).run(&proptest::collection::vec(mk_step(), 1..40), |steps| {
            let name = format!("app-{}", count.fetch_add(1, Ordering::Relaxed));
            let folds = runtime.block_on(run(&server, &name, &steps));
            folded.fetch_add(folds, Ordering::Relaxed);
            Ok(())
        })
    });
    ran.unwrap();
    let folded = folded.into_inner();
    assert!(50 < folded, "only {folded} folds");
}

/// Commits the steps to both stores, and compares after each. Returns how many blocks were folded.
async fn run(server: &RedisServer, name: &str, steps: &[Step]) -> u64 {
    let (mut own, mut store) = open_here(server).await;
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(Retention::default()));
    let mut web = Driver::new(&store, name).await;
    let mut folded = 0;
    for (n, step) in (0..).zip(steps) {
        // A unit that was removed may return after ten seconds.
        let now = store.now().after(Duration::from_secs(11 * n));
        let draft =
            |web: &Driver, command| Some(web.draft_requests([Request { id: None, command }], now));
        let transition = match step {
            Step::Set(unit, from, size, message) => {
                let (unit, message) = (format!("w/{unit}"), format!("message {message}"));
                draft(&web, mk_set(&unit, *from..from + size, &message))
            }
            Step::Report(unit, message) => {
                draft(&web, mk_report(&format!("w/{unit}"), &format!("message {message}")))
            }
            Step::Remove(unit) => {
                let unit = UnitName::new(&format!("w/{unit}")).unwrap();
                let is_there = web.state.unit(&unit).is_some();
                is_there.then(|| draft(&web, Command::RemoveUnit(unit))).flatten()
            }
            Step::Delete => {
                let deleted = crate::domain::delete::delete(&web.state, None, now);
                deleted.ok().and_then(|(transition, _)| transition)
            }
            Step::Fold => {
                let before = fields(server, name).await.get("b").cloned();
                fold(&own, server, name).await;
                folded += u64::from(fields(server, name).await.get("b").cloned() != before);
                None
            }
            Step::Reopen => {
                (own, store) = open_here(server).await;
                web = Driver::new(&store, name).await;
                None
            }
        };
        if let Some(transition) = transition {
            memory.commit(Arc::new(transition.clone())).await.unwrap();
            web.commit(transition).await.unwrap();
        }
        let app = &web.state.name;
        assert_eq!(store.load(app).await.unwrap(), memory.load(app).await.unwrap(), "{step:?}");
    }
    folded
}
