//! The durability levels of commits. `docs/durability.md` describes what each level promises.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, ServerError, Value};
use tokio::sync::{Mutex, watch};

use crate::store::Bucket;

use super::key::tag;
use super::link::{Dedicated, LinkError, Master, is_unserved};
use super::{Shared, reply};

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
    pub(super) fn waits_for(self) -> (u32, Duration) {
        match self {
            Durability::Acknowledged => (0, Duration::ZERO),
            Durability::Replicated { replicas, patience }
            | Durability::Synced { replicas, patience } => (replicas, patience),
        }
    }

    /// Appends the command that waits until the commits before it are durable.
    fn append_to(self, pipeline: &mut Pipeline) {
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
    fn judge(self, answer: Option<&Value>) -> Result<(), String> {
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

impl Shared {
    /// Logs a warning if a failover may leave two masters that both acknowledge writes.
    pub(super) async fn warn_of_two_masters(&self, fails_over: bool) {
        if !fails_over || self.durability != Durability::Acknowledged {
            return;
        }
        let Ok(info) = self.info(&tag(Bucket(0)), "replication").await else { return };
        if !info.text("slave0").is_empty() && info.text("min_slaves_good_slaves").is_empty() {
            tracing::warn!(
                "during a failover two masters of Redis may acknowledge writes, and those of one \
                 are lost; set min-replicas-to-write 1 there, or use --durability replicated:1"
            );
        }
    }
}

/// Sends the pipelines of a lane.
pub(super) struct Sender<'a> {
    pub(super) shared: &'a Shared,
    tag: &'a str,
    /// The master that serves now.
    serving: watch::Receiver<Option<Master>>,
    /// A connection of its own, because waiting for replicas blocks all other commands on a
    /// connection.
    own: Mutex<Option<Dedicated>>,
}

impl<'a> Sender<'a> {
    pub(super) fn new(shared: &'a Shared, tag: &'a str) -> Sender<'a> {
        Sender { shared, tag, serving: shared.links.master(tag), own: Mutex::default() }
    }

    /// Sends commits, and waits until they are as durable as configured. If they are not, it
    /// returns `Refused`: the commits are applied, but may be lost.
    pub(super) async fn run(&self, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        let durability = self.shared.durability;
        if durability == Durability::Acknowledged {
            return self.shared.links.run(self.tag, pipeline).await;
        }
        let mut pipeline = pipeline.clone();
        durability.append_to(&mut pipeline);
        let mut answers = self.run_on_own(&pipeline).await?;
        let wait = answers.pop();
        // If no commit was made, its durability does not matter.
        if answers.iter().any(|answer| !matches!(answer, Value::ServerError(_))) {
            durability.judge(wait.as_ref()).map_err(|reason| LinkError::Refused { reason })?;
        }
        Ok(answers)
    }

    async fn run_on_own(&self, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        let mut connection = self.connection().await?;
        match connection.send_packed_commands(pipeline, 0, pipeline.len()).await {
            Ok(answers) if !answers.iter().any(is_unserved) => Ok(answers),
            Ok(answers) => {
                self.own.lock().await.take();
                self.shared.links.look_again();
                Ok(answers)
            }
            Err(error) => {
                self.own.lock().await.take();
                Err(LinkError::Ambiguous { reason: error.to_string() })
            }
        }
    }

    /// Returns the own connection. A former master may still be reachable, so a connection to
    /// another server than the link has is replaced.
    async fn connection(&self) -> Result<MultiplexedConnection, LinkError> {
        let mut own = self.own.lock().await;
        let is_serving = |dedicated: &Dedicated| {
            let serving = self.serving.borrow();
            serving.as_ref().is_some_and(|serving| serving.is_same(&dedicated.master))
        };
        if let Some(dedicated) = own.as_ref().filter(|dedicated| is_serving(dedicated)) {
            return Ok(dedicated.connection.clone());
        }
        let mut dedicated = self.shared.links.dedicated(self.tag).await?;
        let timeout = self.shared.durability.waits_for().1 + Duration::from_secs(1);
        dedicated.connection.set_response_timeout(timeout);
        Ok(own.insert(dedicated).connection.clone())
    }
}
