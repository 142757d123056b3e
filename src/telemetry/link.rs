//! The trace of a commit. A commit carries commands of many calls, so its span is the root of a
//! trace of its own, with a link to the span of each call.

use opentelemetry::trace::{SpanContext, TraceContextExt};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::exports_traces;

/// The span of a call whose command waits for a commit. Boxed, because most commands have none.
#[derive(Debug, Clone)]
pub struct CallSpan(Box<SpanContext>);

impl CallSpan {
    /// Returns the span in which this runs; `None` if it is not exported.
    pub fn current() -> Option<CallSpan> {
        if !exports_traces() {
            return None;
        }
        let context = Span::current().context();
        let own = context.span().span_context().clone();
        own.is_sampled().then(|| CallSpan(Box::new(own)))
    }
}

/// Returns the span of a commit with `commands` commands; a disabled one if it has no callers.
pub fn commit_span(callers: &[CallSpan], commands: usize) -> Span {
    if callers.is_empty() {
        return Span::none();
    }
    let span = tracing::info_span!(
        target: "bellwether::commit",
        parent: None,
        "commit",
        otel.kind = "internal",
        commands,
        result = tracing::field::Empty
    );
    for CallSpan(context) in callers {
        span.add_link(SpanContext::clone(context));
    }
    span
}
