//! Every shipped format is still read: `tests/formats` keeps the keys of each, as commands for
//! `redis-cli`.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::store::codec::FORMAT;
use crate::store::conformance::driver::Seen;
use crate::store::conformance::full::{check_full, check_ids_alone, mk_full};
use crate::store::conformance::many::mk_set;

use super::*;

fn path_of(format: u8) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join(format!("tests/formats/v{format}.redis"))
}

/// Creates the keys of a fixture.
fn fill(server: &RedisServer, path: &Path) {
    let mut cli = Command::new("redis-cli");
    cli.args(["-e", "-p", &server.port.to_string()]);
    let output = cli.stdin(File::open(path).unwrap()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

async fn open_full(server: &RedisServer) -> Arc<dyn Store> {
    Arc::new(try_open(&server.url(), Options::default()).await.unwrap())
}

/// The fields of a bucket's state that name its master. They differ each time.
const OF_MASTER: [&str; 4] = ["master", "counts_above", "history", "takeovers"];

/// Returns the commands that create all existing keys.
async fn dump(server: &RedisServer) -> Vec<String> {
    let mut keys: Vec<String> = server.call(&["KEYS", "*"]).await.unwrap();
    keys.sort();
    let mut lines = Vec::new();
    for key in &keys {
        let kind: String = server.call(&["TYPE", key]).await.unwrap();
        let ask: &[&str] = match kind.as_str() {
            "hash" => &["HGETALL", key],
            "zset" => &["ZRANGE", key, "0", "-1", "WITHSCORES"],
            "stream" => &["XRANGE", key, "-", "+"],
            other => panic!("{key} is a {other}"),
        };
        let found: Value = server.call(ask).await.unwrap();
        let is_of_master = |field| reply::text(field).is_some_and(|f| OF_MASTER.contains(&f));
        let kept = reply::pairs(&found).into_iter().filter(|(field, _)| !is_of_master(field));
        let mut pairs: Vec<_> = kept.map(quote_pair).collect();
        pairs.sort();
        match kind.as_str() {
            "hash" if pairs.is_empty() => {}
            "hash" => lines.push(format!("HSET {key} {}", pairs.concat())),
            "zset" => lines.extend(
                reply::pairs(&found)
                    .into_iter()
                    .map(|(member, score)| format!("ZADD {key} {}", quote_pair((score, member)))),
            ),
            _ => lines.extend(reply::items(&found).iter().map(|entry| {
                let [id, fields] = reply::items(entry) else { panic!("{entry:?}") };
                let fields: String = reply::pairs(fields).into_iter().map(quote_pair).collect();
                format!("XADD {key} {} {fields}", reply::text(id).unwrap())
            })),
        }
    }
    lines.iter().map(|line| line.trim_end().to_string()).collect()
}

fn quote_pair((a, b): (&Value, &Value)) -> String {
    let quote = |value| {
        let bytes = reply::bytes(value).unwrap_or_default().iter();
        let quoted: String = bytes
            .map(|&byte| match byte {
                b' ' | b'!' | b'#'..=b'[' | b']'..=b'~' => char::from(byte).to_string(),
                byte => format!("\\x{byte:02x}"),
            })
            .collect();
        format!("\"{quoted}\" ")
    };
    quote(a) + &quote(b)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_format_is_read() {
    for format in 1..=FORMAT {
        let path = path_of(format);
        assert!(path.exists(), "no fixture of format {format}: see `write_redis_fixture`");
        let Some(server) = RedisServer::start().await else { return };
        fill(&server, &path);
        let store = open_full(&server).await;
        let recorder = Recorder::on(&store);
        let mut notified = recorder.notified();
        notified.sort_by_key(|notified| format!("{notified:?}"));
        let changed = |app: &str, revision, deleted| {
            Seen::Changed(app.to_string(), Position(1), Revision(revision), deleted)
        };
        assert_eq!(notified, [changed("deleted", 9, true), changed("full", 7, false)]);
        check_full(&store).await;
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(&format!("{:016x}", store.epoch().store_id)), "it is the same store");
        // The store accepts commits.
        let mut full = Driver::new(&store, "full").await;
        full.report("full/1", "here").await;
        full.check().await;
        assert_eq!(
            recorder.notified().last(),
            Some(&Seen::Changed("full".to_string(), Position(2), Revision(8), false,))
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_the_version_before_fingerprints_are_read() {
    let Some(server) = RedisServer::start().await else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fill(&server, &root.join("tests/formats/v1-ids-alone.redis"));
    check_ids_alone(&open_full(&server).await).await;
}

const WITH_BLOCKS: &str = "tests/formats/v1-blocks.redis";

fn path_with_blocks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(WITH_BLOCKS)
}

/// Writes an application with single fields of statuses, and blocks that replace some of them.
async fn write_blocks(server: &RedisServer) {
    let store = open_full(server).await;
    let mut many = Driver::new(&store, "many").await;
    many.run(mk_set("w/0", 0..15, "in single fields")).await;
    many.run(mk_set("w/1", 0..20, "in a block")).await;
    many.report("w/2", "alone in a block").await;
    many.run(mk_set("w/0", 1..3, "in single fields")).await;
    many.run(mk_set("w/1", 0..19, "in a block")).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_with_blocks_is_read() {
    let Some(server) = RedisServer::start().await else { return };
    fill(&server, &path_with_blocks());
    let store = open_full(&server).await;
    let mut many = Driver::new(&store, "many").await;
    let records = store.load(&many.state.name).await.unwrap();
    let of = |unit: &str| {
        let found = records.statuses.iter().filter(|(key, _)| key.unit.as_str() == unit);
        found.map(|(key, status)| (key.key.as_str(), &*status.report.message)).collect::<Vec<_>>()
    };
    assert_eq!(of("w/0"), [("1", "in single fields"), ("2", "in single fields")]);
    assert_eq!(of("w/1").len(), 19);
    assert!(of("w/1").iter().all(|(key, message)| *key != "19" && *message == "in a block"));
    assert_eq!(of("w/2"), [("", "alone in a block")]);
    many.run(mk_set("w/0", 0..40, "here")).await;
    many.check().await;
}

/// What the fixture has is what is written now, but for times and random numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_are_written_as_in_the_fixture() {
    let Some(server) = RedisServer::start().await else { return };
    write_blocks(&server).await;
    let shipped = std::fs::read_to_string(path_with_blocks()).unwrap();
    let of_app = |lines: &[String]| {
        let hash = lines.iter().find(|line| line.contains(":app:test/many ")).unwrap();
        let (_, fields) = hash.split_once(" \"").unwrap();
        let words: Vec<String> = fields.split("\" \"").map(str::to_string).collect();
        // Each second word is a value. The index is the first field.
        let names: Vec<String> = words.iter().step_by(2).cloned().collect();
        assert_eq!(names[0], "b");
        (names, words[1].clone())
    };
    let shipped: Vec<String> = shipped.lines().map(str::to_string).collect();
    assert_eq!(of_app(&dump(&server).await), of_app(&shipped));
}

/// Writes the fixture of blocks, once: `cargo test --lib write_blocks_fixture -- --ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes into the repository"]
async fn write_blocks_fixture() {
    assert!(!path_with_blocks().exists(), "what was shipped is not rewritten");
    let Some(server) = RedisServer::start().await else { return };
    write_blocks(&server).await;
    let mut lines = dump(&server).await;
    lines.retain(|line| !line.contains(" bw:replicas ") && !line.contains(" \"j\" "));
    std::fs::write(path_with_blocks(), lines.join("\n") + "\n").unwrap();
}

/// The written keys and fields are those of the newest fixture; other ones would be another format.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_format_is_written() {
    let Some(server) = RedisServer::start().await else { return };
    write_full(&server).await;
    // Values contain times and random numbers; names of keys and fields do not.
    let names = |lines: &[String]| -> BTreeSet<String> {
        let names = lines.iter().map(|line| {
            let words: Vec<&str> = line.split(' ').take(2).collect();
            let fields = line.match_indices("\" \"").count();
            format!("{} with {fields}", words.join(" "))
        });
        names.collect()
    };
    let shipped = std::fs::read_to_string(path_of(FORMAT)).unwrap();
    let shipped: Vec<String> = shipped.lines().map(str::to_string).collect();
    let mut written = dump(&server).await;
    // The entries about running processes are not records.
    let of_processes = [" bw:replicas ", " bw:clock ", " \"j\" "];
    written.retain(|line| !of_processes.iter().any(|entry| line.contains(entry)));
    // An application's own events have a stream of their own, with the fields of the others.
    let written: Vec<String> =
        written.iter().map(|line| line.replace(":own:", ":events:")).collect();
    assert_eq!(names(&written), names(&shipped));
}

async fn write_full(server: &RedisServer) {
    let store = open_full(server).await;
    for transition in mk_full() {
        store.commit(Arc::new(transition)).await.unwrap();
    }
    store.close().await;
}

/// Writes the fixture of a new format, once: `cargo test --lib write_redis_fixture -- --ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes into the repository"]
async fn write_redis_fixture() {
    let path = path_of(FORMAT);
    assert!(!path.exists(), "what was shipped is not rewritten");
    let Some(server) = RedisServer::start().await else { return };
    write_full(&server).await;
    std::fs::write(path, dump(&server).await.join("\n") + "\n").unwrap();
}
