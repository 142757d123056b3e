//! The newest traced call of each bucket of the histogram of calls: a slow bucket leads to a trace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use opentelemetry::trace::SpanContext;

use crate::sync::lock;

/// One traced call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exemplar {
    /// The trace, in hexadecimal digits.
    pub(super) trace_id: String,
    /// The span of the call.
    pub(super) span_id: String,
    /// The duration of the call in seconds.
    pub(super) seconds: f64,
    /// The end of the call.
    pub(super) time: SystemTime,
}

/// The histogram of one set of labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Series {
    /// The name of the method.
    pub(super) method: Arc<str>,
    /// The name of the status code.
    pub(super) code: Arc<str>,
    /// Whether the series has the label `error_type`.
    pub(super) is_server_error: bool,
}

/// The newest exemplar of each bucket of each series. Their number is that of the series at
/// `/metrics`.
#[derive(Debug, Clone, Default)]
pub(super) struct Exemplars(Arc<Mutex<BTreeMap<Series, Vec<Option<Exemplar>>>>>);

impl Exemplars {
    /// Records a call whose trace is sampled. `bounds` are the upper bounds of the buckets.
    pub(super) fn record(&self, series: Series, span: &SpanContext, seconds: f64, bounds: &[f64]) {
        let bucket = bounds.partition_point(|bound| *bound < seconds);
        let exemplar = Exemplar {
            trace_id: span.trace_id().to_string(),
            span_id: span.span_id().to_string(),
            seconds,
            time: SystemTime::now(),
        };
        let mut all = lock(&self.0);
        let buckets = all.entry(series).or_insert_with(|| vec![None; bounds.len() + 1]);
        buckets[bucket] = Some(exemplar);
    }

    /// Returns the exemplars of a series, one place for each bucket; none if no call was traced.
    pub(super) fn of(&self, series: &Series) -> Vec<Option<Exemplar>> {
        lock(&self.0).get(series).cloned().unwrap_or_default()
    }
}
