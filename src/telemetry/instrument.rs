//! Instruments that are plain atomics, which the readers read at collection.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use opentelemetry::metrics::Meter;
use opentelemetry::{KeyValue, StringValue};

/// A counter for each set of labels.
pub(super) type Counters = Arc<[AtomicU64]>;

/// The labels of each series of an instrument.
pub(super) type Labels = Vec<Vec<KeyValue>>;

/// A single series without a label.
pub(super) const NO_LABELS: [Vec<KeyValue>; 1] = [Vec::new()];

/// Returns a series for each value of a label.
pub(super) fn labels<V: Into<StringValue>>(
    name: &'static str,
    values: impl IntoIterator<Item = V>,
) -> Labels {
    values.into_iter().map(|value| vec![KeyValue::new(name, value.into())]).collect()
}

/// Registers one counter for each series.
pub(super) fn counters(
    meter: &Meter,
    name: &'static str,
    description: &'static str,
    labels: Labels,
) -> Counters {
    let counters: Counters = labels.iter().map(|_| AtomicU64::new(0)).collect();
    let read = Arc::clone(&counters);
    meter
        .u64_observable_counter(name)
        .with_description(description)
        .with_callback(move |observer| {
            for (counter, labels) in read.iter().zip(&labels) {
                observer.observe(counter.load(Ordering::Relaxed), labels);
            }
        })
        .build();
    counters
}

pub(super) fn up_down(
    meter: &Meter,
    name: &'static str,
    description: &'static str,
) -> Arc<AtomicI64> {
    let open = Arc::new(AtomicI64::new(0));
    let read = Arc::clone(&open);
    meter
        .i64_observable_up_down_counter(name)
        .with_description(description)
        .with_callback(move |observer| observer.observe(read.load(Ordering::Relaxed), &[]))
        .build();
    open
}
