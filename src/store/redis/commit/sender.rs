//! Sends pipelines on one master, and waits until what they write is as durable as configured.

use std::sync::Mutex;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::watch;

use crate::store::redis::link::{Dedicated, LinkError, Master, Servers, is_unserved};
use crate::sync::lock;

use super::durability::Durability;

/// How long an answer may take beyond the time that it waits for replicas.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Sends the pipelines of a lane.
pub(crate) struct Sender<'a> {
    servers: &'a dyn Servers,
    durability: Durability,
    tag: &'a str,
    /// The master that serves now.
    serving: watch::Receiver<Option<Master>>,
    /// Connections of its own that are not in use. A wait blocks all other commands on a
    /// connection, so each pipeline has one: otherwise the waits of the pipelines would add up.
    idle: Mutex<Vec<Dedicated>>,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(
        servers: &'a dyn Servers,
        durability: Durability,
        tag: &'a str,
    ) -> Sender<'a> {
        let serving = servers.master(tag);
        Sender { servers, durability, tag, serving, idle: Mutex::default() }
    }

    /// Sends commits, and waits until they are as durable as configured. If they are not, it
    /// returns `Refused`: the commits are applied, but may be lost.
    pub(crate) async fn run(&self, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        let durability = self.durability;
        if durability == Durability::Acknowledged {
            return self.servers.run(self.tag, pipeline).await;
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
        let own = self.own().await?;
        // A connection without an answer is not used again.
        let answers = own.connection.run(pipeline).await?;
        match answers.iter().any(is_unserved) {
            true => self.servers.look_again(),
            false => lock(&self.idle).push(own),
        }
        Ok(answers)
    }

    /// Returns a connection that no other pipeline uses. A former master may still be reachable, so
    /// connections to another server than the link has are dropped.
    async fn own(&self) -> Result<Dedicated, LinkError> {
        let is_serving = |dedicated: &Dedicated| {
            let serving = self.serving.borrow();
            serving.as_ref().is_some_and(|serving| serving.is_same(&dedicated.master))
        };
        {
            let mut idle = lock(&self.idle);
            idle.retain(is_serving);
            if let Some(own) = idle.pop() {
                return Ok(own);
            }
        }
        let patience = self.durability.waits_for().1 + ANSWER_MAX;
        self.servers.dedicated(self.tag, patience).await
    }
}
