//! The other processes that share the store: who lives, and what they tell each other.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::domain::session::ReplicaId;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Notice, REPLICA_FORGOTTEN_AFTER, ReadError, codec};

use super::batch::LOG_ENTRIES_MAX;
use super::key::{Key, KeySpace};
use super::{reply, script};

/// After this silence, by the store's clock, a process does not read what we write: if it comes
/// back it reads the application anew.
const PRESENT_MAX: Duration = Duration::from_secs(30);

/// Records that a process lives, at a time of the store.
pub(super) fn beat(keys: &KeySpace, own: ReplicaId, now: Timestamp) -> Cmd {
    let mut call = script::call(&script::BEAT, &[keys.name(Key::Replicas)]);
    call.arg(format!("{:016x}", own.0)).arg(REPLICA_FORGOTTEN_AFTER.as_millis() as u64);
    call.arg(now.0);
    call
}

/// Who lives, and when each last said so.
pub(super) fn read_beat(answer: &Value) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
    let living = reply::pairs(answer).into_iter().map(|(id, at)| {
        let id = u64::from_str_radix(reply::text(id)?, 16).ok()?;
        Some((ReplicaId(id), Timestamp(reply::text(at)?.parse().ok()?)))
    });
    living.collect::<Option<_>>().ok_or_else(|| ReadError::Corrupt {
        record: "list of replicas".to_string(),
        reason: format!("{answer:?}"),
    })
}

/// Whether another process than ours has said lately that it lives.
fn has_others(living: &BTreeMap<ReplicaId, Timestamp>, own: ReplicaId) -> bool {
    let now = living.get(&own).copied().unwrap_or_default();
    living.iter().any(|(id, at)| *id != own && now.since(*at) < PRESENT_MAX)
}

/// Tells all who follow the logs that a process is there. For one that does not know of this it is
/// a notice that it does not understand.
pub(super) fn join(keys: &KeySpace, bucket: Bucket, own: ReplicaId) -> Cmd {
    let mut add = add_to_log(keys, bucket);
    add.arg("j").arg(format!("{:016x}", own.0)).arg("n").arg("");
    add
}

/// Tells everybody who follows a bucket.
pub(super) fn announce(keys: &KeySpace, bucket: Bucket, notice: &Notice) -> Cmd {
    let mut add = add_to_log(keys, bucket);
    add.arg("n").arg(codec::encode(notice));
    add
}

fn add_to_log(keys: &KeySpace, bucket: Bucket) -> Cmd {
    let mut add = cmd("XADD");
    add.arg(keys.name(Key::Log(bucket))).arg("MAXLEN").arg("~").arg(LOG_ENTRIES_MAX).arg("*");
    add
}

/// Whether anybody else follows the logs, as far as is known.
#[derive(Default)]
pub(super) struct Neighbours {
    is_alone: bool,
    /// Those that came since the start.
    joined: u64,
}

impl Neighbours {
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// What has to be the same still when a question who lives is answered.
    pub(super) fn joined(&self) -> u64 {
        self.joined
    }

    pub(super) fn join(&mut self) {
        self.joined += 1;
        self.is_alone = false;
    }

    /// Takes in who lives, as asked when so many had joined.
    pub(super) fn hear(
        &mut self,
        living: &BTreeMap<ReplicaId, Timestamp>,
        own: ReplicaId,
        joined: u64,
    ) {
        if joined == self.joined {
            self.is_alone = !has_others(living, own);
        }
    }
}
