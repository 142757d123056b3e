//! The copy of a relay, as metrics. A server has none of these.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::metrics::Meter;

use super::gauge;
use crate::sync::lock;

/// How the copy of a relay is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayState {
    /// Whether every watch of the upstream is open and proved.
    pub is_connected: bool,
    /// Time since the copy was last proved to be current; `None` before the first proof.
    pub age: Option<Duration>,
    /// Number of namespaces that two upstreams have.
    pub overlaps: u64,
}

#[derive(Clone)]
pub(super) struct RelayGauges(Arc<Mutex<Option<RelayState>>>);

impl RelayGauges {
    pub(super) fn new(meter: &Meter) -> RelayGauges {
        let gauges = RelayGauges(Arc::default());
        let read = gauges.clone();
        let description = "Of a relay: 1 if its watches of the upstream are open, else 0.";
        gauge::register(meter, "bellwether.relay.connected", "", description, move || {
            lock(&read.0).map(|state| u64::from(state.is_connected))
        });
        let read = gauges.clone();
        let description = "Of a relay: time since the upstream last proved its copy.";
        gauge::register(meter, "bellwether.relay.age", "s", description, move || {
            lock(&read.0).and_then(|state| state.age).map(|age| age.as_secs())
        });
        let read = gauges.clone();
        let description = "Of a relay: namespaces that two of its upstreams have: not served.";
        gauge::register(meter, "bellwether.relay.overlaps", "", description, move || {
            lock(&read.0).map(|state| state.overlaps)
        });
        gauges
    }

    pub(super) fn set(&self, state: RelayState) {
        *lock(&self.0) = Some(state);
    }
}
