//! What the sessions of a worker have in common, and the request to stop.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::worker::collect::Collector;
use crate::worker::options::Options;
use crate::worker::shared::Shared;

/// The state of a worker that outlives a session.
pub(super) struct Context {
    pub(super) options: Options,
    pub(super) shared: Arc<Shared>,
    pub(super) collector: Collector,
    pub(super) stop: watch::Receiver<Option<Stop>>,
    pub(super) backoff: Backoff,
}

/// A request to stop the worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    /// The deadline.
    pub(super) until: Instant,
    /// Whether the unit is removed for good.
    pub(super) removed: bool,
}

/// Waits for a request to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|stop| *stop) {
        Ok(Some(stop)) => stop,
        // `Worker::drop` sends a request, so the channel never closes without one.
        Ok(None) | Err(_) => Stop { until: Instant::now(), removed: false },
    }
}
