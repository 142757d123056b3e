//! The telemetry of the process: logs, metrics and traces.
//!
//! ```text
//!  tracing spans, events --+--> text or JSON lines on stderr
//!                          '--> traces, logs --.
//!  Metrics (instruments) --+--> metrics -------+--> OTLP, if OTEL_EXPORTER_OTLP_ENDPOINT is set
//!                          '--> Prometheus text on the ops port
//! ```
//!
//! A collector that is down does not affect the service: exporters run on threads of their own and
//! drop what does not fit their queues, and `shutdown` waits for them until its deadline at most.

mod applications;
mod blockers;
mod caller;
mod commit;
mod context;
mod error;
mod exemplar;
mod fleet;
mod gauge;
mod instrument;
mod label;
mod link;
mod log;
mod metrics;
mod openmetrics;
mod options;
mod otlp;
mod process;
mod prometheus;
mod provider;
mod relay;
mod rpc;
mod space;

use std::env;
use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::global;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use applications::{ApplicationState, ApplicationStates};
pub use caller::CallerTrace;
pub use context::{extract, inject};
pub use error::{Error, ShutdownError};
pub use fleet::FleetCounts;
pub use instrument::HeldCount;
pub use label::{
    CommitResult, ConnectionEnd, OffloadedWork, PanicPlace, ReportResult, ResyncCause,
    SecurityRefusal, UntakenEnd,
};
pub use link::{CallSpan, Callers, STREAM_SPAN};
pub use metrics::Metrics;
pub use openmetrics::{OPEN_METRICS, prefers_open_metrics};
pub use options::Options;
pub use prometheus::{CONTENT_TYPE, Prometheus};
pub use relay::{RelayState, UpstreamState};
pub use rpc::{OTHER_METHOD, RpcMethod, code_name};

use otlp::Exports;
use provider::Providers;

/// The telemetry of this process, from `init` to `shutdown`.
#[must_use = "what is still queued is only delivered by `shutdown`"]
pub struct Telemetry {
    metrics: Metrics,
    prometheus: Prometheus,
    providers: Providers,
}

/// Sets up logs, metrics, traces and the propagation of trace context, once in a process.
pub fn init(options: Options) -> Result<Telemetry, Error> {
    // Settings that are easily mistyped are read first, before there are threads to stop again.
    let stderr = log::stderr_layer(&options)?;
    let exports = Exports::read(|name| env::var(name).ok())?;
    let telemetry = Telemetry::of(exports, &options.service_version)?;

    let providers = &telemetry.providers;
    let _first_stays = EXPORTS_TRACES.set(providers.traces.is_some());
    let mut layers = Vec::new();
    // The first layer, so that the lines of the others can name the trace.
    layers.extend(providers.traces.as_ref().map(log::trace_layer));
    if let Some(provider) = &providers.logs {
        layers.push(log::record_layer(provider, &options)?);
    }
    layers.push(stderr);
    tracing_subscriber::registry().with(layers).try_init().map_err(Error::Installed)?;
    global::set_text_map_propagator(TraceContextPropagator::new());

    Ok(telemetry)
}

static EXPORTS_TRACES: OnceLock<bool> = OnceLock::new();

/// Whether spans are exported to a collector.
pub fn exports_traces() -> bool {
    EXPORTS_TRACES.get().copied().unwrap_or_default()
}

impl Telemetry {
    /// Sets up metrics alone, readable as text, and installs nothing in the process: for tests, and
    /// for programs that embed the server and set up their own logs.
    pub fn local(service_version: &str) -> Result<Self, Error> {
        Telemetry::of(Exports::default(), service_version)
    }

    fn of(exports: Exports, service_version: &str) -> Result<Self, Error> {
        let prometheus = Prometheus::default();
        let providers = Providers::build(exports, service_version, &prometheus)?;
        let meter = providers.metrics.meter("bellwether");
        let metrics = Metrics::new(&meter, service_version, prometheus.exemplars.clone());
        Ok(Self { metrics, prometheus, providers })
    }

    /// Returns the instruments.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the reader of the metrics as text, for the ops port.
    pub fn prometheus(&self) -> Prometheus {
        self.prometheus.clone()
    }

    /// Delivers what is queued and stops. Blocks for `deadline` at most, whatever the collector
    /// does. Logs on stderr still work afterwards.
    pub fn shutdown(self, deadline: Duration) -> Result<(), ShutdownError> {
        self.providers.shutdown(deadline)
    }
}

#[cfg(test)]
mod tests;
