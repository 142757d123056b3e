//! `WatchApplications` and `MultiplexWatches`: the hub's items on the wire, until the reader
//! leaves, its deadline passes, or we drain.
//!
//! ```text
//!  Route --> Watches --> Single    --> Track --> watch::Watcher   one reader: a cursor, and words
//!                   '--> Multiplex --> Cohorts --> Track, ...     many, told together where they
//!                                          '--> Ready             can be; which to look at
//! ```
//!
//! What is told of a change is encoded once, for all who are told of it: see [`parts`].

mod cohorts;
mod multiplex;
mod parts;
mod ready;
mod route;
mod single;
mod track;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::aggregator::Aggregator;
use crate::proto::v1;
use crate::service::code::{Problem, RETRY_LATER, Reason};
use crate::service::convert::{self, Fields};
use crate::service::observe::Deadline;
use crate::store::Epoch;
use crate::telemetry::{Metrics, WatchStream as WatchStreamCount};
use crate::watch::{Hub, Start, Token};
pub use route::Route;

use multiplex::Multiplex;
use single::Single;
use track::Track;

/// How long a drained reader waits before it connects again: the time a replica needs to be
/// replaced in a rollout is the balancer's business, so only long enough not to come back to this
/// one.
pub(super) const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// Bounds of watching.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Streams at once, each with one watch or with many.
    pub streams_max: usize,
    /// Watches on one stream.
    pub per_stream_max: usize,
    /// Watches on streams of many, over all of them.
    pub multiplexed_max: usize,
}

/// Opens watches, within their number.
#[derive(Clone)]
pub struct Watches(Arc<Inner>);

/// What all streams share.
struct Inner {
    hub: Arc<Hub>,
    aggregator: Aggregator,
    limits: Limits,
    streams: Arc<Semaphore>,
    multiplexed: Semaphore,
    draining: CancellationToken,
    /// The same for those who ask at each event.
    is_draining: AtomicBool,
    metrics: Metrics,
    /// The name of the history, encoded: in every message, and nearly always the same.
    epoch: Mutex<Option<(Epoch, Bytes)>>,
}

impl Watches {
    /// All watches end when `draining` is cancelled. Within a runtime.
    pub fn new(
        hub: Arc<Hub>,
        aggregator: Aggregator,
        limits: Limits,
        draining: CancellationToken,
        metrics: Metrics,
    ) -> Watches {
        let until = draining.clone();
        let watches = Watches(Arc::new(Inner {
            hub,
            aggregator,
            limits,
            streams: Arc::new(Semaphore::new(limits.streams_max)),
            multiplexed: Semaphore::new(limits.multiplexed_max),
            draining,
            metrics,
            is_draining: AtomicBool::new(false),
            epoch: Mutex::new(None),
        }));
        // One task waits for this, instead of every reader.
        let woken = Arc::downgrade(&watches.0);
        tokio::spawn(async move {
            until.cancelled().await;
            if let Some(inner) = woken.upgrade() {
                inner.is_draining.store(true, Ordering::Release);
                inner.hub.wake();
            }
        });
        watches
    }

    /// A place among the open streams; given back when it is dropped.
    pub fn place(&self) -> Result<Place, Problem> {
        let inner = &self.0;
        if inner.draining.is_cancelled() {
            return Err(Problem::draining());
        }
        match inner.streams.clone().try_acquire_owned() {
            Ok(permit) => Ok(Place { _permit: permit, _counted: inner.metrics.watch_stream() }),
            Err(_) => {
                let max = inner.limits.streams_max;
                let text = format!(
                    "{max} watches are open already; watch several applications on one stream"
                );
                Err(too_many(text, "watch_streams_max", max))
            }
        }
    }

    /// Resolves when watches begin to end, because the server stops.
    pub async fn draining(&self) {
        self.0.draining.cancelled().await;
    }

    /// Starts a watch with a stream of its own.
    fn single(
        &self,
        wire: &v1::WatchApplicationsRequest,
        deadline: Option<Deadline>,
    ) -> Result<Single, Problem> {
        let place = self.place()?;
        Ok(Single::new(self.clone(), self.track(wire)?, deadline, place))
    }

    /// Starts a stream of many watches.
    fn multiplex(
        &self,
        requests: Streaming<v1::MultiplexWatchesRequest>,
        deadline: Option<Deadline>,
    ) -> Result<Multiplex, Problem> {
        let place = self.place()?;
        Ok(Multiplex::new(self.clone(), requests, deadline, place))
    }

    fn track(&self, wire: &v1::WatchApplicationsRequest) -> Result<Track, Problem> {
        let mut fields = Fields::default();
        let filter = convert::filter(&mut fields, wire);
        let filter = fields.finish(filter)?;
        let start = match wire.resume_token.as_str() {
            "" => Start::Snapshot,
            token => Start::Resume(Token::decode(token)?),
        };
        let watcher = self.0.hub.watch(filter, start)?;
        Ok(Track::new(self.clone(), watcher, wire.include_units))
    }

    /// Readers are woken once it is.
    fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Acquire)
    }

    /// The epoch as it stands in a message.
    fn epoch(&self, epoch: Epoch) -> Bytes {
        let mut known = self.0.epoch.lock().expect("nothing panics while it is held");
        match &*known {
            Some((of, encoded)) if *of == epoch => encoded.clone(),
            _ => {
                let encoded = parts::epoch(epoch);
                *known = Some((epoch, encoded.clone()));
                encoded
            }
        }
    }
}

fn too_many(text: String, limit: &'static str, max: usize) -> Problem {
    let problem = Problem::new(Reason::TooManyStreams, text);
    problem.with("limit", limit).with("max", max).retry_after(RETRY_LATER)
}

/// A place among the open streams.
pub struct Place {
    _permit: OwnedSemaphorePermit,
    _counted: WatchStreamCount,
}
