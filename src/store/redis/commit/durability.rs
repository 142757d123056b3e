//! The durability levels of commits. `docs/durability.md` describes what each level promises.

use std::time::Duration;

use redis::{Pipeline, ServerError, Value};

use crate::store::redis::record::reply;

/// The servers and disks that must have a commit before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The memory of the master.
    #[default]
    Acknowledged,
    /// The memory of the master and of this many replicas (`WAIT`).
    Replicated {
        /// The number of replicas beside the master.
        replicas: u32,
        /// The time to wait for them.
        patience: Duration,
    },
    /// The disk of the master and of this many replicas (`WAITAOF`). Needs Redis or Valkey 7.2,
    /// with `appendonly yes`.
    Synced {
        /// The number of replicas beside the master.
        replicas: u32,
        /// The time to wait for the disks.
        patience: Duration,
    },
}

impl Durability {
    /// Returns the number of replicas that a commit waits for, and the time to wait for them.
    pub(crate) fn waits_for(self) -> (u32, Duration) {
        match self {
            Durability::Acknowledged => (0, Duration::ZERO),
            Durability::Replicated { replicas, patience }
            | Durability::Synced { replicas, patience } => (replicas, patience),
        }
    }

    /// Appends the command that waits until the commits before it are durable.
    pub(crate) fn append_to(self, pipeline: &mut Pipeline) {
        let (replicas, patience) = self.waits_for();
        match self {
            Durability::Acknowledged => return,
            Durability::Replicated { .. } => pipeline.cmd("WAIT"),
            Durability::Synced { .. } => pipeline.cmd("WAITAOF").arg(1),
        }
        .arg(replicas)
        .arg(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
    }

    /// Returns whether the answer reports the durability, and a sentence if not.
    pub(crate) fn judge(self, answer: Option<&Value>) -> Result<(), String> {
        let reached = |value: Option<&Value>| value.and_then(reply::number).unwrap_or_default();
        match (self, answer) {
            (Durability::Acknowledged, _) => Ok(()),
            (_, Some(Value::ServerError(error))) => Err(advise(error)),
            (Durability::Replicated { replicas, .. }, answer) => match reached(answer) {
                enough if u64::from(replicas) <= enough => Ok(()),
                few => Err(format!("{few} of {replicas} replicas have it, it may still be lost")),
            },
            (Durability::Synced { replicas, .. }, answer) => {
                let answer = answer.map(reply::items).unwrap_or_default();
                match (reached(answer.first()), reached(answer.get(1))) {
                    (1.., enough) if u64::from(replicas) <= enough => Ok(()),
                    (0, _) => Err("it is not on the master's disk, it may be lost".to_string()),
                    (_, few) => Err(format!(
                        "{few} of {replicas} replicas have it on disk, it may still be lost"
                    )),
                }
            }
        }
    }
}

/// Returns why Redis cannot wait at all, and what to do about it.
fn advise(error: &ServerError) -> String {
    let reason = error.to_string();
    if reason.contains("appendonly is disabled") {
        return "synced needs a log on disk, and Redis keeps none; set `appendonly yes` there"
            .into();
    }
    if reason.contains("unknown command") {
        return "synced needs Redis or Valkey 7.2, and this one is older; update it, \
                or choose --durability replicated:N"
            .into();
    }
    reason
}
