//! What becomes of a span and of an event: lines on stderr, and records for the collector.

use std::env;
use std::io::{self, IsTerminal};

use opentelemetry::trace::TracerProvider;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Metadata;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::fmt::format;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::error::Error;
use super::options::Options;

/// A part of the subscriber.
pub(super) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The crates that an export itself goes through: telling the collector about them would cause the
/// next export, without end.
const EXPORT_PATH: &[&str] = &["h2", "hyper", "tonic", "tower", "opentelemetry"];

/// Logs on stderr, as the options say.
pub(super) fn stderr_layer(options: &Options) -> Result<BoxedLayer, Error> {
    let filter = filter(options)?;
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    if options.log_format.is_json() {
        return Ok(layer
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_filter(filter)
            .boxed());
    }
    // The first two name the span for the collector, in words that the others repeat.
    let fields = format::debug_fn(|writer, field, value| match field.name() {
        "otel.name" | "otel.kind" | "rpc.system.name" => Ok(()),
        "message" => write!(writer, "{value:?}"),
        name => write!(writer, "{name}={value:?}"),
    });
    let colour = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    Ok(layer
        .with_ansi(colour)
        .fmt_fields(fields.delimited(" "))
        .with_filter(filter)
        .boxed())
}

/// Spans for the collector. Its filter is not that of the logs: how many are kept is up to the
/// sampler, and quiet logs should not hide them.
pub(super) fn trace_layer(provider: &SdkTracerProvider) -> BoxedLayer {
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("bellwether"))
        // Each of these is work on every span, and says nothing about a call.
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(LevelFilter::INFO.and(filter_fn(is_ours)))
        .boxed()
}

/// Log records for the collector, filtered like those on stderr.
pub(super) fn record_layer(
    provider: &SdkLoggerProvider,
    options: &Options,
) -> Result<BoxedLayer, Error> {
    let filter = filter(options)?.and(filter_fn(is_ours));
    Ok(OpenTelemetryTracingBridge::new(provider)
        .with_filter(filter)
        .boxed())
}

fn filter(options: &Options) -> Result<EnvFilter, Error> {
    EnvFilter::builder()
        .parse(&options.log_filter)
        .map_err(|source| Error::LogFilter {
            filter: options.log_filter.clone(),
            source,
        })
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    !EXPORT_PATH
        .iter()
        .any(|name| metadata.target().starts_with(name))
}
