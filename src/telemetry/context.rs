//! The W3C trace context in the headers of a call.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::propagation::{Extractor, Injector};
use opentelemetry::{Context, global};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Returns the context that the peer sent; it has no valid span if the peer sent none.
pub fn extract(headers: &HeaderMap) -> Context {
    let carrier = Received(headers);
    global::get_text_map_propagator(|propagator| {
        propagator.extract_with_context(&Context::new(), &carrier)
    })
}

/// Adds the context of the current span, so that the peer continues the trace.
pub fn inject(headers: &mut HeaderMap) {
    let context = tracing::Span::current().context();
    let mut carrier = Sent(headers);
    global::get_text_map_propagator(|propagator| {
        propagator.inject_context(&context, &mut carrier);
    });
}

struct Received<'a>(&'a HeaderMap);

impl Extractor for Received<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct Sent<'a>(&'a mut HeaderMap);

impl Injector for Sent<'_> {
    fn set(&mut self, key: &str, value: String) {
        // The propagator writes ASCII; any other value is left out.
        let name = HeaderName::from_bytes(key.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            self.0.insert(name, value);
        }
    }
}
