//! The trace of a call: the context of OpenTelemetry in which it is made, as the header
//! `traceparent`.

use tonic::metadata::MetadataMap;
#[cfg(feature = "opentelemetry")]
use {
    opentelemetry::propagation::Injector,
    opentelemetry::{Context, global},
    tonic::metadata::{MetadataKey, MetadataValue},
};

/// Adds the current context by the propagator of the process, which is the program's choice.
#[cfg(feature = "opentelemetry")]
pub(crate) fn inject(metadata: &mut MetadataMap) {
    global::get_text_map_propagator(|propagator| {
        propagator.inject_context(&Context::current(), &mut Sent(metadata));
    });
}

/// Adds nothing: the package is built without traces.
#[cfg(not(feature = "opentelemetry"))]
pub(crate) fn inject(_: &mut MetadataMap) {}

#[cfg(feature = "opentelemetry")]
struct Sent<'a>(&'a mut MetadataMap);

#[cfg(feature = "opentelemetry")]
impl Injector for Sent<'_> {
    fn set(&mut self, key: &str, value: String) {
        // Propagators write ASCII; any other value is left out.
        let key = MetadataKey::from_bytes(key.as_bytes());
        if let (Ok(key), Ok(value)) = (key, MetadataValue::try_from(value)) {
            self.0.insert(key, value);
        }
    }
}

#[cfg(feature = "opentelemetry")]
#[cfg(test)]
mod tests {
    use opentelemetry::trace::{
        SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState,
    };
    use opentelemetry_sdk::propagation::TraceContextPropagator;

    use super::*;

    #[test]
    fn a_call_continues_the_trace_in_which_it_is_made() {
        global::set_text_map_propagator(TraceContextPropagator::new());
        let mut outside = MetadataMap::new();
        inject(&mut outside);
        assert!(outside.get("traceparent").is_none());
        let (trace, span) = (TraceId::from(0xabc), SpanId::from(0xdef));
        let remote =
            SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::default());
        let _entered = Context::new().with_remote_span_context(remote).attach();
        let mut inside = MetadataMap::new();
        inject(&mut inside);
        let expected = "00-00000000000000000000000000000abc-0000000000000def-01";
        assert_eq!(inside.get("traceparent").unwrap(), expected);
    }
}
