//! The space that the store has left, as metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::metrics::Meter;

use super::gauge;

/// Free bytes and bytes in all; `u64::MAX` while they are not known.
#[derive(Clone)]
pub(super) struct SpaceGauges(Arc<[AtomicU64; 2]>);

impl SpaceGauges {
    pub(super) fn new(meter: &Meter) -> SpaceGauges {
        let gauges = SpaceGauges(Arc::new([AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)]));
        let names = [
            ("bellwether.store.free", "Bytes that the store has left, of the fullest server."),
            ("bellwether.store.capacity", "Bytes of the disk or of maxmemory of that server."),
        ];
        for (at, (name, description)) in names.into_iter().enumerate() {
            let read = gauges.clone();
            gauge::register(meter, name, "By", description, move || {
                Some(read.0[at].load(Ordering::Relaxed)).filter(|bytes| *bytes != u64::MAX)
            });
        }
        gauges
    }

    pub(super) fn set(&self, space: Option<[u64; 2]>) {
        let values = space.unwrap_or([u64::MAX; 2]);
        self.0.iter().zip(values).for_each(|(gauge, value)| gauge.store(value, Ordering::Relaxed));
    }
}
