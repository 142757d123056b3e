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

use std::net::IpAddr;
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
use crate::service::edge::{Caller, Kind, Peer, Share};
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
    /// Streams at once of one peer.
    pub streams_per_peer_max: usize,
    /// Watches on streams of many, over all of them.
    pub multiplexed_max: usize,
    /// The same of one peer.
    pub multiplexed_per_peer_max: usize,
    /// Health watches at once, and those of one peer.
    pub health_max: (usize, usize),
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
    health: Arc<Semaphore>,
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
            health: Arc::new(Semaphore::new(limits.health_max.0)),
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
    pub fn place(&self, caller: Option<&Caller>) -> Result<Place, Problem> {
        self.must_not_drain()?;
        let Limits { streams_max, streams_per_peer_max, .. } = self.0.limits;
        let share = self.share(caller, Kind::Watch, streams_per_peer_max).map_err(|peer| {
            let text = format!(
                "{streams_per_peer_max} watches of {peer} are open already, which is the share of \
                 one address; watch several applications on one stream"
            );
            too_many(text, "watch_streams_per_peer_max", streams_per_peer_max)
        })?;
        self.place_among(&self.0.streams, share).ok_or_else(|| {
            let text = format!(
                "{streams_max} watches are open already; watch several applications on one stream"
            );
            too_many(text, "watch_streams_max", streams_max)
        })
    }

    /// A place among the health watches, which probes need also where watches have all others.
    pub fn health_place(&self, caller: Option<&Caller>) -> Result<Place, Problem> {
        self.must_not_drain()?;
        let (max, per_peer_max) = self.0.limits.health_max;
        let text = |max| format!("{max} health watches are open already; use Check");
        let share = self.share(caller, Kind::HealthWatch, per_peer_max).map_err(|_| {
            too_many(text(per_peer_max), "health_watch_streams_per_peer_max", per_peer_max)
        })?;
        let place = self.place_among(&self.0.health, share);
        place.ok_or_else(|| too_many(text(max), "health_watch_streams_max", max))
    }

    fn place_among(&self, places: &Arc<Semaphore>, share: Option<Share>) -> Option<Place> {
        let permit = places.clone().try_acquire_owned().ok()?;
        Some(Place { _permit: permit, _share: share, _counted: self.0.metrics.watch_stream() })
    }

    /// One more of what a peer may not have all of. The error is the peer.
    fn share(
        &self,
        caller: Option<&Caller>,
        kind: Kind,
        max: usize,
    ) -> Result<Option<Share>, Peer> {
        let Some(mut share) = caller.map(|caller| caller.share(kind)) else { return Ok(None) };
        match share.grow(max) {
            true => Ok(Some(share)),
            false => Err(share.peer()),
        }
    }

    fn must_not_drain(&self) -> Result<(), Problem> {
        match self.0.draining.is_cancelled() {
            true => Err(Problem::draining()),
            false => Ok(()),
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
        caller: Option<&Caller>,
    ) -> Result<Single, Problem> {
        let peer = caller.map(Caller::address);
        let place = self.place(caller)?;
        Ok(Single::new(self.clone(), self.track(wire, peer)?, deadline, place))
    }

    /// Starts a stream of many watches.
    fn multiplex(
        &self,
        requests: Streaming<v1::MultiplexWatchesRequest>,
        deadline: Option<Deadline>,
        caller: Option<&Caller>,
    ) -> Result<Multiplex, Problem> {
        let peer = caller.map(Caller::address);
        let place = self.place(caller)?;
        let share = caller.map(|caller| caller.share(Kind::MultiplexedWatch));
        Ok(Multiplex::new(self.clone(), requests, deadline, peer, place, share))
    }

    fn track(
        &self,
        wire: &v1::WatchApplicationsRequest,
        peer: Option<IpAddr>,
    ) -> Result<Track, Problem> {
        let mut fields = Fields::default();
        let filter = convert::filter(&mut fields, wire);
        let filter = fields.finish(filter)?;
        let start = match wire.resume_token.as_str() {
            "" => Start::Snapshot,
            token => Start::Resume(Token::decode(token)?),
        };
        let watcher = self.0.hub.watch_from(peer, filter, start)?;
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
    _share: Option<Share>,
    _counted: WatchStreamCount,
}
