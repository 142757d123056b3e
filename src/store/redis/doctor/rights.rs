//! What the user we come as must be allowed, and how to find out without doing any of it.

use redis::{Pipeline, Script, Value};

use crate::store::Bucket;
use crate::store::redis::durability::Durability;
use crate::store::redis::key::{Key, KeySpace};
use crate::store::redis::{reply, script};

use super::facts::Rights;

/// Commands on one key, with as many more arguments as they take at least. `commit.lua` and the
/// other scripts call some of them, and Redis asks for the same right there.
const ON_A_KEY: &[(&str, &str)] = &[
    ("hget", "f"),
    ("hset", "f v"),
    ("hsetnx", "f v"),
    ("hdel", "f"),
    ("hlen", ""),
    ("hmget", "f"),
    ("hgetall", ""),
    ("hexists", "f"),
    ("hincrby", "f 1"),
    ("del", ""),
    ("exists", ""),
    ("xadd", "* f v"),
    ("xtrim", "MINID 1"),
    ("xrange", "- +"),
    ("xrevrange", "+ -"),
    ("zadd", "1 m"),
    ("zrem", "m"),
    ("zcard", ""),
    ("zpopmin", ""),
];

/// Commands without a key.
const ALONE: &[&str] = &["info", "time", "multi", "exec"];

/// All commands that a server of ours calls, as lines.
pub(super) fn needed(keys: &KeySpace, durability: Durability, is_cluster: bool) -> Vec<String> {
    let key = keys.name(Key::State(Bucket(0)));
    let mut lines: Vec<String> =
        ON_A_KEY.iter().map(|(name, rest)| format!("{name} {key} {rest}")).collect();
    lines.push(format!("hget {} f", keys.name(Key::Meta)));
    lines.push(format!("xread STREAMS {key} $"));
    lines.extend(ALONE.iter().map(ToString::to_string));
    match durability {
        Durability::Acknowledged => {}
        Durability::Replicated { .. } => lines.push("wait 0 0".to_string()),
        Durability::Synced { .. } => lines.push("waitaof 0 0 0".to_string()),
    }
    if is_cluster {
        lines.extend(["cluster info", "cluster slots"].map(str::to_string));
    }
    lines
}

/// Asks about these commands, in the way in which the store calls its own scripts.
pub(super) fn ask(needed: &[String]) -> Pipeline {
    let source = include_str!("rights.lua");
    let mut pipeline = redis::pipe();
    pipeline.cmd("SCRIPT").arg("LOAD").arg(source);
    pipeline.add_command(script::call(&Script::new(source), &[]).arg(needed).clone());
    pipeline
}

/// Reads the answers.
pub(super) fn read(needed: &[String], answers: &[Value]) -> Rights {
    let mut rights = Rights::default();
    let [loaded, called] = answers else {
        return Rights { unknown: Some("the answer is not whole".to_string()), ..rights };
    };
    for (name, answer) in [("script|load", loaded), ("evalsha", called)] {
        let Value::ServerError(error) = answer else { continue };
        match error.code() {
            "NOPERM" => rights.denied.push(name.to_string()),
            _ if error.to_string().contains("unknown command") => {
                rights.missing.push(name.to_string());
            }
            _ => rights.unknown = Some(error.to_string()),
        }
    }
    let verdicts = reply::items(called);
    if rights == Rights::default() && verdicts.is_empty() {
        rights.unknown = Some("it cannot be asked before Redis 7".to_string());
    }
    for (line, verdict) in needed.iter().zip(verdicts) {
        let name = name(line);
        let list = match reply::text(verdict) {
            Some("allowed") => continue,
            Some("missing") => &mut rights.missing,
            _ => &mut rights.denied,
        };
        if !list.contains(&name) {
            list.push(name);
        }
    }
    rights
}

/// As an ACL names it.
fn name(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["cluster", sub, ..] => format!("cluster|{sub}"),
        [name, ..] => (*name).to_string(),
        [] => String::new(),
    }
}
