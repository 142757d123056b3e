//! The copy of a relay, as metrics. A server has none of these.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::metrics::Meter;

use super::gauge;
use crate::sync::lock;

/// How the copy of a relay is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelayState {
    /// Whether every watch of the upstream is open and proved.
    pub is_connected: bool,
    /// Time since the copy was last proved to be current; `None` before the first proof.
    pub age: Option<Duration>,
    /// Number of namespaces that two upstreams have.
    pub overlaps: u64,
    /// Each upstream.
    pub upstreams: Vec<UpstreamState>,
}

/// How the copy of one upstream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamState {
    /// Its address.
    pub upstream: Arc<str>,
    /// Whether every watch of it is open and proved.
    pub is_connected: bool,
    /// Time since it last proved the copy; `None` before the first proof.
    pub age: Option<Duration>,
}

#[derive(Clone)]
pub(super) struct RelayGauges(Arc<Mutex<Option<RelayState>>>);

impl RelayGauges {
    pub(super) fn new(meter: &Meter) -> RelayGauges {
        let gauges = RelayGauges(Arc::default());
        let read = gauges.clone();
        let description = "Of a relay: 1 if its watches of the upstream are open, else 0.";
        gauge::register(meter, "bellwether.relay.connected", "", description, move || {
            lock(&read.0).as_ref().map(|state| u64::from(state.is_connected))
        });
        let read = gauges.clone();
        let description = "Of a relay: time since the upstream last proved its copy.";
        gauge::register(meter, "bellwether.relay.age", "s", description, move || {
            lock(&read.0).as_ref().and_then(|state| state.age).map(|age| age.as_secs())
        });
        let read = gauges.clone();
        let description = "Of a relay: namespaces that two of its upstreams have: not served.";
        gauge::register(meter, "bellwether.relay.overlaps", "", description, move || {
            lock(&read.0).as_ref().map(|state| state.overlaps)
        });
        let read = gauges.clone();
        let description = "Of a relay: 1 if its watches of this upstream are open, else 0.";
        let of_each = move || read.each(|upstream| Some(u64::from(upstream.is_connected)));
        let (label, name) = ("upstream", "bellwether.relay.upstream.connected");
        gauge::register_each(meter, name, "", description, (label, of_each));
        let read = gauges.clone();
        let description = "Of a relay: time since this upstream last proved its copy.";
        let of_each = move || read.each(|upstream| upstream.age.map(|age| age.as_secs()));
        let name = "bellwether.relay.upstream.age";
        gauge::register_each(meter, name, "s", description, (label, of_each));
        gauges
    }

    /// Returns a number of each upstream that has one.
    fn each(&self, of: impl Fn(&UpstreamState) -> Option<u64>) -> Vec<(Arc<str>, u64)> {
        let state = lock(&self.0);
        let upstreams = state.iter().flat_map(|state| &state.upstreams);
        upstreams.filter_map(|each| Some((each.upstream.clone(), of(each)?))).collect()
    }

    pub(super) fn set(&self, state: RelayState) {
        *lock(&self.0) = Some(state);
    }
}
