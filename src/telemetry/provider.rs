//! The OpenTelemetry providers: built once, flushed once, with a deadline for the flush.

use std::env;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::{Builder, Handle};

use super::error::{Error, ShutdownError};
use super::otlp::{self, Exports, LOGS, METRICS, TRACES};
use super::prometheus::Prometheus;

pub(super) struct Providers {
    pub(super) traces: Option<SdkTracerProvider>,
    pub(super) logs: Option<SdkLoggerProvider>,
    pub(super) metrics: SdkMeterProvider,
}

impl Providers {
    pub(super) fn build(
        exports: Exports,
        version: &str,
        prometheus: &Prometheus,
    ) -> Result<Self, Error> {
        // The channels of the exporters spawn their connections on the runtime entered here.
        let runtime = exports.any().then(exporter_runtime).transpose()?;
        let _entered = runtime.as_ref().map(Handle::enter);
        let resource = resource(version);

        let mut metrics = SdkMeterProvider::builder().with_resource(resource.clone());
        if !exports.sdk_disabled {
            metrics = metrics.with_reader(prometheus.reader().map_err(Error::Prometheus)?);
        }
        if exports.metrics {
            metrics = metrics.with_periodic_exporter(otlp::metric_exporter()?);
        }
        let traces = exports.traces.then(|| traced(resource.clone())).transpose()?;
        let logs = exports.logs.then(otlp::log_exporter).transpose()?.map(|exporter| {
            let builder = SdkLoggerProvider::builder().with_resource(resource);
            builder.with_batch_exporter(exporter).build()
        });
        Ok(Self { traces, logs, metrics: metrics.build() })
    }

    /// Flushes and stops all providers in parallel, so that one that hangs takes no time from the
    /// others. Gives up on those that are not done by `deadline`.
    pub(super) fn shutdown(self, deadline: Duration) -> Result<(), ShutdownError> {
        let until = Instant::now() + deadline;
        let (sender, receiver) = mpsc::channel();
        let mut pending = Vec::new();
        let mut start = |signal: &'static str, stop: Box<dyn FnOnce() -> OTelSdkResult + Send>| {
            pending.push(signal);
            let sender = sender.clone();
            let run = move || {
                // The receiver is gone once the deadline has passed.
                let _ = sender.send((signal, stop()));
            };
            // If no thread can be started, the closure is dropped and the signal stays pending.
            let _ = thread::Builder::new().name("telemetry-shutdown".into()).spawn(run);
        };
        if let Some(traces) = self.traces {
            start(TRACES, Box::new(move || traces.shutdown_with_timeout(deadline)));
        }
        if let Some(logs) = self.logs {
            start(LOGS, Box::new(move || logs.shutdown_with_timeout(deadline)));
        }
        let metrics = self.metrics;
        start(METRICS, Box::new(move || metrics.shutdown_with_timeout(deadline)));
        drop(sender);

        let mut undelivered = Vec::new();
        while !pending.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let Ok((signal, result)) = receiver.recv_timeout(left) else { break };
            pending.retain(|each| *each != signal);
            if let Err(error) = result {
                undelivered.push(format!("{signal}: {error}"));
            }
        }
        undelivered.extend(pending.iter().map(|signal| format!("{signal}: not done in time")));
        if undelivered.is_empty() { Ok(()) } else { Err(ShutdownError(undelivered)) }
    }
}

/// Returns a provider of spans alone, for a process that makes calls.
pub(super) fn tracer(version: &str) -> Result<SdkTracerProvider, Error> {
    let runtime = exporter_runtime()?;
    let _entered = runtime.enter();
    traced(resource(version))
}

fn traced(resource: Resource) -> Result<SdkTracerProvider, Error> {
    let builder = SdkTracerProvider::builder().with_resource(resource);
    Ok(builder.with_batch_exporter(otlp::span_exporter()?).build())
}

/// Starts a runtime for the connections of the exporters only: on the runtime of the service, a
/// flush that blocks one of its workers could wait for that very worker.
///
/// The runtime is never stopped. An exporter that missed the deadline still runs in its own thread
/// and would panic on timers without a runtime; the end of the process ends both.
fn exporter_runtime() -> Result<Handle, Error> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("telemetry-export")
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    let handle = runtime.handle().clone();
    std::mem::forget(runtime);
    Ok(handle)
}

/// Later entries win: our attributes are defaults that the environment overrides.
fn resource(version: &str) -> Resource {
    let builder = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", "bellwether"),
            KeyValue::new("service.version", version.to_owned()),
            KeyValue::new("service.instance.id", instance_id()),
        ])
        .with_detectors(&[
            Box::new(TelemetryResourceDetector),
            Box::new(EnvResourceDetector::new()),
        ]);
    match env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => builder.with_service_name(name).build(),
        _ => builder.build(),
    }
}

/// Returns a random UUID (RFC 9562, version 4), by which a back end tells replicas apart; empty if
/// the system has no random numbers.
fn instance_id() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        return String::new();
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]];
    parts.map(hex).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_an_instance_id_of_its_own() {
        let (one, other) = (instance_id(), instance_id());
        assert_ne!(one, other);
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&one[14..15], "4");
        assert!("89ab".contains(&one[19..20]), "{one}");
    }
}
