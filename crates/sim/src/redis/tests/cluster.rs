//! Slots: which server serves a key, and what a moved slot takes with it.

use super::super::slots::keys_of;
use super::*;

/// In a cluster of two shards the first one has this key, and the second one the other.
const FIRST: &str = "{b00}:h";
const SECOND_KEY: &str = "{b02}:h";
const SLOT: u16 = 1741;

fn two_shards() -> Deployment {
    Deployment::new(Nodes { shards: 2, replicas: 1, lag: 1000 }, SECOND)
}

#[test]
fn a_key_is_served_by_the_master_that_has_its_slot() {
    let mut servers = two_shards();
    let write = format!("HSET {FIRST} f v");
    assert_eq!(ask(&mut servers, 0, &write), Reply::Number(1));
    for node in [1, 2, 3] {
        assert_eq!(ask(&mut servers, node, &write), error("MOVED 1741 redis-0:6379"));
    }
    assert_eq!(ask(&mut servers, 2, &format!("HSET {SECOND_KEY} f v")), Reply::Number(1));
    assert_eq!(ask(&mut servers, 2, "PING"), Reply::Status("PONG"));
    let both = format!("DEL {FIRST} {SECOND_KEY}");
    let refused = error("CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(ask(&mut servers, 0, &both), refused);
    // After a failover the former master leads to the new one.
    servers.promote(1);
    servers.follow(0, 1);
    assert_eq!(ask(&mut servers, 0, &write), error("MOVED 1741 redis-1:6379"));
}

#[test]
fn a_transaction_with_a_key_of_another_server_is_discarded() {
    let mut servers = two_shards();
    let words = ["MULTI".to_string(), format!("HSET {SECOND_KEY} f v"), "EXEC".to_string()];
    let replies = send(&mut servers, 0, &words.map(|text| command(&text))).unwrap();
    assert!(replies[1].is_error());
    let discarded = error("EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(replies[2], discarded);
}

#[test]
fn a_moved_slot_takes_its_keys_along_and_the_replicas_follow() {
    let mut servers = two_shards();
    for text in [
        format!("HSET {FIRST} f v g w"),
        "ZADD {b00}:z 7 a 9 b".to_string(),
        "XADD {b00}:s 5-1 a b".to_string(),
        "XADD {b00}:empty MAXLEN = 0 8-2 a b".to_string(),
    ] {
        assert!(!ask(&mut servers, 0, &text).is_error(), "{text}");
    }
    let before = servers.state(0).keys.clone();
    assert_eq!(before.len(), 4);
    let waiting = servers.connect(0);
    servers.send(waiting, 7, vec![command("XREAD BLOCK 60000 STREAMS {b00}:s 5-1")]);
    servers.move_slot(SLOT, (0, 2));
    assert_eq!(servers.state(2).keys, before);
    assert!(servers.state(0).keys.is_empty());
    assert_eq!(servers.owner_of(SLOT), 1);
    servers.advance(SECOND + 1000);
    assert_eq!(servers.state(3).keys, before);
    assert!(servers.state(1).keys.is_empty());
    // A read that waits ends with the place of the stream.
    let [answer] = servers.take_answers().try_into().unwrap();
    assert_eq!(answer.replies, [error("MOVED 1741 redis-2:6379")]);
    let ranges = servers.ranges();
    assert_eq!(ranges, [(0..=1740, 0), (1741..=1741, 1), (1742..=8191, 0), (8192..=16383, 1)]);
}

#[test]
fn a_wait_for_disks_counts_the_disks_of_replicas() {
    let mut servers = pair();
    let sent = [command("HSET h f v"), command("WAITAOF 1 1 5000")];
    assert_eq!(send(&mut servers, 0, &sent), None);
    // The replica has the write after its lag, and its disk with the next flush.
    servers.advance(SECOND + 1000);
    servers.advance(2 * SECOND - 1);
    assert_eq!(servers.take_answers(), []);
    servers.advance(2 * SECOND);
    let both = Reply::Array(vec![Reply::Number(1), Reply::Number(1)]);
    assert_eq!(servers.take_answers()[0].replies[1], both);
}

#[test]
fn the_keys_of_a_command_are_known() {
    let keys = |text: &str| {
        let command = command(text);
        let keys = keys_of(&command).into_iter();
        keys.map(|key| String::from_utf8(key.clone()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(keys("EVALSHA digest 2 a b c"), ["a", "b"]);
    assert_eq!(keys("xread COUNT 1 STREAMS a b 0 0"), ["a", "b"]);
    assert_eq!(keys("DEL a b"), ["a", "b"]);
    assert_eq!(keys("hset a f v"), ["a"]);
    for text in ["PING", "INFO memory", "SCRIPT LOAD x", "WAIT 1 0", "EVALSHA digest 0 a"] {
        assert_eq!(keys(text), [""; 0], "{text}");
    }
}
