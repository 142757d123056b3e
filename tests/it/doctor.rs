//! `bellwether doctor` against real stores: its findings, its advice and its exit codes.

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::authority::Authority;
use crate::peer::{Peer, hello};
use crate::redis::Redis;
use crate::server::{BINARY, DEADLINE, Server, eventually};

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn doctor(arguments: &[&str]) -> Said {
    let mut command = Command::new(BINARY);
    // The environment of the developer may set a locale and a store.
    command.arg("doctor").args(arguments).env("LC_ALL", "C.UTF-8");
    for name in ["STORE", "DURABILITY", "EPHEMERAL", "DATA_DIR", "CONFIG"] {
        command.env_remove(format!("BELLWETHER_{name}"));
    }
    let output = command.output().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Checks the exit code and the lines of the output.
#[track_caller]
fn assert_said(arguments: &[&str], code: i32, lines: &[&str]) {
    let said = doctor(arguments);
    assert_eq!(said.code, Some(code), "{arguments:?}:\n{}{}", said.out, said.err);
    for line in lines {
        assert!(said.out.contains(line), "{line:?} is not in:\n{}", said.out);
    }
}

const GOOD: &[&str] = &["--appendonly", "yes", "--maxmemory", "100mb"];

#[test]
fn a_healthy_redis_has_no_finding() {
    let Some(redis) = Redis::start(GOOD) else { return };
    let said = doctor(&["--store", &redis.url()]);
    assert_eq!(said.code, Some(0), "{}", said.out);
    let summary = said.out.lines().last().unwrap();
    assert!(summary.starts_with("0 errors, ") && summary.ends_with(" ok"), "{}", said.out);
    for line in ["√ eviction ", "√ persistence ", "appendonly yes, appendfsync everysec"] {
        assert!(said.out.contains(line), "{line:?} is not in:\n{}", said.out);
    }
    assert!(!said.out.contains('\u{1b}'), "no colour into a pipe");
    assert_eq!(redis.cli(&["dbsize"]), "0", "nothing is written");
}

#[test]
fn each_fault_comes_with_what_to_do() {
    let Some(redis) = Redis::start(&["--maxmemory-policy", "allkeys-lru"]) else { return };
    let store = redis.url();
    let lines = [
        "× eviction ",
        "-> CONFIG SET maxmemory-policy noeviction",
        "× persistence ",
        "-> CONFIG SET appendonly yes",
        "‼ memory ",
        "2 errors, 1 warning, ",
    ];
    assert_said(&["--store", &store], 1, &lines);
    // This command follows the advice.
    redis.cli(&["config", "set", "maxmemory-policy", "noeviction"]);
    redis.cli(&["config", "set", "appendonly", "yes"]);
    assert_said(&["--store", &store], 0, &["√ eviction ", "0 errors, 1 warning, "]);
}

#[test]
fn programs_read_it_too() {
    let Some(redis) = Redis::start(&["--maxmemory-policy", "allkeys-lru"]) else { return };
    let said = doctor(&["--store", &redis.url(), "-o", "json"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    let value: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(value["store"], redis.url());
    assert_eq!(value["level"], "error");
    let first = &value["findings"][0];
    assert_eq!((&first["check"], &first["level"]), (&"eviction".into(), &"error".into()));
    assert_eq!(first["commands"][0], "CONFIG SET maxmemory-policy noeviction");
    assert!(redis.url().ends_with(first["servers"][0].as_str().unwrap()), "{first}");
    let yaml = doctor(&["--store", &redis.url(), "-o", "yaml"]).out;
    assert!(yaml.contains("check: eviction\n"), "{yaml}");
}

#[test]
fn an_unreachable_service_is_a_finding() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let line = format!("× connection  cannot connect to {nobody} (Connection refused");
    assert_said(&["--store", &format!("redis://{nobody}")], 1, &[&line, "check that it runs"]);
    let Some(redis) = Redis::start(&[]) else { return };
    redis.cli(&["config", "set", "requirepass", "secret"]);
    let address = redis.url().replace("redis://", "");
    let refused = "does not accept the user and password of --store";
    let wrong = format!("redis://:wrong@{address}");
    assert_said(&["--store", &wrong], 1, &["× connection", refused, "1 error\n"]);
    assert!(!doctor(&["--store", &wrong]).out.contains("wrong"), "the password is not shown");
    assert_said(&["--store", &format!("redis://:secret@{address}")], 1, &["× persistence"]);
    // A frozen server accepts connections and answers nothing.
    redis.signal("STOP");
    let start = Instant::now();
    let frozen = format!("redis://:secret@{address}");
    let lines = ["× connection  no answer from 127.0.0.1"];
    assert_said(&["--store", &frozen, "--timeout", "1s"], 1, &lines);
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
    redis.signal("CONT");
}

#[tokio::test]
async fn replicas_are_asked_for_and_never_used() {
    let Some(master) = Redis::start(GOOD) else { return };
    let durable = ["--store", &master.url(), "--durability", "replicated:1"];
    let lines = ["× replicas ", "0 online, and --durability waits for 1"];
    assert_said(&durable, 1, &lines);
    let port = master.url().replace("redis://127.0.0.1:", "");
    let replica_of = ["--replicaof", "127.0.0.1", &port];
    let replica = Redis::start(&replica_of).expect("a second one");
    let lines = ["× connection", "is a replica of 127.0.0.1:", "--store must lead to the master"];
    assert_said(&["--store", &replica.url()], 1, &lines);
    eventually("the replica is online", async || {
        master.cli(&["info", "replication"]).contains("state=online").then_some(())
    })
    .await;
    assert_said(&durable, 0, &["‼ replicas ", "1 online, and --durability waits for all of them"]);
    assert_said(&["--store", &master.url()], 0, &["-> CONFIG SET min-replicas-to-write 1"]);
}

#[test]
fn a_missing_right_is_a_finding_with_the_grant() {
    let Some(redis) = Redis::start(GOOD) else { return };
    let address = redis.url().replace("redis://", "");
    let user = ["acl", "setuser", "bellwether", "on", ">secret", "~bw:*"];
    // The user has the rights that docs/redis.md lists.
    redis.cli(&[&user[..], &["+@all", "-@dangerous", "+info"]].concat());
    let store = format!("redis://bellwether:secret@{address}");
    let lines = ["? settings ", "-> ACL SETUSER bellwether +config|get", "√ permissions "];
    assert_said(&["--store", &store], 0, &lines);
    redis.cli(&[&user[..], &["-xadd", "-@scripting"]].concat());
    let lines = ["× permissions ", "-> ACL SETUSER bellwether ~bw:* +script|load +evalsha"];
    assert_said(&["--store", &store], 1, &lines);
    redis.cli(&[&user[..], &["+@scripting", "-xadd"]].concat());
    let lines = ["× permissions ", "-> ACL SETUSER bellwether ~bw:* +xadd\n"];
    assert_said(&["--store", &store], 1, &lines);
    redis.cli(&[&user[..], &["+xadd", "resetkeys", "~other:*"]].concat());
    assert_said(&["--store", &store], 1, &["× permissions ", "~bw:* +hget "]);
    let other = ["--store", &store, "--store-prefix", "other"];
    assert_said(&other, 0, &["√ permissions "]);
}

#[test]
fn keys_of_another_program_are_a_finding() {
    let Some(redis) = Redis::start(GOOD) else { return };
    assert_said(&["--store", &redis.url()], 0, &["√ store ", "there is no store yet"]);
    let server = Server::start(&["--store", &redis.url()]);
    assert_said(&["--store", &redis.url()], 0, &["√ store ", "format 1, 64 buckets\n"]);
    drop(server);
    let store = redis.url();
    let other = ["--store", &store, "--store-buckets", "32"];
    assert_said(&other, 1, &["× store ", "has 64 buckets, and --store-buckets is 32"]);
    let other = ["--store", &store, "--store-prefix", "other"];
    assert_said(&other, 0, &["√ store ", "there is no store yet"]);
    redis.cli(&["del", "bw:meta"]);
    redis.cli(&["set", "bw:meta", "mine"]);
    assert_said(&["--store", &redis.url()], 1, &["× store ", "is not a key of bellwether"]);
}

#[test]
fn the_embedded_store_is_looked_at_and_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let arguments = ["--data-dir", dir.to_str().unwrap()];
    assert_said(&arguments, 0, &["√ data-directory", "will be created at the first start"]);
    assert!(!dir.exists());
    let server = Server::on(&dir);
    assert_said(&arguments, 0, &["√ database", "another process uses it"]);
    server.kill();
    let file = dir.join("bellwether.redb");
    let before = std::fs::read(&file).unwrap();
    assert_said(&arguments, 0, &["√ data-directory", "√ database", "√ free-space"]);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    std::fs::write(&file, "sheep").unwrap();
    assert_said(&arguments, 1, &["× database", "is damaged"]);
    assert_said(&["--data-dir", file.to_str().unwrap()], 1, &["× data-directory"]);
}

#[test]
fn settings_are_those_of_serve() {
    assert_said(&["--ephemeral"], 0, &["√ memory ", "nothing survives"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "store = 'memory'\n[limits]\nunits_max = 5\n").unwrap();
    assert_said(&["--config", file.path().to_str().unwrap()], 0, &["√ memory "]);
    let redis = ["--store", "redis://127.0.0.1:1"];
    for (wrong, expected) in [
        (["--store", "etcd"].to_vec(), "is not known"),
        ([&redis[..], &["--durability", "some"]].concat(), "replicated:N"),
        ([&redis[..], &["--timeout", "0"]].concat(), "leaves no time"),
    ] {
        let said = doctor(&wrong);
        assert_eq!(said.code, Some(2), "{wrong:?}: {}{}", said.out, said.err);
        assert!(said.err.contains(expected), "{}", said.err);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_self_preservation_is_a_finding() {
    let server = Server::ephemeral();
    let ops = server.ops.to_string();
    let arguments = ["--store", "memory", "--ops", &ops];
    assert_said(&arguments, 0, &["√ observer ", "in contact with its workers"]);
    // One of one session is more than half.
    drop(Peer::connect(&server, hello("web", "web/0")).await);
    eventually("the server suspects itself", async || {
        let said = doctor(&arguments);
        said.out.contains("‼ observer ").then_some(())
    })
    .await;
    assert_said(&arguments, 0, &["lost contact with most units of 1 applications at once"]);
    drop(server);
    assert_said(&arguments, 0, &["? observer ", "no answer with its metrics"]);
}

#[test]
fn the_ops_port_is_reached_with_tls_and_a_wrong_authority_is_named() {
    let authority = Authority::new();
    let server = authority.serve(&["--ops-tls"]);
    let (ops, ca) = (format!("https://localhost:{}", server.ops.port()), authority.text("ca.pem"));
    let flags = ["--ephemeral", "--ops", &ops, "--ca"];
    assert_said(&[&flags[..], &[&ca]].concat(), 0, &["√ observer ", "in contact"]);
    let other = Authority::new();
    let wrong = other.text("ca.pem");
    assert_said(&[&flags[..], &[&wrong]].concat(), 0, &["observer ", "invalid peer certificate"]);
    assert_said(&[&flags[..], &["/none"]].concat(), 0, &["observer ", "no certificate in PEM"]);
}

#[test]
fn keys_behind_a_url_are_fetched() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let of = |keys: &str| {
        format!("[[jwt]]\nname = 'k8s'\nissuer = 'i'\naudience = 'a'\nkeys = '{keys}'\n")
    };
    std::fs::write(file.path(), of("https://127.0.0.1:1/jwks")).unwrap();
    let flags = ["--ephemeral", "--config", file.path().to_str().unwrap()];
    assert_said(&flags, 1, &["× jwt ", "https://127.0.0.1:1/jwks", "keys_ca"]);
    std::fs::write(file.path(), of("http://issuer.example/jwks")).unwrap();
    let said = doctor(&flags);
    assert!(said.code == Some(2) && said.err.contains("give an https URL"), "{}", said.err);
}
