//! Redis as the store uses it. In a server these are the [`Links`](super::Links). The store's own
//! code runs over any other implementation too.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::sync::watch;

use super::error::LinkError;
use super::master::Master;
use super::target::Kind;

/// The masters of one or several Redis servers.
///
/// # Contract
///
/// - A pipeline runs on one master, in order. Its answers have the same order; an error of a
///   command is a value.
/// - No request is repeated. After [`LinkError::Ambiguous`] Redis may have executed it, may execute
///   it later (even after a new connection), or may never execute it. After any other error of the
///   link it was not executed.
/// - Pipelines that are sent at the same time may be executed in any order.
#[async_trait::async_trait]
pub trait Servers: Send + Sync + 'static {
    /// Returns how the masters are found.
    fn kind(&self) -> Kind;

    /// Runs a pipeline on the master that has the slot of this hash tag (`{b07}`).
    async fn run(&self, tag: &str, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError>;

    /// Opens a separate connection to the master that has the slot of this tag, for reads and waits
    /// that block. An answer that takes longer than `patience` never arrives.
    ///
    /// # Errors
    ///
    /// See [`LinkError`]; never `Ambiguous`.
    async fn dedicated(&self, tag: &str, patience: Duration) -> Result<Dedicated, LinkError>;

    /// Returns the master that serves this tag, `None` while there is none. It changes whenever a
    /// new connection is made.
    fn master(&self, tag: &str) -> watch::Receiver<Option<Master>>;

    /// Returns whether every master can be used; if not, which one is away, since when, and why.
    fn health(&self) -> Result<(), String>;

    /// Looks for the serving masters now instead of at the next interval. Called when a reply on a
    /// dedicated connection says that another master serves.
    fn look_again(&self);

    /// Closes all connections. Requests in flight may still be answered.
    fn close(&self);
}

/// A separate connection to a master. Dropping it ends a blocked read.
#[derive(Clone)]
pub struct Dedicated {
    /// The connection.
    pub connection: Arc<dyn Connection>,
    /// The master, with the number of the connection of the [`Servers`] to the same master.
    pub master: Master,
}

/// A connection to a master.
#[async_trait::async_trait]
pub trait Connection: Send + Sync {
    /// Runs a pipeline like [`Servers::run`].
    async fn run(&self, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError>;
}

/// Runs one command on the master that has the slot of this tag.
pub async fn run_one(servers: &dyn Servers, tag: &str, command: &Cmd) -> Result<Value, LinkError> {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.add_command(command.clone());
    Ok(servers.run(tag, &pipeline).await?.pop().unwrap_or(Value::Nil))
}
