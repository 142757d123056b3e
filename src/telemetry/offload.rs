//! The work that the server does beside the threads that serve connections, as metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use opentelemetry::metrics::Meter;

use super::instrument::{Counters, counters, labels, up_down};

/// Work beside the threads that serve connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadedWork {
    /// A large request is decoded.
    Decode,
    /// A large answer is rendered.
    Render,
    /// A list of the status page is rendered, once for all callers.
    Page,
}

/// The instruments.
pub(super) struct OffloadInstruments {
    done: Counters,
    waiting: Arc<AtomicI64>,
}

impl OffloadInstruments {
    pub(super) fn new(meter: &Meter) -> OffloadInstruments {
        OffloadInstruments {
            done: counters(
                meter,
                "bellwether.offloaded",
                "Large requests and answers that were decoded or rendered beside the threads that \
                 serve connections.",
                labels("work", ["decode", "render", "page"]),
            ),
            waiting: up_down(
                meter,
                "bellwether.offload.waiting",
                "Large requests and answers that wait for their turn.",
            ),
        }
    }

    /// Counts one piece of work that begins.
    pub(super) fn begun(&self, work: OffloadedWork) {
        self.done[work as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts work as waiting until the returned value is dropped.
    pub(super) fn waiting(&self) -> WaitingWork {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitingWork(self.waiting.clone())
    }
}

/// Work that waits for its turn, as counted by `Metrics::offload_waiting`.
#[derive(Debug)]
pub struct WaitingWork(Arc<AtomicI64>);

impl Drop for WaitingWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
