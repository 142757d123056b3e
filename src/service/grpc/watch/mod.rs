//! `WatchApplications` and `MultiplexWatches`: the hub's events on the wire, until the reader
//! disconnects, its deadline passes, or the server drains.
//!
//! ```text
//!  route --> Watches --> Single    --> Track --> watch::Watcher   one reader, its own messages
//!                   '--> Multiplex --> Cohorts --> Track, ...     many, with shared messages where
//!                                          '--> Ready             possible; which to poll next
//! ```
//!
//! A message about a change is encoded once for all its readers: see [`parts`].

mod cohorts;
mod multiplex;
mod parts;
mod ready;
mod route;
mod single;
mod track;

pub(super) use route::{MULTIPLEX, WATCH};
pub(super) use single::past_deadline;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::aggregator::Aggregator;
use crate::domain::time::Timestamp;
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::caller::{Caller, Full, Kind, STREAM_SHARE, Share, WatchLimits};
use crate::service::code::ApiError;
use crate::service::grpc::read_path::Reads;
use crate::service::relay::Relay;
use crate::service::{Parts, convert};
use crate::store::{Epoch, Store};
use crate::sync::lock;
use crate::telemetry::{HeldCount, Metrics};
use crate::watch::{Hub, Scope, Start, Token};

use track::Track;

/// How long a drained reader waits before it connects again. The load balancer decides when a
/// replica is replaced, so this only prevents a reconnect to the same replica.
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// Returns the last event of a watch on a server that drains.
pub(super) fn drain() -> v1::Drain {
    v1::Drain { reconnect_after: Some(convert::duration(RECONNECT_AFTER)) }
}

/// Maximum watches on one multiplexed stream; the proto documents this number.
const PER_STREAM_MAX: usize = 10_000;
/// Maximum watches on all multiplexed streams: 300 bytes each if they share a filter with others.
const MULTIPLEXED_MAX: usize = 1_000_000;
/// Maximum watches on the multiplexed streams of one peer, and of one principal.
const MULTIPLEXED_PER_PEER_MAX: usize = MULTIPLEXED_MAX / STREAM_SHARE;

/// Opens watches within the limits. Cheap to clone.
#[derive(Clone)]
pub struct Watches(Arc<Inner>);

/// State that all streams share.
struct Inner {
    hub: Arc<Hub>,
    store: Arc<dyn Store>,
    aggregator: Aggregator,
    relay: Option<Arc<Relay>>,
    reads: Reads,
    limits: WatchLimits,
    streams: Arc<Semaphore>,
    health: Arc<Semaphore>,
    multiplexed: Arc<Semaphore>,
    draining: CancellationToken,
    /// The same as `draining`, for a cheap check at each event.
    is_draining: AtomicBool,
    metrics: Metrics,
    /// The store epoch, encoded: every message contains it, and it rarely changes.
    epoch: Mutex<Option<(Epoch, Bytes)>>,
}

impl Watches {
    /// Creates the state. All watches end when the server drains. Must be called within a runtime.
    pub fn new(parts: &Parts, reads: Reads, limits: WatchLimits) -> Watches {
        let until = parts.draining.clone();
        let watches = Watches(Arc::new(Inner {
            hub: parts.hub.clone(),
            store: parts.store.clone(),
            aggregator: parts.aggregator.clone(),
            relay: parts.relay.clone(),
            reads,
            limits,
            streams: Arc::new(Semaphore::new(limits.streams_max)),
            health: Arc::new(Semaphore::new(limits.health_streams_max)),
            multiplexed: Arc::new(Semaphore::new(MULTIPLEXED_MAX)),
            draining: parts.draining.clone(),
            metrics: parts.metrics.clone(),
            is_draining: AtomicBool::new(false),
            epoch: Mutex::new(None),
        }));
        // One task waits for the cancellation, instead of every reader.
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

    /// Reserves a place among the open streams; dropping it frees the place.
    pub fn place(&self, caller: Option<&Caller>) -> Result<StreamPlace, ApiError> {
        let WatchLimits { streams_max, streams_per_peer_max, streams_per_principal_max, .. } =
            self.0.limits;
        let share_max = (streams_per_peer_max, streams_per_principal_max);
        let advice = "watch several applications on one stream";
        let place = self.place_among(&self.0.streams, caller, Kind::Watch, share_max, |full| {
            let names = ("watch_streams_per_peer_max", "watch_streams_per_principal_max");
            full.problem("watches", names, advice)
        })?;
        let text = || format!("{streams_max} watches are open already; {advice}");
        place.ok_or_else(|| ApiError::too_many(text(), "watch_streams_max", streams_max))
    }

    /// Reserves a place among the health watches. They have their own limit, so that probes work
    /// even when other watches are at their limit.
    pub fn health_place(&self, caller: Option<&Caller>) -> Result<StreamPlace, ApiError> {
        let max = self.0.limits.health_streams_max;
        let share_max = ((max / STREAM_SHARE).max(1), (max / STREAM_SHARE).max(1));
        let place =
            self.place_among(&self.0.health, caller, Kind::HealthWatch, share_max, |full| {
                let names =
                    ("health_watch_streams_per_peer_max", "health_watch_streams_per_principal_max");
                full.problem("health watches", names, "use Check")
            })?;
        let text = || format!("{max} health watches are open already; use Check");
        place.ok_or_else(|| ApiError::too_many(text(), "health_watch_streams_max", max))
    }

    /// Reserves one of some places within the share of the caller; `None`: all are in use.
    fn place_among(
        &self,
        places: &Arc<Semaphore>,
        caller: Option<&Caller>,
        kind: Kind,
        share_max: (usize, usize),
        problem: impl FnOnce(Full) -> ApiError,
    ) -> Result<Option<StreamPlace>, ApiError> {
        if self.0.draining.is_cancelled() {
            return Err(ApiError::draining());
        }
        let share = share(caller, kind, share_max, problem)?;
        let permit = places.clone().try_acquire_owned().ok();
        Ok(permit.map(|permit| (permit, share, self.0.metrics.watch_stream())))
    }

    /// Resolves when watches start to end because the server shuts down.
    pub async fn draining(&self) {
        self.0.draining.cancelled().await;
    }

    fn track(
        &self,
        access: &Access,
        wire: &v1::WatchApplicationsRequest,
        peer: Option<IpAddr>,
    ) -> Result<Track, ApiError> {
        let filter = convert::filter(access, wire)?;
        if let Some(relay) = self.0.relay.as_ref().filter(|_| wire.include_units) {
            return Err(relay.without_units(&filter.scope));
        }
        let start = match wire.resume_token.as_str() {
            "" => Start::Snapshot,
            token => Start::Resume(Token::decode(token)?),
        };
        let bookmark_after = convert::bookmark_interval(wire)?;
        let watcher = self.0.hub.watch_from(peer, filter, start)?;
        let watcher = watcher.with_bookmarks_after(bookmark_after);
        Ok(Track::new(self.clone(), watcher, wire.include_units))
    }

    /// Returns the time as of which the hub is current for a watch: that of the last contact with
    /// the store, or of the oldest proof of the upstreams that the watch covers.
    fn as_of(&self, scope: &Scope) -> Timestamp {
        if let Some(as_of) = self.0.relay.as_ref().and_then(|relay| relay.as_of(scope)) {
            return as_of;
        }
        self.0.aggregator.away_since().unwrap_or_else(|| self.0.store.now())
    }

    /// Returns why a relay must end a watch now.
    fn conflict(&self, scope: &Scope) -> Option<ApiError> {
        self.0.relay.as_ref().and_then(|relay| relay.overlap_in(scope))
    }

    /// Returns whether the server drains. Readers are woken when this changes.
    fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Acquire)
    }

    /// Returns the epoch, encoded as part of a message.
    fn epoch(&self, epoch: Epoch) -> Bytes {
        self::epoch(&mut lock(&self.0.epoch), epoch, || parts::epoch(epoch))
    }
}

/// Returns the encoded epoch that is known, or encodes it.
fn epoch(
    known: &mut Option<(Epoch, Bytes)>,
    epoch: Epoch,
    encode: impl FnOnce() -> Bytes,
) -> Bytes {
    match known {
        Some((of, encoded)) if *of == epoch => encoded.clone(),
        _ => known.insert((epoch, encode())).1.clone(),
    }
}

/// Adds one stream to the share of a caller: at most `per_peer_max` of its address, and at most
/// `per_principal_max` of its principal. The error names the owner that is at its limit.
pub(super) fn share(
    caller: Option<&Caller>,
    kind: Kind,
    (per_peer_max, per_principal_max): (usize, usize),
    problem: impl FnOnce(Full) -> ApiError,
) -> Result<Option<Share>, ApiError> {
    let Some(mut share) = caller.map(|caller| caller.share(kind)) else { return Ok(None) };
    share.grow(per_peer_max, per_principal_max).map_err(problem)?;
    Ok(Some(share))
}

/// A place among the open streams.
pub type StreamPlace = (OwnedSemaphorePermit, Option<Share>, HeldCount);
