//! The scripts, known to Redis by their digest.
//!
//! A restart, a failover or `SCRIPT FLUSH` removes the scripts. A caller that receives `NOSCRIPT`
//! loads all of them and repeats the call: nothing was executed.

use std::sync::OnceLock;

use redis::{Cmd, Pipeline, Value};

use super::link::{LinkError, Links};

/// A script, with the digest by which Redis knows it.
pub(super) struct Script {
    source: &'static str,
    digest: OnceLock<String>,
}

/// Commits one transition.
pub(super) static COMMIT: Script = Script::new(include_str!("commit.lua"));
/// Folds blocks.
pub(super) static FOLD: Script = Script::new(include_str!("fold.lua"));
/// Compares versions.
pub(super) static CONFIRM: Script = Script::new(include_str!("confirm.lua"));
/// Records that a bucket may have lost writes.
pub(super) static DATA_LOSS: Script = Script::new(include_str!("data_loss.lua"));
/// Notes which master serves a bucket.
pub(super) static MASTER: Script = Script::new(include_str!("master.lua"));
/// Marks what a process follows.
pub(super) static FOLLOW: Script = Script::new(include_str!("follow.lua"));
/// Counts a data loss.
pub(super) static EPOCH: Script = Script::new(include_str!("epoch.lua"));
/// Reads the time.
pub(super) static TIME: Script = Script::new(include_str!("time.lua"));
/// Records that a process is alive.
pub(super) static BEAT: Script = Script::new(include_str!("beat.lua"));

impl Script {
    pub(super) const fn new(source: &'static str) -> Script {
        Script { source, digest: OnceLock::new() }
    }

    /// Adds the command that loads the script.
    pub(super) fn load(&self, pipeline: &mut Pipeline) {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(self.source);
    }

    fn digest(&self) -> &str {
        self.digest.get_or_init(|| redis::Script::new(self.source).get_hash().to_string())
    }
}

/// Returns a call of a script by its digest; the caller adds the arguments.
pub(super) fn call(script: &Script, keys: &[String]) -> Cmd {
    call_sized(script, keys, (0, 0))
}

/// Returns a call with capacity for so many arguments and bytes.
pub(super) fn call_sized(script: &Script, keys: &[String], (count, bytes): (usize, usize)) -> Cmd {
    let mut call = Cmd::with_capacity(count, bytes);
    call.arg("EVALSHA").arg(script.digest()).arg(keys.len()).arg(keys);
    call
}

/// Calls a script on the master that holds a key, and loads all scripts there if necessary.
pub(super) async fn run(links: &Links, key: &str, call: &Cmd) -> Result<Value, LinkError> {
    match links.run_one(key, call).await? {
        Value::ServerError(error) if error.code() == "NOSCRIPT" => {
            links.run(key, &load_all()).await?;
            links.run_one(key, call).await
        }
        answer => Ok(answer),
    }
}

/// Returns the commands that load all scripts.
pub(super) fn load_all() -> Pipeline {
    let mut pipeline = redis::pipe();
    for script in [&COMMIT, &FOLD, &CONFIRM, &DATA_LOSS, &MASTER, &FOLLOW, &EPOCH, &TIME, &BEAT] {
        script.load(&mut pipeline);
    }
    pipeline
}
