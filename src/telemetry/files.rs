//! The gauge of the files that protect the server.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

/// Times since files were last read and valid, by the name of their set.
pub(super) type Ages =
    Arc<OnceLock<Box<dyn Fn() -> BTreeMap<&'static str, Duration> + Send + Sync>>>;

/// Registers the gauge.
pub(super) fn register(meter: &Meter) -> Ages {
    let ages = Ages::default();
    let read = Arc::clone(&ages);
    meter
        .u64_observable_gauge("bellwether.security.files_age")
        .with_unit("s")
        .with_description("Time since the security files were last read and valid, by set.")
        .with_callback(move |observer| {
            for (files, age) in read.get().into_iter().flat_map(|ages| ages()) {
                observer.observe(age.as_secs(), &[KeyValue::new("files", files)]);
            }
        })
        .build();
    ages
}
