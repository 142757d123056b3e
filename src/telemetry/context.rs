//! The trace context of the W3C in the headers of a call.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::global;
use opentelemetry::propagation::{Extractor, Injector};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The context that the other side sent; without a valid span when it sent none.
pub fn extract(headers: &HeaderMap) -> Context {
    let carrier = Received(headers);
    global::get_text_map_propagator(|propagator| {
        propagator.extract_with_context(&Context::new(), &carrier)
    })
}

/// Adds the context of the current span, for the other side to go on with.
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
        // What the propagator writes is ASCII; anything else is better left out than sent.
        let name = HeaderName::from_bytes(key.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            self.0.insert(name, value);
        }
    }
}
