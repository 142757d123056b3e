//! A gauge whose number is read at each collection.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

/// Registers a gauge that is left out while `read` does not know the number.
pub(super) fn register(
    meter: &Meter,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    read: impl Fn() -> Option<u64> + Send + Sync + 'static,
) {
    meter
        .u64_observable_gauge(name)
        .with_unit(unit)
        .with_description(description)
        .with_callback(move |observer| {
            if let Some(value) = read() {
                observer.observe(value, &[]);
            }
        })
        .build();
}

/// Registers a gauge with a label. `read` returns each of its values with the number.
pub(super) fn register_each(
    meter: &Meter,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    (label, read): (&'static str, impl Fn() -> Vec<(Arc<str>, u64)> + Send + Sync + 'static),
) {
    meter
        .u64_observable_gauge(name)
        .with_unit(unit)
        .with_description(description)
        .with_callback(move |observer| {
            for (value, number) in read() {
                observer.observe(number, &[KeyValue::new(label, value)]);
            }
        })
        .build();
}
