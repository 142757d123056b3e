//! Where spans and events go: lines on stderr, and records for the collector.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal};

use opentelemetry::trace::TracerProvider;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Metadata;
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FormatFields, FormattedFields};
use tracing_subscriber::{Layer, Registry};

use super::error::Error;
use super::options::Options;

/// A layer of the subscriber.
pub(super) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The crates that an export itself uses. Exporting their events would cause the next export,
/// without end.
const EXPORT_PATH: &[&str] = &["h2", "hyper", "tonic", "tower", "opentelemetry"];

/// Returns the layer that writes logs to stderr: text if stderr is a terminal, else JSON.
pub(super) fn stderr_layer(options: &Options) -> Result<BoxedLayer, Error> {
    let filter = filter(options)?;
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    if !io::stderr().is_terminal() {
        return Ok(layer
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_filter(filter)
            .boxed());
    }
    let colour = env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    Ok(layer.with_ansi(colour).fmt_fields(TextFields).with_filter(filter).boxed())
}

/// Returns the layer that exports spans. It does not use the filter of the logs: the sampler
/// decides how many spans are kept, and a filter for quiet logs must not hide them.
pub(super) fn trace_layer(provider: &SdkTracerProvider) -> BoxedLayer {
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("bellwether"))
        // Each of these is work on every span and adds nothing about a call.
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(LevelFilter::INFO.and(filter_fn(is_ours)))
        .boxed()
}

/// Returns the layer that exports log records, filtered like those on stderr.
pub(super) fn record_layer(
    provider: &SdkLoggerProvider,
    options: &Options,
) -> Result<BoxedLayer, Error> {
    let filter = filter(options)?.and(filter_fn(is_ours));
    Ok(OpenTelemetryTracingBridge::new(provider).with_filter(filter).boxed())
}

fn filter(options: &Options) -> Result<Targets, Error> {
    targets(&options.log_filter)
        .map_err(|error| Error::LogFilter(options.log_filter.clone(), error))
}

/// Parses directives that are separated by commas: `level`, `target=level`, or `target` for all its
/// levels. Directives on spans and fields are refused: they would need regular expressions.
fn targets(filter: &str) -> Result<Targets, Box<dyn std::error::Error + Send + Sync>> {
    let is_path = |c: char| c.is_alphanumeric() || "_:-".contains(c);
    let mut targets = Targets::new();
    for directive in filter.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        if let Ok(level) = directive.parse::<LevelFilter>() {
            targets = targets.with_default(level);
            continue;
        }
        let (target, level) = directive.split_once('=').unwrap_or((directive, "trace"));
        if target.is_empty() || level.is_empty() || !target.chars().all(is_path) {
            return Err("invalid filter directive".into());
        }
        targets = targets.with_target(target, level.parse::<LevelFilter>()?);
    }
    Ok(targets)
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    !EXPORT_PATH.iter().any(|name| metadata.target().starts_with(name))
}

/// Fields as text, without those that only a collector uses: on a line for people they would repeat
/// the other fields.
struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        TextFields::write(writer, true, fields)
    }

    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &Record<'_>,
    ) -> fmt::Result {
        let is_first = current.fields.is_empty();
        TextFields::write(current.as_writer(), is_first, fields)
    }
}

impl TextFields {
    fn write(writer: Writer<'_>, is_first: bool, fields: impl RecordFields) -> fmt::Result {
        let mut visitor = TextVisitor { writer, is_first, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct TextVisitor<'w> {
    writer: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl Visit for TextVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = field.name();
        if name.starts_with("otel.") || name == "rpc.system.name" || self.result.is_err() {
            return;
        }
        let space = if std::mem::replace(&mut self.is_first, false) { "" } else { " " };
        self.result = match name {
            "message" => write!(self.writer, "{space}{value:?}"),
            _ => write!(self.writer, "{space}{name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_filter_has_levels_and_targets() {
        use LevelFilter as L;
        for (filter, default, named) in [
            ("info", Some(L::INFO), vec![]),
            ("info,bellwether=trace", Some(L::INFO), vec![("bellwether", L::TRACE)]),
            ("WARN, h2=error", Some(L::WARN), vec![("h2", L::ERROR)]),
            ("h2=off,a::b=4,", None, vec![("a::b", L::DEBUG), ("h2", L::OFF)]),
            ("bellwether", None, vec![("bellwether", L::TRACE)]),
        ] {
            let parsed = targets(filter).expect(filter);
            let mut found: Vec<_> = parsed.iter().collect();
            found.sort();
            assert_eq!((parsed.default_level(), found), (default, named), "{filter}");
        }
        for filter in
            ["=debug", "a=", "a=b=info", "info,a=loud", "a[rpc]=info", "[{b}]=info", "a b"]
        {
            assert!(targets(filter).is_err(), "{filter}");
        }
    }

    #[test]
    fn text_is_without_the_words_for_the_collector() {
        let written = Written::default();
        let writer = written.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let layer = layer.with_ansi(false).without_time().fmt_fields(TextFields);
        // Two subscribers: with only one in the process, tracing asks only the subscriber of the
        // current thread, and the threads of other tests have none.
        let _second = tracing::Dispatch::new(tracing_subscriber::registry());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let empty = tracing::field::Empty;
            let span = tracing::info_span!("rpc", otel.kind = "server", code = empty, late = empty);
            span.record("otel.kind", "client");
            span.record("code", "OK");
            span.record("late", 2);
            span.in_scope(|| tracing::info!(rpc.system.name = "grpc", n = 1, "it happened"));
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let target = module_path!();
        assert_eq!(text, format!(" INFO rpc{{code=\"OK\" late=2}}: {target}: it happened n=1\n"));
    }
}
