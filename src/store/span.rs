//! The span of what a store does for a commit: a sync of the log, a script of Redis. It is a child
//! of the span in which [`Store::commit`](super::Store::commit) runs, and leaves out the time in
//! which the commit waits for others.
//!
//! Names and attributes are those of OpenTelemetry for clients of databases.

use tracing::Span;
use tracing::field::Empty;

/// The target and the name of the span of a commit.
const COMMIT: (&str, &str) = ("bellwether::commit", "commit");

/// The span of a commit that is exported. Boxed, because most commits have none.
#[derive(Debug)]
pub(super) struct CommitSpan(Box<Span>);

impl CommitSpan {
    /// Returns the span in which this runs; `None`, after a look at this thread, if it is none of a
    /// commit.
    pub(super) fn current() -> Option<CommitSpan> {
        let span = Span::current();
        let data = span.metadata()?;
        ((data.target(), data.name()) == COMMIT).then(|| CommitSpan(Box::new(span)))
    }
}

/// What a store does for a group of commits, as spans that begin now and end when it is dropped.
#[must_use = "it measures until it is dropped"]
pub(super) struct StoreSpans(Vec<Span>);

impl StoreSpans {
    /// Begins a span for each of the traced ones of `count` commits.
    pub(super) fn begin<'a>(
        traced: impl IntoIterator<Item = &'a CommitSpan>,
        (system, operation): (&str, &str),
        count: usize,
    ) -> StoreSpans {
        let begin = |CommitSpan(commit): &CommitSpan| {
            let span = tracing::info_span!(
                target: "bellwether::store",
                parent: &**commit,
                "store",
                otel.name = operation,
                otel.kind = "client",
                otel.status_code = Empty,
                db.system.name = system,
                db.operation.name = operation,
                db.operation.batch.size = Empty,
                error.type = Empty,
            );
            if 1 < count {
                span.record("db.operation.batch.size", count);
            }
            span
        };
        StoreSpans(traced.into_iter().map(begin).collect())
    }

    /// Ends the spans with an error.
    pub(super) fn fail(self, kind: &str) {
        for span in &self.0 {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", kind);
        }
    }
}
