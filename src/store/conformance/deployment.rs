//! The stores to test, as the tests of a backend provide them.

use std::sync::Arc;
use std::time::Duration;

use crate::store::Store;

/// A store to test: its data, empty at first, which any number of processes open.
pub trait Deployment {
    /// Opens the store as one more process. If the store is not shared, the suite closes it before
    /// it opens it again.
    fn open(&self) -> impl Future<Output = Arc<dyn Store>>;
}

/// A deployment with one process whose connection to the data can break.
pub trait FaultyLink: Deployment {
    /// Opens the store as the process with this connection. The suite calls it once.
    fn open_linked(&self) -> impl Future<Output = Arc<dyn Store>>;

    /// Breaks the connection until [`heal`](FaultyLink::heal): no call of the process reaches the
    /// data.
    fn cut(&self);

    /// Loses answers to the process until [`heal`](FaultyLink::heal). The requests reach the data.
    /// With each `round`, a backend may lose another part of the answers.
    fn lose_answers(&self, round: u32);

    /// Repairs the connection.
    fn heal(&self);
}

/// A deployment that can replace its master by one without the last writes.
pub trait Failover: FaultyLink {
    /// Secures all commits so far: the next master has them.
    fn secure(&self) -> impl Future<Output = ()>;

    /// Replaces the master by one that has the secured commits alone.
    fn fail_over(&self) -> impl Future<Output = ()>;
}

/// A deployment whose data have a clock that can be set.
pub trait SetClock: Deployment {
    /// Sets the clock ahead while one process is open, and waits until that process has read it.
    fn set_ahead(&self, by: Duration) -> impl Future<Output = ()>;
}

/// Two processes that share a store.
pub(super) type Pair = [Arc<dyn Store>; 2];
