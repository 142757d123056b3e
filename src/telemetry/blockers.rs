//! What keeps applications from getting well, as metrics.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};

use crate::sync::lock;

/// The words of the states, in the order in which they are counted.
pub(super) const STATES: [&str; 6] =
    ["person", "deadlock", "failed", "silent", "not_known", "outside"];

/// Bounds of the time of an evaluation, in seconds: from a few applications to 100,000.
const SECONDS: [f64; 8] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.2, 1.0];

/// The first causes by state, left out while they are not known, and the time that a count takes.
#[derive(Clone)]
pub(super) struct BlockerGauges {
    counts: Arc<Mutex<Option<[u64; 6]>>>,
    duration: Histogram<f64>,
}

impl BlockerGauges {
    pub(super) fn new(meter: &Meter) -> BlockerGauges {
        let counts: Arc<Mutex<Option<[u64; 6]>>> = Arc::default();
        let read = counts.clone();
        meter
            .u64_observable_gauge("bellwether.blockers")
            .with_description(
                "What keeps applications from getting well, by state of the first cause.",
            )
            .with_callback(move |observer| {
                let counts = *lock(&read);
                for (count, state) in counts.iter().flatten().zip(STATES) {
                    observer.observe(*count, &[KeyValue::new("state", state)]);
                }
            })
            .build();
        let duration = meter
            .f64_histogram("bellwether.blockers.duration")
            .with_unit("s")
            .with_description("Time to follow the needs of all applications once.")
            .with_boundaries(SECONDS.to_vec())
            .build();
        BlockerGauges { counts, duration }
    }

    pub(super) fn set(&self, counts: Option<[u64; 6]>) {
        *lock(&self.counts) = counts;
    }

    pub(super) fn evaluated(&self, time: Duration) {
        self.duration.record(time.as_secs_f64(), &[]);
    }
}
