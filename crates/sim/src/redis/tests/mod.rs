//! The small Redis beside a real one, and what a failover, a restart and a wait do.

mod cluster;

use std::collections::BTreeSet;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use redis::Value;

use super::{Command, Deployment, Nodes, Reply};
use crate::randomness::Dice;

const SECOND: u64 = 1_000_000;

/// The scripts of the store.
const SCRIPTS: [&str; 9] = [
    include_str!("../../../../../src/store/redis/script/beat.lua"),
    include_str!("../../../../../src/store/redis/script/commit.lua"),
    include_str!("../../../../../src/store/redis/script/confirm.lua"),
    include_str!("../../../../../src/store/redis/script/data_loss.lua"),
    include_str!("../../../../../src/store/redis/script/epoch.lua"),
    include_str!("../../../../../src/store/redis/script/fold.lua"),
    include_str!("../../../../../src/store/redis/script/follow.lua"),
    include_str!("../../../../../src/store/redis/script/master.lua"),
    include_str!("../../../../../src/store/redis/script/time.lua"),
];

fn command(text: &str) -> Command {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Sends commands as one pipeline, and returns the replies; `None` if it waits.
fn send(servers: &mut Deployment, node: usize, commands: &[Command]) -> Option<Vec<Reply>> {
    let connection = servers.connect(node);
    servers.send(connection, 1, commands.to_vec());
    servers.take_answers().pop().map(|answer| answer.replies)
}

fn ask(servers: &mut Deployment, node: usize, text: &str) -> Reply {
    send(servers, node, &[command(text)]).and_then(|mut replies| replies.pop()).unwrap()
}

fn pair() -> Deployment {
    Deployment::new(Nodes { shards: 1, replicas: 1, lag: 1000 }, SECOND)
}

fn error(text: &str) -> Reply {
    Reply::Error(text.to_string())
}

/// A process that ends with its owner.
struct Running(Child);

/// A real server, on a socket in a folder of its own.
struct Real {
    _process: Running,
    connection: redis::Connection,
    _folder: tempfile::TempDir,
}

impl Real {
    fn start() -> Real {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("redis");
        let started = Process::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn();
        let process = Running(started.expect("redis-server must be installed: tools/install"));
        let client = redis::Client::open(format!("redis+unix://{}", socket.display())).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Ok(connection) = client.get_connection() {
                return Real { _process: process, connection, _folder: folder };
            }
            assert!(Instant::now() < deadline, "redis-server does not answer");
            std::thread::yield_now();
        }
    }

    fn ask(&mut self, command: &Command) -> Value {
        let mut ask = redis::Cmd::new();
        command.iter().for_each(|word| {
            ask.arg(word.as_slice());
        });
        match redis::ConnectionLike::req_packed_command(
            &mut self.connection,
            &ask.get_packed_command(),
        ) {
            Ok(value) => value,
            // As a value, with the code alone: sentences differ between versions.
            Err(error) => Value::SimpleString(format!("error {}", error.code().unwrap_or("-"))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a reply without what a server may choose: the order of fields, and the text of an error.
fn plain(value: Value, is_unordered: bool) -> Value {
    match value {
        Value::ServerError(error) => Value::SimpleString(format!("error {}", error.code())),
        Value::Array(items) if is_unordered => {
            let sorted: BTreeSet<String> = items.iter().map(|item| format!("{item:?}")).collect();
            Value::Array(sorted.into_iter().map(Value::SimpleString).collect())
        }
        value => value,
    }
}

fn some(dice: &mut Dice, of: &[&str]) -> String {
    of[dice.index(of.len())].to_string()
}

/// Returns a command with random arguments; some of them are wrong.
fn random_command(dice: &mut Dice, number: u64) -> Command {
    let hash = some(dice, &["h1", "h2", "h3", "s1"]);
    let stream = some(dice, &["s1", "s2", "s2", "z1"]);
    let set = some(dice, &["z1", "z2"]);
    let field = some(dice, &["a", "b", "c", "d"]);
    let other = some(dice, &["a", "b", "c"]);
    let small = dice.between(0, 5);
    let from = dice.between(0, number + 2);
    command(&match dice.index(25) {
        0 | 1 => format!("HSET {hash} {field} {number}"),
        2 => format!("HSET {hash} {field} {number} {other} x"),
        3 => format!("HSET {hash} {field}"),
        4 => format!("HSETNX {hash} {field} {number}"),
        5 => format!("HGET {hash} {field}"),
        6 => format!("HMGET {hash} {field} {other}"),
        7 => format!("HGETALL {hash}"),
        8 => format!("HDEL {hash} {field} {other}"),
        9 => format!("HEXISTS {hash} {field}"),
        10 => format!("HKEYS {hash}"),
        11 => format!("HLEN {hash}"),
        12 => format!("HINCRBY {hash} {field} {small}"),
        13 => format!("DEL {hash} {set}"),
        14 => format!("EXISTS {hash} {stream} {hash}"),
        15 => format!("ZADD {set} {number} {field} {small} {other}"),
        16 => format!("ZCARD {set}"),
        17 => format!("ZREM {set} {field}"),
        18 => format!("ZPOPMIN {set}"),
        19 => format!("XADD {stream} {number}-{small} f {field} g {number}"),
        20 => format!("XADD {stream} MAXLEN = {small} {number} f v"),
        21 => format!("XRANGE {stream} {from} + COUNT {small}"),
        22 => format!("XREVRANGE {stream} {number} {from}"),
        23 => format!("XTRIM {stream} MINID {from}"),
        _ => format!("XREAD COUNT 2 STREAMS {stream} {from}"),
    })
}

#[test]
fn replies_are_those_of_a_real_server() {
    let mut real = Real::start();
    for seed in 1..=20 {
        real.ask(&command("FLUSHALL"));
        let mut servers = pair();
        let mut dice = Dice::new(seed, 1);
        for number in 1..=400 {
            let sent = random_command(&mut dice, number);
            let is_unordered = [b"HGETALL".as_slice(), b"HKEYS"].contains(&sent[0].as_slice());
            let replies = send(&mut servers, 0, std::slice::from_ref(&sent)).unwrap();
            let own = plain(replies[0].clone().into_value(), is_unordered);
            let expected = plain(real.ask(&sent), is_unordered);
            let shown: Vec<_> = sent.iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(own, expected, "seed {seed}, command {number}: {}", shown.join(" "));
        }
    }
}

#[test]
fn values_pass_between_lua_and_redis_as_in_a_real_server() {
    let mut real = Real::start();
    let mut servers = pair();
    let scripts = [
        "return {1, 2.9, -3.9, 'text', false, true, 5}",
        "return {1, nil, 3}",
        "return {{}, {'a', {7}}}",
        "return nil",
        "return {ok = 'OK'}",
        "return {err = 'WRONG text'}",
        "return redis.call('HSET', KEYS[1], 'n', 7, 'f', 'v')",
        "return redis.call('HGET', KEYS[1], 'missing')",
        "return tostring(redis.call('HGET', KEYS[1], 'missing'))",
        "return redis.call('HINCRBY', KEYS[1], 'n', 10) + 0.5",
        "return redis.call('XADD', KEYS[1], '1-1', 'a', 'b')",
        "redis.call('HSET', KEYS[1], 'kept', '1') return redis.call('XLEN', KEYS[1])",
        "return redis.call('HGET', KEYS[1], 'kept')",
        "return type(redis.pcall('XLEN', KEYS[1]).err)",
        "return redis.call('HSET', KEYS[1], 'f')",
        "return redis.call('NOTHING')",
        "return {#KEYS, #ARGV, ARGV[2], ARGV[3]}",
        "return error('the end')",
        "return string.format('%.0f', 2 ^ 53 + 2)",
        "return tonumber('12') + tonumber(ARGV[1])",
        "return (string.gsub('3-0', '-0$', '-1'))",
    ];
    for script in scripts {
        let load = vec![b"SCRIPT".to_vec(), b"LOAD".to_vec(), script.as_bytes().to_vec()];
        let digest = real.ask(&load);
        let loaded = send(&mut servers, 0, std::slice::from_ref(&load)).unwrap().remove(0);
        assert_eq!(loaded.clone().into_value(), digest, "{script}");
        let Reply::Bulk(digest) = loaded else { panic!("{loaded:?}") };
        let mut call = command("EVALSHA x 1 key 30 second third");
        call[1] = digest;
        let own = send(&mut servers, 0, std::slice::from_ref(&call)).unwrap().remove(0);
        assert_eq!(plain(own.into_value(), false), plain(real.ask(&call), false), "{script}");
    }
}

#[test]
fn the_scripts_of_the_store_load_and_a_flush_forgets_them() {
    let mut servers = pair();
    for script in SCRIPTS {
        let load = vec![b"SCRIPT".to_vec(), b"LOAD".to_vec(), script.as_bytes().to_vec()];
        let loaded = send(&mut servers, 0, &[load]).unwrap().remove(0);
        let Reply::Bulk(digest) = loaded else { panic!("{loaded:?}") };
        let call = format!("EVALSHA {} 0", String::from_utf8(digest).unwrap());
        servers.forget_scripts(0);
        let missing = ask(&mut servers, 0, &call);
        assert_eq!(missing, error("NOSCRIPT No matching script. Please use EVAL."));
    }
}

#[test]
fn a_replica_follows_with_its_lag_and_refuses_writes() {
    let mut servers = pair();
    ask(&mut servers, 0, "HSET h f v");
    assert_eq!(ask(&mut servers, 1, "HGET h f"), Reply::Nil);
    servers.advance(SECOND + 1000);
    assert_eq!(ask(&mut servers, 1, "HGET h f"), Reply::Bulk(b"v".to_vec()));
    let refused = ask(&mut servers, 1, "HSET h f w");
    assert_eq!(refused, error("READONLY You can't write against a read only replica."));
}

#[test]
fn a_failover_loses_what_had_not_arrived_and_changes_the_history() {
    let mut servers = pair();
    ask(&mut servers, 0, "HSET h kept 1");
    servers.advance(SECOND + 1000);
    ask(&mut servers, 0, "HSET h lost 1");
    let before = servers.state(0).history.clone();
    servers.promote(1);
    assert_eq!(ask(&mut servers, 1, "HMGET h kept lost"), {
        Reply::Array(vec![Reply::Bulk(b"1".to_vec()), Reply::Nil])
    });
    assert_ne!(servers.state(1).history, before);
    // The former master serves on until it follows the new one.
    assert_eq!(ask(&mut servers, 0, "HSET h late 1"), Reply::Number(1));
    servers.follow(0, 1);
    assert_eq!(ask(&mut servers, 0, "HGET h late"), Reply::Nil);
    assert!(ask(&mut servers, 0, "HSET h late 1").is_error());
    assert!(!servers.state(1).is_replica && servers.state(0).is_replica);
}

#[test]
fn a_restart_keeps_what_the_disk_has_and_closes_the_connections() {
    let mut servers = pair();
    ask(&mut servers, 0, "HSET h kept 1");
    servers.advance(3 * SECOND);
    let connection = servers.connect(0);
    ask(&mut servers, 0, "HSET h lost 1");
    let before = servers.state(0).history.clone();
    servers.restart(0);
    assert!(servers.take_closed().contains(&connection));
    assert!(!servers.send(connection, 1, vec![command("PING")]));
    assert_eq!(ask(&mut servers, 0, "HMGET h kept lost"), {
        Reply::Array(vec![Reply::Bulk(b"1".to_vec()), Reply::Nil])
    });
    assert_ne!(servers.state(0).history, before);
    // Its replica takes over what it has.
    assert_eq!(ask(&mut servers, 1, "HGET h lost"), Reply::Nil);
}

#[test]
fn a_wait_ends_with_the_replica_with_the_disk_or_with_its_time() {
    let mut servers = pair();
    let write = || command("HSET h f v");
    assert_eq!(send(&mut servers, 0, &[write(), command("WAIT 1 500")]), None);
    servers.advance(SECOND + 1000);
    assert_eq!(servers.take_answers()[0].replies[1], Reply::Number(1));

    assert_eq!(send(&mut servers, 0, &[write(), command("WAITAOF 1 0 5000")]), None);
    servers.advance(2 * SECOND);
    let both = Reply::Array(vec![Reply::Number(1), Reply::Number(1)]);
    assert_eq!(servers.take_answers()[0].replies[1], both);

    servers.set_replication(1, true, 1000);
    assert_eq!(send(&mut servers, 0, &[write(), command("WAIT 1 500")]), None);
    servers.advance(2 * SECOND + 499_999);
    assert_eq!(servers.take_answers(), []);
    servers.advance(2 * SECOND + 500_000);
    assert_eq!(servers.take_answers()[0].replies[1], Reply::Number(0));
}

#[test]
fn a_read_of_a_stream_waits_for_an_entry() {
    let mut servers = pair();
    let read = || command("XREAD COUNT 10 BLOCK 1000 STREAMS s 0-0");
    assert_eq!(send(&mut servers, 0, &[read()]), None);
    ask(&mut servers, 0, "XADD s 1-1 a b");
    servers.advance(SECOND + 1);
    let [answer] = servers.take_answers().try_into().unwrap();
    assert!(matches!(&answer.replies[..], [Reply::Array(streams)] if streams.len() == 1));
    let later = command("XREAD COUNT 10 BLOCK 1000 STREAMS s 1-1");
    assert_eq!(send(&mut servers, 0, &[later]), None);
    servers.advance(SECOND + 1 + 1000 * 1000);
    assert_eq!(servers.take_answers()[0].replies, [Reply::Nil]);
}

#[test]
fn a_frozen_server_executes_later_and_a_full_one_only_frees() {
    let mut servers = pair();
    servers.freeze(0, true);
    assert_eq!(send(&mut servers, 0, &[command("HSET h f v")]), None);
    servers.freeze(0, false);
    servers.advance(2 * SECOND);
    assert_eq!(servers.take_answers()[0].replies, [Reply::Number(1)]);

    servers.set_full(0, true);
    let refused = error("OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(ask(&mut servers, 0, "HSET h g v"), refused);
    assert_eq!(ask(&mut servers, 0, "HDEL h f"), Reply::Number(1));
}

#[test]
fn a_closed_connection_executes_nothing_more_and_a_clock_can_be_set() {
    let mut servers = pair();
    servers.freeze(0, true);
    let connection = servers.connect(0);
    servers.send(connection, 1, vec![command("HSET h f v")]);
    servers.close(connection);
    servers.freeze(0, false);
    servers.set_clock(0, -500_000);
    servers.advance(2 * SECOND);
    assert_eq!(ask(&mut servers, 0, "EXISTS h"), Reply::Number(0));
    let time = ["1", "500000"].map(|part| Reply::Bulk(part.as_bytes().to_vec()));
    assert_eq!(ask(&mut servers, 0, "TIME"), Reply::Array(time.to_vec()));
}

#[test]
fn a_transaction_takes_effect_at_once() {
    let mut servers = pair();
    let sent = ["MULTI", "HSET h f v", "HGET h f", "EXEC"].map(command);
    let replies = send(&mut servers, 0, &sent).unwrap();
    let queued = Reply::Status("QUEUED");
    let done = Reply::Array(vec![Reply::Number(1), Reply::Bulk(b"v".to_vec())]);
    assert_eq!(replies, [Reply::OK, queued.clone(), queued, done]);
}
