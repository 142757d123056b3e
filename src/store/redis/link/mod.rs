//! Supervised connections to the masters of Redis or Valkey.
//!
//! [`Servers`] is what the store needs of Redis, and [`Links`] are the servers of a process.
//!
//! ```text
//!  run(tag) --> RoutingTable: slot -> MasterLink --> Live connection --> master
//!                 ^                     ^
//!   cluster ------'                     '--- supervisor: resolve, connect, ask who it is, observe
//!   (slots of all nodes)                       |
//!                                              '--- sentinel (who is the master)
//! ```
//!
//! Why not the connection manager of the `redis` crate: it reconnects only after an error of the
//! connection, so it stays on a demoted master (`READONLY`) and on a frozen peer, and its callers
//! wait for the new connection. Here one task for each master checks every second that the server
//! answers and is still a master. A sender gets the live connection, or the reason why there is
//! none (ADR 0023).
//!
//! **A request may be executed late.** A frozen master that resumes executes the requests that it
//! had received, even after this process has opened a new connection. So each request must be safe
//! to execute late and safe to execute twice.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use dial::Dialer;
use routing_table::{Route, RoutingTable};
use sentinel::Sentinels;
use supervisor::Source;
use target::Topology;

pub use error::{LinkError, is_unserved};
pub use master::Master;
pub use options::Options;
pub use probe::{Reading, Survey};
pub use secret::Secret;
pub use servers::{Connection, Dedicated, Servers, run_one};
pub use slot::{SLOTS, slot_of};
pub use target::{Kind, Target, TargetError, TlsFiles};

mod backoff;
mod cluster;
mod dial;
mod error;
pub(crate) mod info;
mod master;
mod options;
mod probe;
mod routing_table;
mod secret;
mod sentinel;
mod servers;
mod single;
mod slot;
mod supervisor;
mod target;

#[cfg(test)]
mod tests;

/// The links to all masters: one if one master has everything, or one to each master of a cluster.
/// Dropping it closes them.
pub struct Links {
    kind: Kind,
    table: Arc<RoutingTable>,
    ended: CancellationToken,
}

impl Links {
    /// Connects, and keeps the links connected from then on.
    ///
    /// # Errors
    ///
    /// `Refused` as soon as a server refuses, and `Away` when [`Options::start_deadline`] has
    /// passed, with a sentence on what to check.
    pub async fn connect(target: Target, options: Options) -> Result<Arc<Links>, LinkError> {
        let deadline = options.start_deadline;
        let shown = target.to_string();
        let kind = target.kind();
        let dialer = Arc::new(Dialer::new(target, options));
        let links = Links { kind, table: Arc::default(), ended: CancellationToken::new() };
        links.start(&dialer);
        links.wait_until_ready(deadline, &shown).await?;
        Ok(Arc::new(links))
    }

    fn start(&self, dialer: &Arc<Dialer>) {
        let (name, source) = match &dialer.target.topology {
            Topology::Standalone { address } => {
                (format!("Redis at {address}"), Source::Fixed(address.clone()))
            }
            Topology::Sentinel { sentinels, master } => (
                format!("the Redis master {master:?}"),
                Source::Sentinels(Sentinels::new(sentinels, master)),
            ),
            Topology::Cluster { seeds } => {
                let (table, ended) = (self.table.clone(), self.ended.clone());
                let cluster =
                    cluster::maintain(seeds.clone(), dialer.clone(), table, ended.clone());
                tokio::spawn(ended.run_until_cancelled_owned(cluster));
                return;
            }
        };
        let table = Arc::downgrade(&self.table);
        let link = supervisor::start(name, dialer, table, self.ended.child_token(), source);
        self.table.set_routes(vec![Route { slots: 0..=slot::SLOTS - 1, link }]);
    }

    async fn wait_until_ready(&self, deadline: Duration, shown: &str) -> Result<(), LinkError> {
        let mut changes = self.table.changes.subscribe();
        // Not within `wait_for`: that holds a lock that `RoutingTable::publish` waits for with the
        // routes locked.
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
                 whether it uses TLS there, and that the network allows it",
                deadline.as_secs_f32(),
                error.reason()
            ))),
        }
    }

    /// Returns why some slots cannot be used, if any; an error that an operator must fix comes
    /// first.
    fn obstacle(&self) -> Option<LinkError> {
        let failures = self.table.links().into_iter().filter_map(|link| link.failure());
        let mut failures: Vec<LinkError> = failures.chain(self.table.gap()).collect();
        failures.sort_by_key(|failure| !matches!(failure, LinkError::Refused { .. }));
        failures.into_iter().next()
    }
}

/// After a reply that [`is_unserved`] the links look for the right server. Without a connection a
/// request fails after [`Options::wait_for_link`].
#[async_trait::async_trait]
impl Servers for Links {
    fn kind(&self) -> Kind {
        self.kind
    }

    async fn run(&self, tag: &str, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        self.table.link(slot::slot_of(tag))?.run(pipeline).await
    }

    async fn dedicated(&self, tag: &str, patience: Duration) -> Result<Dedicated, LinkError> {
        self.table.link(slot::slot_of(tag))?.dedicated(patience).await
    }

    fn master(&self, tag: &str) -> watch::Receiver<Option<Master>> {
        self.table.follow(slot::slot_of(tag))
    }

    fn health(&self) -> Result<(), String> {
        let mut faults: Vec<String> =
            self.table.links().iter().filter_map(|link| link.health().err()).collect();
        faults.extend(self.table.gap().map(|gap| gap.reason().to_string()));
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults.join("; ")),
        }
    }

    fn look_again(&self) {
        self.table.remap.notify_one();
    }

    fn close(&self) {
        self.ended.cancel();
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.close();
    }
}
