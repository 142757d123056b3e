//! The scripts, known to Redis by their digest.
//!
//! A restart, a failover or `SCRIPT FLUSH` removes the scripts. A caller that receives `NOSCRIPT`
//! loads all of them and repeats the call: nothing was executed.

use std::sync::LazyLock;

use redis::{Cmd, Pipeline, Script, Value};

use super::link::{LinkError, Links};
use super::reply;

/// Commits one transition.
pub(super) static COMMIT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("commit.lua")));
/// Folds blocks.
pub(super) static FOLD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("fold.lua")));
/// Compares versions.
pub(super) static CONFIRM: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("confirm.lua")));
/// Records that a bucket may have lost writes.
pub(super) static DOUBT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("doubt.lua")));
/// Notes which master serves a bucket.
pub(super) static MASTER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("master.lua")));
/// Marks what a process follows.
pub(super) static FOLLOW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("follow.lua")));
/// Counts a data loss.
pub(super) static EPOCH: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("epoch.lua")));

/// Reads the time.
pub(super) static TIME: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("time.lua")));

/// Records that a process is alive.
pub(super) static BEAT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("beat.lua")));

/// Returns a call of a script by its digest; the caller adds the arguments.
pub(super) fn call(script: &Script, keys: &[String]) -> Cmd {
    call_sized(script, keys, (0, 0))
}

/// Returns a call with capacity for so many arguments and bytes.
pub(super) fn call_sized(script: &Script, keys: &[String], (count, bytes): (usize, usize)) -> Cmd {
    let mut call = Cmd::with_capacity(count, bytes);
    call.arg("EVALSHA").arg(script.get_hash()).arg(keys.len()).arg(keys);
    call
}

/// Calls a script on the master that holds a key, and loads all scripts there if necessary.
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

/// Returns the commands that load all scripts.
pub(super) fn load_all() -> Pipeline {
    let mut pipeline = redis::pipe();
    for source in [
        include_str!("commit.lua"),
        include_str!("fold.lua"),
        include_str!("confirm.lua"),
        include_str!("doubt.lua"),
        include_str!("master.lua"),
        include_str!("follow.lua"),
        include_str!("epoch.lua"),
        include_str!("beat.lua"),
        include_str!("time.lua"),
    ] {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(source);
    }
    pipeline
}
