//! One call, from its request to its end, in every way that it can end.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Request};
use opentelemetry::trace::TraceContextExt;
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tracing::field::Empty;
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::deadline::Deadline;
use super::known::KnownMethod;
use crate::service::code::Reason;
use crate::service::method::Method;
use crate::telemetry::{self, OTHER_METHOD, PanicPlace, STREAM_SPAN, code_name, exports_traces};

/// Clocks differ a little, so the cancel of a caller at its deadline may arrive before the server's
/// own deadline.
const CLOCK_SLACK: Duration = Duration::from_millis(10);

/// The header of a caller that traces its calls.
static TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Maximum bytes of an unknown method's name in a span.
const ORIGINAL_METHOD_BYTES_MAX: usize = 100;

/// Records the call once: at [`Observed::finish`], or as cancelled if it is dropped before.
pub(super) struct Observed {
    pub(super) method: Arc<KnownMethod>,
    pub(super) span: Span,
    started: Instant,
    pub(super) deadline: Option<Deadline>,
    finished: bool,
}

/// The level of a span is part of its call site, so there is one call site for each level.
macro_rules! call_span {
    ($level:expr, $name:expr, $method:expr) => {
        tracing::span!(
            parent: None,
            $level,
            $name,
            otel.name = $method,
            otel.kind = "server",
            otel.status_code = Empty,
            rpc.system.name = "grpc",
            rpc.method = $method,
            rpc.method_original = Empty,
            rpc.response.status_code = Empty,
            error.type = Empty,
            trace_id = Empty,
        )
    };
}

impl Observed {
    pub(super) fn begin<B>(method: Arc<KnownMethod>, request: &Request<B>) -> Self {
        let started = Instant::now();
        let deadline = Deadline::from_headers(request.headers(), started);
        let name = method.name.as_str();
        // A span that is not exported is a tenth of the work of a call: without a trace, only level
        // debug creates one.
        let is_traced = exports_traces() || request.headers().contains_key(&TRACE_PARENT);
        let is_traced = is_traced && !method.row.is_some_and(Method::is_quiet);
        let span = match (is_traced, method.is_streaming) {
            (true, false) => call_span!(Level::INFO, "rpc", name),
            (true, true) => call_span!(Level::INFO, STREAM_SPAN, name),
            (false, _) => call_span!(Level::DEBUG, "rpc", name),
        };
        if !span.is_disabled() {
            join_trace(&span, request.headers());
            if name == OTHER_METHOD {
                let path = request.uri().path();
                let path = path.get(..ORIGINAL_METHOD_BYTES_MAX).unwrap_or(path);
                span.record("rpc.method_original", path);
            }
        }
        if method.is_streaming {
            method.metrics.stream_opened();
        }
        Self { method, span, started, deadline, finished: false }
    }

    /// Returns whether its method streams.
    pub(super) fn is_stream(&self) -> bool {
        self.method.is_streaming
    }

    /// Records the headers of the response. An error before the first message has its status in the
    /// headers.
    pub(super) fn answered(&mut self, code: Option<Code>, headers: &HeaderMap) {
        if let Some(code) = code {
            self.ended(code, headers);
        }
    }

    /// Records the final status of the call: its code, and the headers or trailers that have it.
    pub(super) fn ended(&mut self, code: Code, trailers: &HeaderMap) {
        // Decoding the status copies all trailers, so it is done only for the log.
        let status = self.is_server_error(code).then(|| Status::from_header_map(trailers));
        self.finish(code, status.flatten().as_ref());
    }

    /// Logs a panic of the handler, and returns the status for the caller.
    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) -> Status {
        self.method.panics.panic(PanicPlace::Call);
        self.span.in_scope(|| {
            tracing::error!(
                rpc.method = self.method.name.as_str(),
                panic = crate::sync::panic_text(panic),
                "handler panicked"
            );
        });
        Status::internal("the server failed at this call; its log says where")
    }

    /// Records the end; later calls have no effect.
    pub(super) fn finish(&mut self, code: Code, status: Option<&Status>) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let elapsed = self.started.elapsed();
        let server_error = self.is_server_error(code) && !status.is_some_and(is_client_error);
        if self.method.is_streaming {
            self.method.metrics.stream_finished(code, server_error);
        } else {
            // A span that is not exported leads nowhere.
            let is_exported = exports_traces() && !self.span.is_disabled();
            let context = is_exported.then(|| self.span.context());
            let span = context.as_ref().map(|context| context.span().span_context().clone());
            self.method.metrics.call_finished(code, server_error, elapsed, span.as_ref());
        }
        let code = code_name(code);
        self.span.record("rpc.response.status_code", code);
        if server_error {
            self.span.record("error.type", code);
            self.span.record("otel.status_code", "ERROR");
        }
        self.span.in_scope(|| self.log(code, server_error, status, elapsed));
        // The span ends now, even if the body is dropped later.
        self.span = Span::none();
    }

    fn log(&self, code: &str, server_error: bool, status: Option<&Status>, elapsed: Duration) {
        // The method is also on the line itself: a collector receives lines without their spans.
        let method = self.method.name.as_str();
        let elapsed_seconds = elapsed.as_secs_f64();
        let count = if server_error { self.method.failures.note() } else { None };
        let error = status.map(Status::message).filter(|text| !text.is_empty());
        if let Some(count) = count {
            tracing::warn!(
                rpc.method = method,
                rpc.response.status_code = code,
                error,
                elapsed_seconds,
                count,
                "call failed"
            );
        } else if server_error {
            tracing::debug!(
                rpc.method = method,
                rpc.response.status_code = code,
                error,
                elapsed_seconds,
                "call failed"
            );
        } else {
            tracing::debug!(
                rpc.method = method,
                rpc.response.status_code = code,
                elapsed_seconds,
                "call finished"
            );
        }
    }

    /// Returns whether an error is the server's fault. A deadline that the caller chose is not, and
    /// an unknown method is not.
    fn is_server_error(&self, code: Code) -> bool {
        match code {
            Code::Unknown | Code::Internal | Code::Unavailable | Code::DataLoss => true,
            Code::DeadlineExceeded => self.deadline.is_none(),
            _ => false,
        }
    }
}

/// Returns whether the error is the fault of the client, although its code is `INTERNAL`.
fn is_client_error(status: &Status) -> bool {
    let (_, reason) = Reason::UnannouncedCompression.wire();
    status.get_details_error_info().is_some_and(|info| info.reason == reason)
}

impl Drop for Observed {
    fn drop(&mut self) {
        let now = Instant::now();
        let is_past = |deadline: Deadline| now + CLOCK_SLACK >= deadline.0;
        let in_time = !self.deadline.is_some_and(is_past);
        self.finish(if in_time { Code::Cancelled } else { Code::DeadlineExceeded }, None);
    }
}

/// Makes the span a child of the caller's span. This works only before the span is entered or its
/// own context is read, which starts it.
fn join_trace(span: &Span, headers: &HeaderMap) {
    let remote = telemetry::extract(headers);
    let remote_id = remote.span().span_context().trace_id();
    if remote.span().span_context().is_valid() {
        // An error means that no traces are exported; the trace id is still recorded below.
        let _ = span.set_parent(remote);
    }
    let context = span.context();
    let own = context.span().span_context().clone();
    let trace_id = if own.is_valid() { own.trace_id() } else { remote_id };
    if trace_id != opentelemetry::TraceId::INVALID {
        span.record("trace_id", tracing::field::display(trace_id));
    }
}
