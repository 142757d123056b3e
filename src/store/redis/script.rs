//! The scripts, known to Redis by their digest.
//!
//! A script is gone after a restart, a failover or `SCRIPT FLUSH`. Whoever is answered `NOSCRIPT`
//! loads all of them and asks again: nothing has happened yet.

use std::sync::LazyLock;

use redis::{Cmd, Pipeline, Script, Value};

use super::link::{LinkError, Links};
use super::reply;

/// Commits one transition.
pub(super) static COMMIT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("commit.lua")));
/// Compares versions.
pub(super) static CONFIRM: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("confirm.lua")));
/// Notes that a bucket may have lost writes.
pub(super) static DOUBT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("doubt.lua")));
/// Notes which master serves a bucket.
pub(super) static MASTER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("master.lua")));
/// Counts a loss.
pub(super) static EPOCH: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("epoch.lua")));

/// Reads the time.
pub(super) static TIME: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("time.lua")));

/// Says that a process lives.
pub(super) static BEAT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("beat.lua")));

/// Calls a script by its digest; its arguments are still to be added.
pub(super) fn call(script: &Script, keys: &[String]) -> Cmd {
    call_sized(script, keys, (0, 0))
}

/// The same, with room for so many arguments and bytes.
pub(super) fn call_sized(script: &Script, keys: &[String], (count, bytes): (usize, usize)) -> Cmd {
    let mut call = Cmd::with_capacity(count, bytes);
    call.arg("EVALSHA").arg(script.get_hash()).arg(keys.len()).arg(keys);
    call
}

/// Calls a script on the master that has a key, and makes all scripts known there if it has to.
pub(super) async fn run(links: &Links, key: &str, call: &Cmd) -> Result<Vec<Value>, LinkError> {
    let mut pipeline = redis::pipe();
    pipeline.add_command(call.clone());
    let answers = links.run(key, &pipeline).await?;
    if reply::error(&answers).is_none_or(|error| error.code() != "NOSCRIPT") {
        return Ok(answers);
    }
    links.run(key, &load_all()).await?;
    links.run(key, &pipeline).await
}

/// Makes all scripts known.
pub(super) fn load_all() -> Pipeline {
    let mut pipeline = redis::pipe();
    for source in [
        include_str!("commit.lua"),
        include_str!("confirm.lua"),
        include_str!("doubt.lua"),
        include_str!("master.lua"),
        include_str!("epoch.lua"),
        include_str!("beat.lua"),
        include_str!("time.lua"),
    ] {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(source);
    }
    pipeline
}
