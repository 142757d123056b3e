//! Meets the workers: who is connected, what they are asked, and what their silence means.
//!
//! ```text
//!  worker --Heard--> Session --commands--> Aggregator          a session is a commit at its begin
//!         <--Told---    ^  '-- silence, end --> Vanished       and one at its end; between them
//!                       |                          |           being heard costs nothing
//!  collect --> Table ---'            judged after a look around
//!  store --changes--> Hook --> Table: taken over elsewhere, asked from elsewhere
//!  store <--beats--- Neighbours: who is gone, and whose units are therefore without anybody
//! ```
//!
//! What a session believes becomes true by a commit that compares: once the unit holds a newer
//! session, whatever this one still sends is refused.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aggregator::Aggregator;
use crate::domain::name::UnitName;
use crate::domain::session::{ReplicaId, SessionId};
use crate::store::Store;
use crate::telemetry::Metrics;

mod attention;
mod collect;
mod entry;
mod holds;
mod hook;
mod leading;
mod message;
mod neighbours;
mod open;
mod routine;
mod stray;
mod table;
mod vanish;
mod worker;

pub use collect::{Answered, Collected};
pub use message::{Heard, Hello, OpenError, Told, Welcome};
pub use worker::{End, Session};

use attention::Attention;
use collect::Collects;
use hook::{Hook, Known};
use leading::Leading;
use neighbours::Neighbours;
use table::Table;
use vanish::Vanished;

/// Bounds and times of sessions.
#[derive(Debug, Clone)]
pub struct Options {
    /// Sessions at once.
    pub sessions_max: usize,
    /// How often a worker must be heard, at least.
    pub heartbeat_interval: Duration,
    /// Heartbeats a second that are worth taking: with more sessions each is heard less often.
    pub heartbeats_per_second_max: u32,
    /// Messages of one session that are read at once, and committed together.
    pub chunk_max: usize,
    /// Share of an application's units here, in percent, that may vanish at once before it is
    /// suspected that it is us who cannot hear.
    pub vanish_percent_max: u32,
    /// Silence after which another replica is believed to be gone.
    pub replica_ttl: Duration,
}

impl Default for Options {
    /// Ten seconds: a dead worker shows within half a minute, and 10,000 workers cost 1,000 small
    /// messages a second. Half: a rack or a zone may fail, but who loses more than half at once
    /// should look at its own cable first.
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

/// Intervals of silence after which a worker is not believed to be there any more.
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
    table: Table,
    collects: Collects,
    vanished: Vanished,
    neighbours: Neighbours,
    known: Known,
    leading: Leading,
    attention: Arc<Attention>,
    next_session: AtomicU64,
    /// Sessions end.
    draining: CancellationToken,
    /// Sessions have ended.
    stopped: CancellationToken,
    sessions: TaskTracker,
    tasks: TaskTracker,
}

impl Sessions {
    /// Starts over a store and what decides about it. Must be called within a runtime.
    pub fn start(
        store: Arc<dyn Store>,
        aggregator: Aggregator,
        options: Options,
        metrics: Metrics,
    ) -> Sessions {
        let inner = Arc::new(Inner {
            replica: store.replica(),
            table: Table::default(),
            collects: Collects::default(),
            vanished: Vanished::default(),
            neighbours: Neighbours::default(),
            known: Known::default(),
            leading: Leading::default(),
            attention: Arc::new(Attention::default()),
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
        inner.store.follow(Arc::new(Hook::new(&inner)));
        inner.tasks.spawn(attention::run(inner.clone()));
        inner.tasks.spawn(neighbours::run(inner.clone()));
        inner.tasks.spawn(routine::run(inner.clone()));
        inner.tasks.spawn(leading::run(inner.clone()));
        inner.tasks.spawn(collect::forward(inner.clone()));
        Sessions { inner }
    }

    /// Ends every session, telling each worker when to connect elsewhere, and waits until that is
    /// committed.
    pub async fn drain(&self) {
        self.inner.draining.cancel();
        self.inner.sessions.close();
        self.inner.sessions.wait().await;
        self.inner.stopped.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// How many sessions are open here.
    pub fn count(&self) -> usize {
        self.inner.table.len()
    }

    /// Whether so many units of an application vanished at once that it may be us who cannot hear.
    pub fn is_suspect(&self, app: &crate::domain::name::AppName) -> bool {
        self.inner.vanished.is_suspect(app)
    }

    /// Resolves when sessions begin to end, because the server stops.
    pub async fn draining(&self) {
        self.inner.draining.cancelled().await;
    }

    /// The store's clock.
    pub fn now(&self) -> crate::domain::time::Timestamp {
        self.inner.store.now()
    }

    /// How often a worker without a session is to be heard, if it does not say.
    pub fn heartbeat_interval(&self) -> Duration {
        self.inner.heartbeat_interval()
    }
}

impl Inner {
    fn next_id(&self) -> SessionId {
        let number = self.next_session.fetch_add(1, Ordering::Relaxed);
        SessionId { replica: self.replica, number }
    }

    /// How often a worker must be heard, given how many there are.
    fn heartbeat_interval(&self) -> Duration {
        let sessions = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
        let rate = self.options.heartbeats_per_second_max.max(1);
        self.options.heartbeat_interval.max(Duration::from_secs(u64::from(sessions / rate)))
    }

    /// How long a worker may be silent, or away.
    fn session_ttl(&self) -> Duration {
        self.heartbeat_interval() * MISSED_HEARTBEATS
    }
}

/// What is said of units, each once.
type ByUnit<T> = BTreeMap<UnitName, T>;

/// A number below `below`, different each time: so that not all do the same at once.
fn spread(below: Duration) -> Duration {
    let millis = u64::try_from(below.as_millis()).unwrap_or(u64::MAX);
    // Without randomness all do it at once, which is slower and not wrong.
    let dice = getrandom::u64().unwrap_or_default();
    Duration::from_millis(dice.checked_rem(millis).unwrap_or_default())
}

/// A poisoned lock only means that somebody panicked: every change under it is a single step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
