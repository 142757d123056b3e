//! The metrics of calls to the gRPC server, by the semantic conventions of OpenTelemetry.
//!
//! A stream lasts as long as its watcher wants, which says nothing about the speed of the server:
//! streams are counted apart and stay out of the histogram.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};
use opentelemetry::trace::SpanContext;
use tonic::Code;

use super::exemplar::{Exemplars, Series};

/// The label for all unknown methods. Clients choose such names, so the names are no labels.
pub const OTHER_METHOD: &str = "_OTHER";

/// Buckets of a call in seconds: from 0.5 ms, as most calls wait for one commit at most, to the 10
/// s of the conventions. Each method has a histogram for each code, so they are few.
const CALL_SECONDS: &[f64] = &[0.0005, 0.0025, 0.01, 0.05, 0.25, 1.0, 10.0];

/// The name of the histogram of calls at `/metrics`.
pub(super) const CALLS_FAMILY: &str = "rpc_server_call_duration_seconds";

const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Returns the name of a code in the protocol, such as `NOT_FOUND`.
pub fn code_name(code: Code) -> &'static str {
    CODES[code as usize]
}

#[derive(Clone)]
pub(super) struct RpcInstruments {
    exemplars: Exemplars,
    calls: Histogram<f64>,
    streams_open: UpDownCounter<i64>,
    streams_finished: Counter<u64>,
}

impl RpcInstruments {
    pub(super) fn new(meter: &Meter, exemplars: Exemplars) -> Self {
        Self {
            exemplars,
            calls: meter
                .f64_histogram("rpc.server.call.duration")
                .with_unit("s")
                .with_description("Duration of calls that are not streams.")
                .with_boundaries(CALL_SECONDS.to_vec())
                .build(),
            streams_open: meter
                .i64_up_down_counter("bellwether.rpc.streams")
                .with_description("Streaming calls that are open.")
                .build(),
            streams_finished: meter
                .u64_counter("bellwether.rpc.streams.finished")
                .with_description("Streaming calls that ended.")
                .build(),
        }
    }
}

/// The metrics of one method, with every set of labels prepared.
#[derive(Clone)]
pub struct RpcMethod {
    instruments: RpcInstruments,
    name: Arc<str>,
    method: [KeyValue; 2],
    /// The labels for each code: first without a fault of the server, then with one.
    by_code: Vec<[Vec<KeyValue>; 2]>,
}

impl RpcMethod {
    pub(super) fn new(instruments: &RpcInstruments, name: &str) -> Self {
        let method = [
            KeyValue::new("rpc.system.name", "grpc"),
            KeyValue::new("rpc.method", name.to_owned()),
        ];
        let by_code = CODES.map(|code| {
            let mut labels = method.to_vec();
            labels.push(KeyValue::new("rpc.response.status_code", code));
            let blameless = labels.clone();
            labels.push(KeyValue::new("error.type", code));
            [blameless, labels]
        });
        let instruments = instruments.clone();
        Self { instruments, name: name.into(), method, by_code: by_code.into() }
    }

    /// Records a call that was not a stream. A call whose span is sampled is an exemplar.
    pub fn call_finished(
        &self,
        code: Code,
        server_error: bool,
        elapsed: Duration,
        span: Option<&SpanContext>,
    ) {
        let seconds = elapsed.as_secs_f64();
        self.instruments.calls.record(seconds, self.labels(code, server_error));
        if let Some(span) = span.filter(|span| span.is_valid() && span.is_sampled()) {
            let (method, code) = (self.name.clone(), code_name(code).into());
            let series = Series { method, code, is_server_error: server_error };
            self.instruments.exemplars.record(series, span, seconds, CALL_SECONDS);
        }
    }

    /// Counts a streaming call as open.
    pub fn stream_opened(&self) {
        self.instruments.streams_open.add(1, &self.method);
    }

    /// Counts a streaming call as ended.
    pub fn stream_finished(&self, code: Code, server_error: bool) {
        self.instruments.streams_open.add(-1, &self.method);
        self.instruments.streams_finished.add(1, self.labels(code, server_error));
    }

    fn labels(&self, code: Code, server_error: bool) -> &[KeyValue] {
        &self.by_code[code as usize][usize::from(server_error)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_word() {
        assert_eq!(code_name(Code::Ok), "OK");
        assert_eq!(code_name(Code::Cancelled), "CANCELLED");
        assert_eq!(code_name(Code::OutOfRange), "OUT_OF_RANGE");
        assert_eq!(code_name(Code::DataLoss), "DATA_LOSS");
        assert_eq!(code_name(Code::Unauthenticated), "UNAUTHENTICATED");
    }
}
