//! Membership: the other processes that share the store, the messages between them, and which
//! applications each follows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::ReplicaId;
use crate::store::{Broadcast, Bucket, REPLICA_FORGOTTEN_AFTER, ReadError, codec};
use crate::sync::lock;

use super::batch::LOG_ENTRIES;
use super::key::{Key, KeySpace};
use super::link::{LinkError, Links};
use super::{Shared, reply, script};

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

/// Returns when a process last recorded that it is alive. Processes of earlier versions record it
/// here only.
pub(super) async fn last_beat(
    links: &Links,
    keys: &KeySpace,
) -> Result<Option<Timestamp>, LinkError> {
    let key = keys.name(Key::Replicas);
    let answer = links.run_one(&key, cmd("HGETALL").arg(&key)).await?;
    let beats = reply::pairs(&answer).into_iter().filter_map(|(_, at)| reply::number(at));
    Ok(beats.max().map(Timestamp::new))
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
    add.arg(keys.name(Key::Log(bucket))).arg("MAXLEN").arg("~").arg(LOG_ENTRIES).arg("*");
    add
}

/// The membership as this process knows it: which other processes follow the logs.
#[derive(Default)]
pub(super) struct Membership {
    /// The ids of the others, one after the other; `None` before the first answer, and after a
    /// process has joined.
    pub(super) others: Option<Arc<str>>,
    /// The number of processes that joined since the start, to compare with
    /// [`hear`](Membership::hear).
    pub(super) joined: u64,
}

impl Membership {
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
            let now = living.get(&own).copied().unwrap_or_default();
            let is_present =
                |(id, at): &(&ReplicaId, &Timestamp)| **id != own && now.since(**at) < PRESENT_MAX;
            let others = living.iter().filter(is_present).map(|(id, _)| format!("{:016x};", id.0));
            self.others = Some(others.collect::<String>().into());
        }
    }
}

/// Which applications this process follows, so that the other processes write the transitions of
/// these into the log. They leave out those that no other process needs (`commit.lua`).
///
/// A mark only saves work: a process that finds no transition in an entry loads the application.
impl Shared {
    /// Marks that this process follows an application, unless no other process could read the mark.
    /// A later commit has its transition in the log.
    pub(super) async fn follow(&self, bucket: Bucket, app: &AppName) {
        if lock(&self.membership).others.as_deref() != Some("") {
            self.set_mark(bucket, app, true).await;
        }
    }

    /// Adds or removes the mark of this process at an application.
    pub(super) async fn set_mark(&self, bucket: Bucket, app: &AppName, follows: bool) {
        let names = [Key::Heads(bucket), Key::App(bucket, app)].map(|key| self.keys.name(key));
        let mut call = script::call(&script::FOLLOW, &names);
        call.arg(app.to_string()).arg(&*self.writer).arg(u8::from(follows));
        // Without the mark this process loads the application more often, which is correct too.
        if let Err(error) = self.call(&names[1], &call).await {
            tracing::debug!(%app, reason = error.reason(), "cannot mark what this process follows");
        }
    }
}
