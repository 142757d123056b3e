//! Membership: the other processes that share the store, and the messages between them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::domain::time::Timestamp;
use crate::domain::unit::presence::ReplicaId;
use crate::store::{Broadcast, Bucket, REPLICA_FORGOTTEN_AFTER, ReadError, codec};

use super::batch::LOG_ENTRIES_MAX;
use super::key::{Key, KeySpace};
use super::{reply, script};

/// A process that is silent for longer than this, by the store's clock, does not read the log. If
/// it returns, it loads the application.
const PRESENT_MAX: Duration = Duration::from_secs(30);

/// Records that this process is alive, at a time of the store.
pub(super) fn beat(keys: &KeySpace, own: ReplicaId, now: Timestamp) -> Cmd {
    let mut call = script::call(&script::BEAT, &[keys.name(Key::Replicas)]);
    call.arg(format!("{:016x}", own.0)).arg(REPLICA_FORGOTTEN_AFTER.as_millis() as u64);
    call.arg(now.millis());
    call
}

/// Parses the processes that are alive, with the time of their last heartbeat.
pub(super) fn read_beat(answer: &Value) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
    let living = reply::pairs(answer).into_iter().map(|(id, at)| {
        let id = u64::from_str_radix(reply::text(id)?, 16).ok()?;
        Some((ReplicaId(id), Timestamp::new(reply::text(at)?.parse().ok()?)))
    });
    living.collect::<Option<_>>().ok_or_else(|| ReadError::Corrupt {
        record: "list of replicas".to_string(),
        reason: format!("{answer:?}"),
    })
}

/// Returns the other processes that have sent a heartbeat lately: their ids, one after the other.
fn others(living: &BTreeMap<ReplicaId, Timestamp>, own: ReplicaId) -> String {
    let now = living.get(&own).copied().unwrap_or_default();
    let others = living.iter().filter(|(id, at)| **id != own && now.since(**at) < PRESENT_MAX);
    others.map(|(id, _)| format!("{:016x};", id.0)).collect()
}

/// Adds an entry to the log that announces a new process. An older version reads it as a message
/// that it does not understand.
pub(super) fn join(keys: &KeySpace, bucket: Bucket, own: ReplicaId) -> Cmd {
    let mut add = add_to_log(keys, bucket);
    add.arg("j").arg(format!("{:016x}", own.0)).arg("n").arg("");
    add
}

/// Broadcasts a message to all processes that follow a bucket.
pub(super) fn broadcast(keys: &KeySpace, bucket: Bucket, notice: &Broadcast) -> Cmd {
    let mut add = add_to_log(keys, bucket);
    add.arg("n").arg(codec::encode(notice));
    add
}

fn add_to_log(keys: &KeySpace, bucket: Bucket) -> Cmd {
    let mut add = cmd("XADD");
    add.arg(keys.name(Key::Log(bucket))).arg("MAXLEN").arg("~").arg(LOG_ENTRIES_MAX).arg("*");
    add
}

/// The membership as this process knows it: which other processes follow the logs.
#[derive(Default)]
pub(super) struct Membership {
    /// The ids of the others; `None` before the first answer, and after a process has joined.
    others: Option<Arc<str>>,
    /// The number of processes that joined since the start.
    joined: u64,
}

impl Membership {
    pub(super) fn is_alone(&self) -> bool {
        self.others.as_deref() == Some("")
    }

    /// Returns the ids of the other processes, one after the other; `None` if they are not known.
    pub(super) fn others(&self) -> Option<Arc<str>> {
        self.others.clone()
    }

    /// Returns a count to compare with [`hear`](Membership::hear): it changes when a process joins.
    pub(super) fn joined(&self) -> u64 {
        self.joined
    }

    pub(super) fn join(&mut self) {
        self.joined += 1;
        self.others = None;
    }

    /// Updates the membership from the processes that are alive, unless a process has joined since
    /// `joined` was read.
    pub(super) fn hear(
        &mut self,
        living: &BTreeMap<ReplicaId, Timestamp>,
        own: ReplicaId,
        joined: u64,
    ) {
        if joined == self.joined {
            self.others = Some(others(living, own).into());
        }
    }
}
