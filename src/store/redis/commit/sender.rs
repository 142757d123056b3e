//! Sends pipelines on one master, and waits until what they write is as durable as configured.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::{Mutex, watch};

use crate::store::redis::link::{Connection, Dedicated, LinkError, Master, Servers, is_unserved};

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
    /// A connection of its own, because waiting for replicas blocks all other commands on a
    /// connection.
    own: Mutex<Option<Dedicated>>,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(
        servers: &'a dyn Servers,
        durability: Durability,
        tag: &'a str,
    ) -> Sender<'a> {
        let serving = servers.master(tag);
        Sender { servers, durability, tag, serving, own: Mutex::default() }
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
        let connection = self.connection().await?;
        match connection.run(pipeline).await {
            Ok(answers) if !answers.iter().any(is_unserved) => Ok(answers),
            Ok(answers) => {
                self.own.lock().await.take();
                self.servers.look_again();
                Ok(answers)
            }
            Err(error) => {
                self.own.lock().await.take();
                Err(error)
            }
        }
    }

    /// Returns the own connection. A former master may still be reachable, so a connection to
    /// another server than the link has is replaced.
    async fn connection(&self) -> Result<Arc<dyn Connection>, LinkError> {
        let mut own = self.own.lock().await;
        let is_serving = |dedicated: &Dedicated| {
            let serving = self.serving.borrow();
            serving.as_ref().is_some_and(|serving| serving.is_same(&dedicated.master))
        };
        if let Some(dedicated) = own.as_ref().filter(|dedicated| is_serving(dedicated)) {
            return Ok(dedicated.connection.clone());
        }
        let patience = self.durability.waits_for().1 + ANSWER_MAX;
        let dedicated = self.servers.dedicated(self.tag, patience).await?;
        Ok(own.insert(dedicated).connection.clone())
    }
}
