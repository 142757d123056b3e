//! The commits of this process, as metrics.

use std::time::Duration;

use opentelemetry::metrics::{Histogram, Meter};

use super::instrument::{CounterBy, Instrument};
use super::label::CommitResult;

/// Buckets of a commit in seconds. A commit is mostly one fsync: 0.1 ms on a good disk, seconds on
/// a failing one.
const SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

const COMMANDS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// The instruments.
pub(super) struct CommitInstruments {
    tried: CounterBy<CommitResult>,
    duration: Histogram<f64>,
    batch_size: Histogram<u64>,
}

impl CommitInstruments {
    pub(super) fn new(meter: &Meter) -> CommitInstruments {
        CommitInstruments {
            tried: CounterBy::register(meter, "bellwether.commits", "Commits tried."),
            duration: meter
                .f64_histogram("bellwether.commit.duration")
                .with_unit("s")
                .with_description("Time until the store answered a commit.")
                .with_boundaries(SECONDS.to_vec())
                .build(),
            batch_size: meter
                .u64_histogram("bellwether.commit.batch_size")
                .with_unit("{command}")
                .with_description("Commands that one commit carried.")
                .with_boundaries(COMMANDS.to_vec())
                .build(),
        }
    }

    /// Counts one commit.
    pub(super) fn count(&self, result: CommitResult, commands: usize, elapsed: Duration) {
        self.tried.count(result);
        self.duration.record(elapsed.as_secs_f64(), &[]);
        self.batch_size.record(commands as u64, &[]);
    }
}
