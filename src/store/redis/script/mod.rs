//! The scripts, known to Redis by their digest.
//!
//! | Script | Calls it | Writes |
//! |---|---|---|
//! | `commit.lua` | `record/batch.rs` | one application, its history, the log of its bucket |
//! | `fold.lua` | `commit/fold.rs` | the blocks of one application |
//! | `confirm.lua` | `commit/confirm.rs` | nothing that a reader sees |
//! | `master.lua` | `record/note.rs` | the note of the master of a bucket |
//! | `data_loss.lua` | `log/reader.rs` | the state of a bucket, and an entry of its log |
//! | `epoch.lua` | `record/meta.rs` | the record of the store as a whole |
//! | `follow.lua` | `log/membership.rs` | a mark at an application |
//! | `beat.lua` | `log/membership.rs` | the list of replicas |
//! | `time.lua` | `time.rs` | the clock of the store |
//!
//! A restart, a failover or `SCRIPT FLUSH` removes the scripts. A caller that receives `NOSCRIPT`
//! loads all of them and repeats the call: nothing was executed.

use std::sync::OnceLock;

use redis::{Cmd, Pipeline, Value};

use super::link::{LinkError, Servers, run_one};

pub(crate) mod arguments;

/// A script, with the digest by which Redis knows it.
pub(crate) struct Script {
    source: &'static str,
    digest: OnceLock<String>,
}

/// Commits one transition.
pub(crate) static COMMIT: Script = Script::new(include_str!("commit.lua"));
/// Folds blocks.
pub(crate) static FOLD: Script = Script::new(include_str!("fold.lua"));
/// Compares versions.
pub(crate) static CONFIRM: Script = Script::new(include_str!("confirm.lua"));
/// Records that a bucket may have lost writes.
pub(crate) static DATA_LOSS: Script = Script::new(include_str!("data_loss.lua"));
/// Notes which master serves a bucket.
pub(crate) static MASTER: Script = Script::new(include_str!("master.lua"));
/// Marks what a process follows.
pub(crate) static FOLLOW: Script = Script::new(include_str!("follow.lua"));
/// Counts a data loss.
pub(crate) static EPOCH: Script = Script::new(include_str!("epoch.lua"));
/// Reads the time.
pub(crate) static TIME: Script = Script::new(include_str!("time.lua"));
/// Records that a process is alive.
pub(crate) static BEAT: Script = Script::new(include_str!("beat.lua"));

impl Script {
    pub(crate) const fn new(source: &'static str) -> Script {
        Script { source, digest: OnceLock::new() }
    }

    /// Adds the command that loads the script.
    pub(crate) fn load(&self, pipeline: &mut Pipeline) {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(self.source);
    }

    fn digest(&self) -> &str {
        self.digest.get_or_init(|| redis::Script::new(self.source).get_hash().to_string())
    }
}

/// Returns a call of a script by its digest; the caller adds the arguments.
pub(crate) fn call(script: &Script, keys: &[String]) -> Cmd {
    call_sized(script, keys, (0, 0))
}

/// Returns a call with capacity for so many arguments and bytes.
pub(crate) fn call_sized(script: &Script, keys: &[String], (count, bytes): (usize, usize)) -> Cmd {
    let mut call = Cmd::with_capacity(count, bytes);
    call.arg("EVALSHA").arg(script.digest()).arg(keys.len()).arg(keys);
    call
}

/// Calls a script on the master that holds a key, and loads all scripts there if necessary.
pub(crate) async fn run(servers: &dyn Servers, key: &str, call: &Cmd) -> Result<Value, LinkError> {
    match run_one(servers, key, call).await? {
        Value::ServerError(error) if error.code() == "NOSCRIPT" => {
            servers.run(key, &load_all()).await?;
            run_one(servers, key, call).await
        }
        answer => Ok(answer),
    }
}

/// Returns the commands that load all scripts.
pub(crate) fn load_all() -> Pipeline {
    let mut pipeline = redis::pipe();
    for script in [&COMMIT, &FOLD, &CONFIRM, &DATA_LOSS, &MASTER, &FOLLOW, &EPOCH, &TIME, &BEAT] {
        script.load(&mut pipeline);
    }
    pipeline
}
