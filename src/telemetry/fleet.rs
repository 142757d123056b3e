//! The numbers of applications, units, statuses, errors and leaders: the server supplies them at
//! each collection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::instrument::Readout;
use crate::domain::level::{LEVELS, Level};

/// The counts at each level, in the order of [`Level::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FleetCounts {
    /// Applications by their derived level.
    pub applications: [u64; LEVELS],
    /// Units that are stale, lost and uncertain.
    pub silent_units: [u64; 3],
    /// Units by their derived level.
    pub units: [u64; LEVELS],
    /// Contributions by level: statuses, errors, operations and overrides.
    pub statuses: [u64; LEVELS],
    /// Open errors.
    pub faults: u64,
    /// Applications with a leader that was elected here.
    pub leaders: u64,
}

/// The words for the units of [`FleetCounts::silent_units`].
pub(super) const FRESHNESS: [&str; 3] = ["stale", "lost", "uncertain"];

/// The labels of each series of a gauge.
type Labels = Vec<Vec<KeyValue>>;

/// Returns a series for each word of a label.
fn labels(name: &'static str, words: &[&'static str]) -> Labels {
    words.iter().map(|word| vec![KeyValue::new(name, *word)]).collect()
}

/// Registers the gauges of the fleet.
pub(super) fn register(meter: &Meter) -> Readout<FleetCounts> {
    let fleet = Readout::<FleetCounts>::default();
    let gauge = |name, description, labels: Labels, pick: fn(&FleetCounts) -> &[u64]| {
        let fleet = Arc::clone(&fleet);
        meter
            .u64_observable_gauge(name)
            .with_description(description)
            .with_callback(move |observer| {
                let Some(counts) = fleet.get() else { return };
                // A panic here would end the exporting thread silently.
                let Ok(counts) = catch_unwind(AssertUnwindSafe(counts)) else { return };
                for (count, labels) in pick(&counts).iter().zip(&labels) {
                    observer.observe(*count, labels);
                }
            })
            .build();
    };
    let levels = || labels("level", &Level::ALL.map(Level::word));
    gauge("bellwether.applications", "Applications by level.", levels(), |c| &c.applications);
    gauge("bellwether.units", "Units by level.", levels(), |c| &c.units);
    gauge("bellwether.statuses", "Contributions by level.", levels(), |c| &c.statuses);
    let silent = labels("freshness", &FRESHNESS);
    let text = "Units that are stale, lost or uncertain.";
    gauge("bellwether.units.silent", text, silent, |c| &c.silent_units);
    let total = || vec![Vec::new()];
    gauge("bellwether.faults", "Errors that are open.", total(), |c| slice::from_ref(&c.faults));
    let text = "Applications with a leader that was elected here.";
    gauge("bellwether.leaders", text, total(), |c| slice::from_ref(&c.leaders));
    fleet
}
