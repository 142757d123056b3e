//! The rights that a server's Redis user needs, and a check that calls none of the commands.

use redis::{Pipeline, Value};

use crate::store::Bucket;
use crate::store::redis::Durability;
use crate::store::redis::record::key::{Key, KeySpace};
use crate::store::redis::record::reply;
use crate::store::redis::script::{self, Script};

use super::facts::Rights;

/// The commands on one key, with the minimum number of further arguments. `commit.lua` and the
/// other scripts call some of them, and Redis checks the same rights there.
const ON_A_KEY: &[(&str, &str)] = &[
    ("hget", "f"),
    ("hset", "f v"),
    ("hsetnx", "f v"),
    ("hdel", "f"),
    ("hlen", ""),
    ("hmget", "f"),
    ("hgetall", ""),
    ("hkeys", ""),
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

/// The commands without a key.
const ALONE: &[&str] = &["info", "time", "multi", "exec"];

/// Returns all commands that a server calls, as lines.
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

/// Returns the request that checks these commands, in the way in which the store calls its scripts.
pub(super) fn ask(needed: &[String]) -> Pipeline {
    let script = Script::new(include_str!("rights.lua"));
    let mut pipeline = redis::pipe();
    script.load(&mut pipeline);
    pipeline.add_command(script::call(&script, &[]).arg(needed).clone());
    pipeline
}

/// Parses the answers.
pub(super) fn read(needed: &[String], answers: &[Value]) -> Rights {
    let mut rights = Rights::default();
    let [loaded, called] = answers else {
        return Rights { unknown: Some("the answer is incomplete".to_string()), ..rights };
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
        rights.unknown = Some("Redis before 7 cannot tell".to_string());
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

/// Returns the name of a command as an ACL has it.
fn name(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["cluster", sub, ..] => format!("cluster|{sub}"),
        [name, ..] => (*name).to_string(),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_of_a_script_is_examined() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis/script");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let scripts = files.filter(|path| path.extension().is_some_and(|end| end == "lua"));
        let mut called = 0;
        for text in scripts.map(|path| std::fs::read_to_string(path).unwrap()) {
            for call in text.split("redis.call('").skip(1) {
                let name = call.split('\'').next().unwrap().to_lowercase();
                let is_known = ON_A_KEY.iter().any(|(known, _)| *known == name);
                assert!(is_known || ALONE.contains(&name.as_str()), "{name}");
                called += 1;
            }
        }
        assert!(20 < called, "{called}");
    }
}
