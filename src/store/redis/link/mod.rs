//! Supervised connections to the masters of Redis or Valkey.
//!
//! ```text
//!  run(tag) --> Board: slot -> Link --> Live connection --> master
//!                 ^             ^
//!   cluster ------'             '--- supervisor: resolve, connect, ask who it is, observe
//!   (slots of all nodes)               |
//!                                      '--- sentinel (who is the master)
//! ```
//!
//! The crate's own connection manager stays on a frozen peer and on a demoted master, and holds a
//! lock while it connects; here a task for each master asks every second whether it is there and
//! still is one, and whoever wants to send sees at once what there is.
//!
//! **What was sent may arrive late.** A master that stood still goes on with what it had received,
//! even when we have long made a new connection. What is sent must be safe to do late or twice.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use board::{Board, Route};
use cluster::Topology as Cluster;
use dial::Dialer;
use sentinel::Sentinels;
use single::Link;
use supervisor::Source;
use target::Topology;

pub use dedicated::Dedicated;
pub use error::{LinkError, is_unserved};
pub use master::Master;
pub use options::Options;
pub use secret::Secret;
pub use survey::{Place, Survey};
pub use target::{Target, TargetError, TlsFiles};

mod backoff;
mod board;
mod cluster;
mod dedicated;
mod dial;
mod error;
mod master;
mod options;
mod secret;
mod sentinel;
mod single;
mod slot;
mod supervisor;
mod survey;
mod target;

#[cfg(test)]
mod tests;

/// The ways to all masters: one where one master has everything, and one to each of a cluster.
/// Dropping it closes them.
pub struct Links {
    board: Arc<Board>,
    ended: CancellationToken,
}

impl Links {
    /// Connects, and from then on stays connected as well as can be.
    ///
    /// # Errors
    ///
    /// `Refused` as soon as it is, and `Away` when [`Options::start_deadline`] has passed, with a
    /// sentence on what to check.
    pub async fn connect(target: Target, options: Options) -> Result<Arc<Links>, LinkError> {
        let deadline = options.start_deadline;
        let shown = target.to_string();
        let dialer = Arc::new(Dialer::new(target, options));
        let links = Links { board: Arc::new(Board::new()), ended: CancellationToken::new() };
        links.start(&dialer);
        links.wait_until_ready(deadline, &shown).await?;
        Ok(Arc::new(links))
    }

    /// Runs a pipeline on the master that has the slot of this hash tag (`{b07}`): every reply in
    /// order, a server error in its place. Replies that [`is_unserved`] make the link look for who
    /// serves. While there is no link it fails after [`Options::wait_for_link`] at most.
    ///
    /// # Errors
    ///
    /// See [`LinkError`]; only after `Ambiguous` may something have been done.
    pub async fn run(&self, tag: &str, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        self.link(tag)?.run(pipeline).await
    }

    /// A connection of its own to the master that has the slot of this tag, for blocking reads.
    ///
    /// # Errors
    ///
    /// See [`LinkError`]; never `Ambiguous`.
    pub async fn dedicated(&self, tag: &str) -> Result<Dedicated, LinkError> {
        Dedicated::open(self.link(tag)?).await
    }

    /// The master that answers for this tag, `None` while there is none. Changes whenever a new
    /// connection is made.
    pub fn master(&self, tag: &str) -> watch::Receiver<Option<Master>> {
        self.board.follow(slot::slot_of(tag))
    }

    /// Whether every master can be used; if not, what is away since when, and why.
    pub fn health(&self) -> Result<(), String> {
        let mut faults: Vec<String> =
            self.board.links().iter().filter_map(|link| link.health().err()).collect();
        faults.extend(self.board.gap().map(|gap| gap.reason().to_string()));
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults.join("; ")),
        }
    }

    /// A connection of one's own was told that another master serves: whoever does is looked for
    /// now, not at the next round.
    pub fn look_again(&self) {
        self.board.remap.notify_one();
    }

    /// Lets go of all connections. What is on its way may still be answered.
    pub fn close(&self) {
        self.ended.cancel();
    }

    fn link(&self, tag: &str) -> Result<Arc<Link>, LinkError> {
        self.board.link(slot::slot_of(tag))
    }

    fn start(&self, dialer: &Arc<Dialer>) {
        let source = match &dialer.target.topology {
            Topology::Standalone { address } => {
                (format!("Redis at {address}"), Source::Fixed(address.clone()))
            }
            Topology::Sentinel { sentinels, master } => (
                format!("the Redis master {master:?}"),
                Source::Sentinels(Sentinels::new(sentinels, master)),
            ),
            Topology::Cluster { seeds } => {
                let (board, ended) = (self.board.clone(), self.ended.clone());
                let cluster = Cluster::new(seeds, dialer.clone(), board, ended.clone());
                tokio::spawn(async move { ended.run_until_cancelled(cluster.keep()).await });
                return;
            }
        };
        let (name, source) = source;
        let board = Arc::downgrade(&self.board);
        let link = Link::new(name, dialer.clone(), board, self.ended.child_token());
        let link = Arc::new(link);
        self.board.set_routes(vec![Route { slots: 0..=slot::SLOTS - 1, link: link.clone() }]);
        supervisor::spawn(link, source);
    }

    async fn wait_until_ready(&self, deadline: Duration, shown: &str) -> Result<(), LinkError> {
        let mut changes = self.board.changes.subscribe();
        // Not within `wait_for`: it holds what `Board::publish` waits for with the routes locked.
        let decided = async {
            while matches!(
                self.obstacle(),
                Some(LinkError::Away { .. } | LinkError::Ambiguous { .. })
            ) && changes.changed().await.is_ok()
            {}
        };
        let _ = tokio::time::timeout(deadline, decided).await;
        match self.obstacle() {
            None => Ok(()),
            Some(error @ LinkError::Refused { .. }) => Err(error),
            Some(error) => Err(LinkError::away(format!(
                "{shown} was not reached within {} s: {}; check that it runs, host and port, \
                 whether it speaks TLS there, and that the network lets us through",
                deadline.as_secs_f32(),
                error.reason()
            ))),
        }
    }

    /// What is in the way of using every slot.
    fn obstacle(&self) -> Option<LinkError> {
        let failures = self.board.links().into_iter().filter_map(|link| link.failure());
        let mut failures: Vec<LinkError> = failures.chain(self.board.gap()).collect();
        failures.sort_by_key(|failure| !matches!(failure, LinkError::Refused { .. }));
        failures.into_iter().next()
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.close();
    }
}
