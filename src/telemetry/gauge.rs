//! A gauge whose number is read at each collection.

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
