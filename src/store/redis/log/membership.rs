//! Membership: the other processes that share the store, the messages between them, and which
//! applications each follows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::ReplicaId;
use crate::store::redis::link::{LinkError, Servers, run_one};
use crate::store::redis::record::key::{Key, KeySpace};
use crate::store::redis::record::{LOG_ENTRIES, reply};
use crate::store::redis::script;
use crate::store::{Broadcast, Bucket, REPLICA_FORGOTTEN_AFTER, ReadError, codec};

/// A process that is silent for longer than this, by the store's clock, does not read the log. If
/// it returns, it loads the application.
const PRESENT_MAX: Duration = Duration::from_secs(30);

/// Records that this process is alive, at a time of the store.
pub(crate) fn beat(keys: &KeySpace, own: ReplicaId, now: Timestamp) -> Cmd {
    let mut call = script::call(&script::BEAT, &[keys.name(Key::Replicas)]);
    call.arg(format!("{:016x}", own.0)).arg(REPLICA_FORGOTTEN_AFTER.as_millis() as u64);
    call.arg(now.millis());
    call
}

/// Parses the processes that are alive, with the time of their last heartbeat.
pub(crate) fn read_beat(answer: &Value) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
    let living = reply::pairs(answer).into_iter().map(|(id, at)| {
        let id = u64::from_str_radix(reply::text(id)?, 16).ok()?;
        Some((ReplicaId(id), Timestamp::new(reply::text(at)?.parse().ok()?)))
    });
    living.collect::<Option<_>>().ok_or_else(|| ReadError::Corrupt {
        record: "list of replicas".to_string(),
        reason: format!("{answer:?}"),
    })
}

/// Returns when a process last recorded that it is alive. Processes of earlier versions record it
/// here only.
pub(crate) async fn last_beat(
    servers: &dyn Servers,
    keys: &KeySpace,
) -> Result<Option<Timestamp>, LinkError> {
    let key = keys.name(Key::Replicas);
    let answer = run_one(servers, &key, cmd("HGETALL").arg(&key)).await?;
    let beats = reply::pairs(&answer).into_iter().filter_map(|(_, at)| reply::number(at));
    Ok(beats.max().map(Timestamp::new))
}

/// Adds an entry to the log that announces a new process. An older version reads it as a message
/// that it does not understand.
pub(crate) fn join(keys: &KeySpace, bucket: Bucket, own: ReplicaId) -> Cmd {
    let mut add = add_to_log(keys, bucket);
    add.arg("j").arg(format!("{:016x}", own.0)).arg("n").arg("");
    add
}

/// Broadcasts a message to all processes that follow a bucket.
pub(crate) fn broadcast(keys: &KeySpace, bucket: Bucket, notice: &Broadcast) -> Cmd {
    let mut add = add_to_log(keys, bucket);
    add.arg("n").arg(codec::encode(notice));
    add
}

fn add_to_log(keys: &KeySpace, bucket: Bucket) -> Cmd {
    let mut add = cmd("XADD");
    add.arg(keys.name(Key::Log(bucket))).arg("MAXLEN").arg("~").arg(LOG_ENTRIES).arg("*");
    add
}

/// Marks that a process follows an application, or removes its mark; see `follow.lua`.
///
/// The other processes write the transitions of what is followed into the log, and leave out those
/// that no other process needs (`commit.lua`). A mark only saves work: a process that finds no
/// transition in an entry loads the application.
pub(crate) fn mark(
    (keys, bucket): (&KeySpace, Bucket),
    app: &AppName,
    writer: &str,
    follows: bool,
) -> Cmd {
    let names = [Key::Heads(bucket), Key::App(bucket, app)].map(|key| keys.name(key));
    let mut call = script::call(&script::FOLLOW, &names);
    call.arg(app.to_string()).arg(writer).arg(u8::from(follows));
    call
}

/// The membership as this process knows it: which other processes follow the logs.
pub(crate) struct Membership {
    /// This process.
    own: ReplicaId,
    /// The ids of the others, one after the other; `None` before the first answer, and after a
    /// process has joined.
    pub(crate) others: Option<Arc<str>>,
    /// The number of processes that joined since the start, to compare with
    /// [`hear`](Membership::hear).
    pub(crate) joined: u64,
}

impl Membership {
    /// Returns what the process `own` knows at its start.
    pub(crate) fn new(own: ReplicaId) -> Membership {
        Membership { own, others: None, joined: 0 }
    }

    /// Returns whether this process knows that it is the only one.
    pub(crate) fn is_alone(&self) -> bool {
        self.others.as_deref() == Some("")
    }

    /// Records that a process has joined; `None` if its id is not known.
    pub(crate) fn note_joined(&mut self, who: Option<ReplicaId>) {
        if who != Some(self.own) {
            self.joined += 1;
            self.others = None;
        }
    }

    /// Updates the membership from the processes that are alive, unless a process has joined since
    /// `joined` was read.
    pub(crate) fn hear(&mut self, living: &BTreeMap<ReplicaId, Timestamp>, joined: u64) {
        let own = self.own;
        if joined == self.joined {
            let now = living.get(&own).copied().unwrap_or_default();
            let is_present =
                |(id, at): &(&ReplicaId, &Timestamp)| **id != own && now.since(**at) < PRESENT_MAX;
            let others = living.iter().filter(is_present).map(|(id, _)| format!("{:016x};", id.0));
            self.others = Some(others.collect::<String>().into());
        }
    }
}
