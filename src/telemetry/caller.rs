//! The trace of a command line: one span for its run, which each of its calls continues.

use std::env;
use std::time::Duration;

use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;

use super::otlp::Exports;
use super::provider;

/// Time that the export of the span may take at the end. A collector that is down delays a command
/// by this at most.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// The variables in which a process receives the trace of its caller, as a call does in the headers
/// `traceparent` and `tracestate`.
const PARENT: &str = "TRACEPARENT";
const STATE: &str = "TRACESTATE";

/// The trace of a process that makes calls.
pub struct CallerTrace {
    context: Context,
    provider: Option<SdkTracerProvider>,
}

impl CallerTrace {
    /// Continues the trace that the environment names. Begins a span for `command` if the
    /// environment has a collector for it.
    pub fn begin(command: &str, version: &str) -> CallerTrace {
        let propagator = TraceContextPropagator::new();
        let parent = received(&propagator, |name| env::var(name).ok());
        global::set_text_map_propagator(propagator);
        // A setting that only the server refuses does not fail a command: it then exports nothing.
        let exports = Exports::read(|name| env::var(name).ok()).is_ok_and(|one| one.traces);
        let provider = if exports { provider::tracer(version).ok() } else { None };
        let context = match &provider {
            None => parent,
            Some(provider) => {
                let tracer = provider.tracer("bellwether");
                let span = tracer
                    .span_builder(format!("bellwether {command}"))
                    .with_kind(SpanKind::Internal)
                    .with_attributes([
                        KeyValue::new("process.executable.name", "bellwether"),
                        KeyValue::new("process.pid", i64::from(std::process::id())),
                    ])
                    .start_with_context(&tracer, &parent);
                parent.with_span(span)
            }
        };
        CallerTrace { context, provider }
    }

    /// Returns the context for the calls.
    pub fn context(&self) -> Context {
        self.context.clone()
    }

    /// Ends the span with the exit code, and delivers it.
    pub fn end(self, exit_code: u8) {
        let Some(provider) = self.provider else { return };
        let span = self.context.span();
        span.set_attribute(KeyValue::new("process.exit.code", i64::from(exit_code)));
        if exit_code != 0 {
            span.set_attribute(KeyValue::new("error.type", exit_code.to_string()));
            span.set_status(Status::error(format!("exit code {exit_code}")));
        }
        span.end();
        // The command has done its work: a collector that is down changes nothing.
        let _ = provider.shutdown_with_timeout(FLUSH_MAX);
    }
}

/// Reads the context from the variables of a caller; it has no valid span without them.
fn received(
    propagator: &TraceContextPropagator,
    variable: impl Fn(&str) -> Option<String>,
) -> Context {
    use opentelemetry::propagation::TextMapPropagator;
    // The propagator fills up numbers that are too short.
    let is_whole = |parent: &String| {
        let lengths = parent.split('-').take(4).map(str::len);
        lengths.eq([2, 32, 16, 2])
    };
    let Some(parent) = variable(PARENT).filter(is_whole) else { return Context::new() };
    let state = variable(STATE).map(|state| ("tracestate".to_string(), state));
    let given = [("traceparent".to_string(), parent)].into_iter().chain(state);
    let headers: std::collections::HashMap<String, String> = given.collect();
    propagator.extract_with_context(&Context::new(), &headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_the_caller_is_read_from_the_environment() {
        let of = |parent: Option<&str>| {
            let variable = |name: &str| parent.filter(|_| name == PARENT).map(String::from);
            let context = received(&TraceContextPropagator::new(), variable);
            context.span().span_context().clone()
        };
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = of(Some(parent));
        assert_eq!(read.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(read.is_sampled() && read.is_remote());
        for wrong in [None, Some(""), Some("00-1-2-3"), Some("no trace")] {
            assert!(!of(wrong).is_valid(), "{wrong:?}");
        }
    }
}
