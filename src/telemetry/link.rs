//! The trace of a commit. A commit for one unary call is a child of its span. A commit that carries
//! commands of many calls, or one of a stream, is the root of a trace of its own: its span and
//! those of the unary calls have links to each other, and it has a link to each stream.

use opentelemetry::trace::{SpanContext, TraceContextExt};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::exports_traces;

/// Name of the `tracing` span of a stream. A stream makes any number of commits, so they are no
/// children of it, and it has no links to them: its trace would grow without end.
pub const STREAM_SPAN: &str = "stream";

/// The span of a call whose command waits for a commit. Boxed, because most commands have none.
#[derive(Debug, Clone)]
pub struct CallSpan(Box<Traced>);

#[derive(Debug, Clone)]
struct Traced {
    context: SpanContext,
    /// The span of a unary call.
    unary: Option<Span>,
}

impl CallSpan {
    /// Returns the span in which this runs; `None` if it is not exported.
    pub fn current() -> Option<CallSpan> {
        if !exports_traces() {
            return None;
        }
        let span = Span::current();
        let context = span.context().span().span_context().clone();
        if !context.is_sampled() {
            return None;
        }
        let is_stream = span.metadata().is_some_and(|data| data.name() == STREAM_SPAN);
        Some(CallSpan(Box::new(Traced { context, unary: (!is_stream).then_some(span) })))
    }
}

/// The calls that wait for one commit.
#[derive(Debug, Default)]
pub struct Callers {
    traced: Vec<CallSpan>,
    count: usize,
}

impl Callers {
    /// Adds a call, with its span if it is exported.
    pub fn add(&mut self, span: Option<CallSpan>) {
        self.traced.extend(span);
        self.count += 1;
    }

    /// Forgets the calls of the last commit.
    pub fn clear(&mut self) {
        self.traced.clear();
        self.count = 0;
    }

    /// Returns the span of the only call, if it is unary and exported.
    fn only(&self) -> Option<&Span> {
        match (&self.traced[..], self.count) {
            ([CallSpan(only)], 1) => only.unary.as_ref(),
            _ => None,
        }
    }

    /// Returns the span of a commit with `commands` commands for these calls; a disabled one if
    /// none of them is traced.
    pub fn commit_span(&self, commands: usize) -> Span {
        if self.traced.is_empty() {
            return Span::none();
        }
        let only = self.only();
        let span = tracing::info_span!(
            target: "bellwether::commit",
            parent: only.and_then(Span::id),
            "commit",
            otel.kind = "internal",
            commands,
            result = tracing::field::Empty
        );
        if only.is_none() {
            for CallSpan(caller) in &self.traced {
                span.add_link(caller.context.clone());
            }
            let own = span.context().span().span_context().clone();
            for unary in self.traced.iter().filter_map(|CallSpan(caller)| caller.unary.as_ref()) {
                unary.add_link(own.clone());
            }
        }
        span
    }
}
