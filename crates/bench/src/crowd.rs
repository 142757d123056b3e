//! Watchers that nothing is measured at: they make a server or a relay do the work of many.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bellwether::proto::v1;

use crate::changes::Reports;
use crate::fanout::{MULTIPLEX, PER_STREAM, create, multiplexed};
use crate::h2_readers::{Call, Hear, Readers, frame};

const WATCHERS_MAX: usize = 1_000_000;
/// Streams on each connection: their requests fit the window that HTTP/2 begins with.
const PER_CONNECTION: usize = 8;
/// How long all watches may take to open.
const DEADLINE: Duration = Duration::from_secs(120);

/// Parses the number of watchers.
pub fn watchers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(watchers) if watchers <= WATCHERS_MAX && watchers % PER_STREAM == 0 => Ok(watchers),
        _ => Err(format!("a multiple of {PER_STREAM}, at most {WATCHERS_MAX}")),
    }
}

/// Watchers of one application each, many on a stream.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    /// Watchers; a multiple of [`PER_STREAM`].
    pub watchers: usize,
    /// Watcher number n follows the application of report number n.
    pub reports: Reports,
}

/// What the watchers have received.
#[derive(Default)]
struct Received {
    events: AtomicU64,
    snapshots: AtomicU64,
}

impl Hear for Received {
    fn hear(&self, _: usize, message: &[u8]) -> u64 {
        let (events, snapshots) = multiplexed(message);
        self.events.fetch_add(events, Ordering::Relaxed);
        self.snapshots.fetch_add(snapshots, Ordering::Relaxed);
        events
    }
}

/// Open watches; dropping them closes them.
pub struct OpenCrowd {
    _readers: Readers,
    received: Arc<Received>,
}

impl Crowd {
    /// Opens the watches, and waits until each has its snapshot.
    pub async fn open(&self, address: SocketAddr) -> anyhow::Result<OpenCrowd> {
        let received = Arc::new(Received::default());
        let streams = self.watchers / PER_STREAM;
        let shape = (streams, streams.div_ceil(PER_CONNECTION));
        let mut readers = Readers::open(address, shape, |stream| self.call(stream), &received);
        let (all, seen) = (self.watchers as u64, received.clone());
        let is_open = |_: &Readers| all <= seen.snapshots.load(Ordering::Relaxed);
        if 0 < all {
            readers.until(is_open, DEADLINE).await.context("not every watch is open")?;
        }
        Ok(OpenCrowd { _readers: readers, received })
    }

    fn call(&self, stream: usize) -> Call {
        let requests = (0..PER_STREAM).flat_map(|watch_id| {
            let report = self.reports.report((stream * PER_STREAM + watch_id) as u64);
            let (namespace, applications) = (report.namespace, vec![report.application]);
            let watch =
                v1::WatchApplicationsRequest { namespace, applications, ..Default::default() };
            frame(&create(watch_id as u64, watch))
        });
        Call { path: MULTIPLEX, requests: requests.collect(), is_all: false }
    }
}

impl OpenCrowd {
    /// Fails if fewer events than this have come.
    pub fn check(&self, least: u64) -> anyhow::Result<()> {
        let events = self.received.events.load(Ordering::Relaxed);
        ensure!(least <= events, "further watchers received {events} events, not {least}");
        Ok(())
    }
}
