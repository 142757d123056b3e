//! Worker sessions: which workers are connected, the questions sent to them, and lost connections.
//!
//! ```text
//!  worker --Inbound---> Session --commands--> Aggregator    one commit opens a session,
//!         <--Outbound--    ^ '-- silence, end --> SelfPreservation     another closes it;
//!                          |                      |         heartbeats cost none
//!  collect --> Registry ---'              committed after a delay
//!  store --changes--> StoreObserver --> Registry: taken over elsewhere, asked from elsewhere
//!  store <--beats--- Peers: replicas that are gone, and the units whose sessions they held
//! ```
//!
//! Every change that a session makes is a compare-and-set commit. Once the unit holds a newer
//! session, the aggregator refuses every command of the older one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aggregator::{self, Aggregator};
use crate::domain::command::{Command, Request};
use crate::domain::name::AppName;
use crate::domain::request::Outcome;
use crate::domain::unit::presence::{ReplicaId, SessionId};
use crate::store::Store;
use crate::telemetry::Metrics;
use crate::watch::Hub;

mod collect;
mod entry;
mod handshake;
mod holds;
mod leadership;
mod liveness_clock;
mod message;
mod needs;
mod news;
mod observer;
mod orphan;
mod peers;
mod periodic;
mod registry;
mod self_preservation;
mod worker;

pub use collect::{Answered, Collected};
pub use message::{Hello, Inbound, MayRead, OpenError, Outbound, Question, Welcome};
pub use worker::{End, Session, reported};

use collect::Collects;
use leadership::Leading;
use liveness_clock::LivenessClock;
use needs::Ringer;
use observer::{Known, StoreObserver};
use registry::Registry;
use self_preservation::SelfPreservation;

/// Limits and intervals of sessions.
#[derive(Debug, Clone)]
pub struct Options {
    /// Maximum number of open sessions.
    pub sessions_max: usize,
    /// The longest interval between two messages of a worker.
    pub heartbeat_interval: Duration,
    /// Heartbeats a second that this replica accepts. With more sessions the interval grows.
    pub heartbeats_per_second_max: u32,
    /// Messages of one session that are read and committed together.
    pub chunk_max: usize,
    /// Share of an application's units on this replica, in percent, that may disconnect at about
    /// the same time. A larger share starts self-preservation: this replica may itself be cut off.
    pub vanish_percent_max: u32,
    /// Silence after which another replica counts as gone.
    pub replica_ttl: Duration,
}

impl Default for Options {
    /// With ten seconds a dead worker shows within half a minute, and 10,000 workers cost 1,000
    /// small messages a second. With 50 percent a rack or a zone may fail, but the loss of more
    /// than half of the units points to this replica's own network.
    fn default() -> Options {
        Options {
            sessions_max: 100_000,
            heartbeat_interval: Duration::from_secs(10),
            heartbeats_per_second_max: 5_000,
            chunk_max: 256,
            vanish_percent_max: 50,
            replica_ttl: Duration::from_secs(10),
        }
    }
}

/// Heartbeat intervals of silence after which a worker counts as gone.
const MISSED_HEARTBEATS: u32 = 3;

/// The sessions that this process holds. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    aggregator: Aggregator,
    options: Options,
    metrics: Metrics,
    replica: ReplicaId,
    table: Registry,
    collects: Collects,
    vanished: SelfPreservation,
    known: Known,
    leading: Leading,
    ringer: Ringer,
    liveness_clock: Arc<LivenessClock>,
    next_session: AtomicU64,
    /// Cancelled when sessions start to close.
    draining: CancellationToken,
    /// Cancelled when all sessions have closed.
    stopped: CancellationToken,
    sessions: TaskTracker,
    tasks: TaskTracker,
}

impl Sessions {
    /// Starts session handling over a store, its aggregator, and a hub that follows the store
    /// already. Must be called within a runtime.
    pub fn start(
        store: Arc<dyn Store>,
        aggregator: Aggregator,
        hub: Arc<Hub>,
        options: Options,
        metrics: Metrics,
    ) -> Sessions {
        let inner = Arc::new(Inner {
            replica: store.replica(),
            table: Registry::default(),
            collects: Collects::default(),
            vanished: SelfPreservation::default(),
            known: Known::default(),
            leading: Leading::default(),
            ringer: Ringer::new(hub),
            liveness_clock: Arc::new(LivenessClock::default()),
            next_session: AtomicU64::new(1),
            draining: CancellationToken::new(),
            stopped: CancellationToken::new(),
            sessions: TaskTracker::new(),
            tasks: TaskTracker::new(),
            store,
            aggregator,
            options,
            metrics,
        });
        inner.store.follow(Arc::new(StoreObserver(Arc::downgrade(&inner))));
        inner.tasks.spawn(liveness_clock::run(inner.clone()));
        inner.tasks.spawn(peers::run(inner.clone()));
        inner.tasks.spawn(periodic::run(inner.clone()));
        inner.tasks.spawn(leadership::run(inner.clone()));
        inner.tasks.spawn(needs::run(inner.clone()));
        inner.tasks.spawn(collect::forward(inner.clone()));
        Sessions { inner }
    }

    /// Closes every session and waits until that is committed. Each worker is sent the time after
    /// which it connects elsewhere.
    pub async fn drain(&self) {
        self.inner.draining.cancel();
        self.inner.sessions.close();
        self.inner.sessions.wait().await;
        self.inner.stopped.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Returns whether self-preservation is active for an application: so many of its units
    /// disconnected together that this replica may itself be cut off.
    pub fn is_suspect(&self, app: &AppName) -> bool {
        self.inner.vanished.is_suspect(app)
    }

    /// Resolves when the server stops and sessions start to close.
    pub async fn draining(&self) {
        self.inner.draining.cancelled().await;
    }

    /// Returns the heartbeat interval of a worker without a session that sets none.
    pub fn heartbeat_interval(&self) -> Duration {
        self.inner.heartbeat_interval()
    }
}

impl Inner {
    /// Applies a command of the server.
    async fn apply(&self, app: &AppName, command: Command) -> Result<Outcome, aggregator::Error> {
        self.aggregator.apply(app, Request { id: None, command }).await
    }

    /// Applies commands together. What fails as a whole fails for each of them.
    async fn apply_all(
        &self,
        app: &AppName,
        requests: &Arc<Vec<Request>>,
    ) -> Vec<Result<Outcome, aggregator::Error>> {
        let outcomes = self.aggregator.apply_all(app, requests.clone()).await;
        outcomes.unwrap_or_else(|error| vec![Err(error); requests.len()])
    }

    /// Sleeps between two rounds of a task; false: the sessions have closed.
    async fn pause(&self, time: Duration) -> bool {
        self.stopped.run_until_cancelled(tokio::time::sleep(time)).await.is_some()
    }

    fn next_id(&self) -> SessionId {
        let number = self.next_session.fetch_add(1, Ordering::Relaxed);
        SessionId { replica: self.replica, number }
    }

    /// Returns the heartbeat interval for the present number of sessions.
    fn heartbeat_interval(&self) -> Duration {
        let sessions = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
        let rate = self.options.heartbeats_per_second_max.max(1);
        self.options.heartbeat_interval.max(Duration::from_secs(u64::from(sessions / rate)))
    }

    /// Returns how long a worker may be silent or disconnected.
    fn session_ttl(&self) -> Duration {
        self.heartbeat_interval() * MISSED_HEARTBEATS
    }
}

/// Returns whether the store has decided about a command. Otherwise it is sent again.
fn is_decided(outcome: &Result<Outcome, aggregator::Error>) -> bool {
    matches!(outcome, Ok(_) | Err(aggregator::Error::Rejected(_)))
}

/// Returns a random duration below `below`, so that sessions do not act at the same moment.
fn spread(below: Duration) -> Duration {
    let millis = u64::try_from(below.as_millis()).unwrap_or(u64::MAX);
    // Without randomness all sessions act at the same moment, which is slower but correct.
    let dice = getrandom::u64().unwrap_or_default();
    Duration::from_millis(dice.checked_rem(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests;
